//! The header: the HASH under the queue's own name, which marks it as a queue and holds what is set for it.

use super::rules::Rules;
use super::state::Header;
use super::{Fault, Queue};
use crate::redis::Text;
use crate::settings::MAX_LEASED;

/// The field that marks a HASH as a queue's header; its value is the version of the layout.
pub(super) const MARK: &[u8] = b"dq";
const VERSION: &[u8] = b"1";
/// The field that says when the header was made, in ms of queue time.
const MADE: &[u8] = b"made";
/// The field that a paused queue has: since when, in ms of queue time.
pub(super) const PAUSED: &[u8] = b"paused";

impl Queue<'_> {
    pub(super) fn header_is_ours(&mut self) -> bool {
        !self.header.exists() || self.header.has(&self.state.keys.mark)
    }

    pub(super) fn header_is_known(&self) -> bool {
        self.remembers_header && self.state.header_holds.get()
    }

    /// Makes the header where there is none: as it was last known where the queue has jobs, else a fresh one.
    pub(super) fn make_header(&mut self) {
        if self.header_is_known() || self.header.exists() {
            return;
        }
        if !self.jobs.exists() {
            self.state.header.replace(Header::default());
        }
        let known = self.state.header.borrow().clone();
        let made = known.made.unwrap_or_else(|| self.now_text());
        self.header.put(&self.state.keys.mark, Text::new(VERSION));
        self.header.put(&Text::new(MADE), made.clone());
        if let Some(since) = &known.paused {
            self.header.put(&self.state.keys.paused, since.clone());
        }
        for (field, value) in known.rules.fields() {
            self.header.put(&field, value);
        }
        self.state.header.replace(Header { made: Some(made), ..known });
        self.state.header_holds.set(true);
    }

    /// Remembers the header as it is, for the next look and for the day that it is taken away.
    pub fn learn_header(&mut self) {
        if self.header.exists() {
            self.read_header();
            self.state.header_holds.set(true);
        }
    }

    /// As `learn_header`, for this step alone: who only follows is not told when the header changes.
    pub(super) fn read_header(&mut self) {
        if self.header.exists() {
            let made = self.header.get(&Text::new(MADE));
            let paused = self.header.get(&self.state.keys.paused);
            let known = 1 + usize::from(made.is_some()) + usize::from(paused.is_some());
            let rules = if self.header.len() > known { self.read_rules() } else { Rules::default() };
            self.state.header.replace(Header { made, paused, rules });
        }
    }

    /// Looks at the header again, which another hand may have written to. If that lets jobs be claimed, those who wait
    /// are looked at.
    pub fn look_at_header_again(&mut self) {
        let was_paused = self.is_paused();
        let max_leased = self.rules().get(&MAX_LEASED);
        self.learn_header();
        if was_paused && !self.is_paused() {
            self.state.resumed_at.set(self.now());
        }
        if was_paused != self.is_paused() || max_leased != self.rules().get(&MAX_LEASED) {
            self.first_due = Some(self.now());
        }
    }

    fn now_text(&self) -> Text {
        Text::of_integer(i64::try_from(self.now()).unwrap_or(i64::MAX))
    }

    /// Whether nothing is to be claimed. A header that was taken away counts as it was last known.
    pub fn is_paused(&mut self) -> bool {
        if !self.header_is_known() && self.header.exists() {
            return self.header.has(&self.state.keys.paused);
        }
        self.state.header.borrow().paused.is_some() && (self.header_is_known() || self.jobs.exists())
    }

    /// Refuses to make a new queue while the server is over `maxmemory`, for commands that the server lets through then.
    pub(super) fn check_memory(&mut self) -> Result<(), Fault> {
        if !self.exists() && self.ctx.is_out_of_memory() {
            return Err(Fault::OutOfMemory);
        }
        Ok(())
    }

    /// PAUSE: makes the header where there is none.
    pub fn pause(&mut self) -> Result<(), Fault> {
        self.check_memory()?;
        self.make_header();
        if !self.is_paused() {
            let now = self.now_text();
            self.header.put(&self.state.keys.paused, now);
            self.learn_header();
        }
        Ok(())
    }

    /// RESUME: what is due can be claimed again, and the time in which it could not does not make it stale.
    pub fn resume(&mut self) {
        if self.is_paused() {
            self.make_header();
            self.header.remove(&self.state.keys.paused);
            self.learn_header();
            self.state.resumed_at.set(self.now());
            self.first_due = Some(self.now());
        }
    }

    /// Makes a header again that was taken away while there are jobs; `true` where it did.
    pub fn restore_header(&mut self) -> bool {
        let lost = !self.header.exists() && self.jobs.exists();
        if lost {
            self.state.header_holds.set(false);
            self.make_header();
            self.state.metrics.headers_remade.add(1);
        }
        lost
    }

    /// Takes away the header of a queue that has nothing else; `true` where the queue is gone now. The header of a
    /// paused queue and one with settings say something, and stay.
    pub fn remove_idle_header(&mut self) -> bool {
        if self.has_companions() || self.header.len() > [MARK, MADE].len() {
            return false;
        }
        self.state.header_holds.set(false);
        for field in [MARK, MADE] {
            self.header.remove(&Text::new(field));
        }
        !self.header.exists()
    }
}
