//! The settings of one queue: its own, which its header holds, and else the server's at the moment of use.

use super::{Fault, Queue};
use crate::redis::Text;
use crate::settings::{Setting, MAX_LEASED, OF_QUEUES};
use std::rc::Rc;

/// What rules a queue. Most have nothing of their own.
#[derive(Clone, Default)]
pub struct Rules(Option<Rc<[(&'static Setting, u64)]>>);

impl Rules {
    fn own(&self, setting: &Setting) -> Option<u64> {
        self.0.as_ref()?.iter().find(|(own, _)| own.is(setting)).map(|(_, value)| *value)
    }

    pub fn get(&self, setting: &Setting) -> u64 {
        self.own(setting).unwrap_or_else(|| setting.get())
    }

    /// The value as a size or count of this machine.
    pub fn size(&self, setting: &Setting) -> usize {
        usize::try_from(self.get(setting)).unwrap_or(usize::MAX)
    }

    /// The value as a small count.
    pub fn count(&self, setting: &Setting) -> u32 {
        u32::try_from(self.get(setting)).unwrap_or(u32::MAX)
    }

    /// The limit that the value sets, where 0 stands for none.
    pub fn limit(&self, setting: &Setting) -> Option<u64> {
        Some(self.get(setting)).filter(|value| *value != 0)
    }

    /// The queue's own, as fields of the header.
    pub(super) fn fields(&self) -> impl Iterator<Item = (Text, Text)> + '_ {
        self.0.iter().flat_map(|own| own.iter()).map(|(setting, value)| (field(setting), text(setting, *value)))
    }
}

impl FromIterator<(&'static Setting, u64)> for Rules {
    fn from_iter<I: IntoIterator<Item = (&'static Setting, u64)>>(own: I) -> Rules {
        let own: Rc<[_]> = own.into_iter().collect();
        Rules(Some(own).filter(|own| !own.is_empty()))
    }
}

fn field(setting: &Setting) -> Text {
    Text::new(setting.short_name().as_bytes())
}

fn text(setting: &Setting, value: u64) -> Text {
    Text::new(setting.format(value).as_bytes())
}

/// Whose value counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Queue,
    Server,
    /// The server's: what another hand wrote into the header is no value.
    Invalid,
}

impl Queue<'_> {
    /// The rules, as the header was when this step looked or, where it is known to be the same, before. One that was
    /// taken away counts as it was last known, while there are jobs.
    pub fn rules(&mut self) -> Rules {
        if self.header_is_known() || self.header.exists() || self.jobs.exists() {
            self.state.header.borrow().rules.clone()
        } else {
            Rules::default()
        }
    }

    /// What of the header's fields are values of a setting.
    pub(super) fn read_rules(&mut self) -> Rules {
        OF_QUEUES
            .iter()
            .filter_map(|setting| Some((*setting, setting.read(self.own_text(setting)?.as_bytes())?)))
            .collect()
    }

    fn own_text(&mut self, setting: &Setting) -> Option<Text> {
        self.header.get(&field(setting))
    }

    /// The values that count here, and whose they are. What another hand wrote into the header counts from now on.
    pub fn show_rules(&mut self, settings: &[&'static Setting]) -> Vec<(&'static Setting, u64, Source)> {
        self.read_header();
        let rules = self.rules();
        let mut show = |setting: &'static Setting| match rules.own(setting) {
            Some(value) => (setting, value, Source::Queue),
            None if self.own_text(setting).is_some() => (setting, setting.get(), Source::Invalid),
            None => (setting, setting.get(), Source::Server),
        };
        settings.iter().map(|setting| show(setting)).collect()
    }

    /// Gives the queue values of its own; makes the header where there is none.
    pub fn set_rules(&mut self, values: &[(&'static Setting, u64)]) -> Result<(), Fault> {
        self.check_memory()?;
        self.make_header();
        let before = self.rules();
        for (setting, value) in values {
            let (field, text) = (field(setting), text(setting, *value));
            if self.header.get(&field).is_none_or(|set| set.as_bytes() != text.as_bytes()) {
                self.header.put(&field, text);
            }
        }
        self.learn_rules(&before);
        Ok(())
    }

    /// Lets the server's values count again; says how many the queue had of its own.
    pub fn reset_rules(&mut self, settings: &[&'static Setting]) -> usize {
        self.restore_header();
        let before = self.rules();
        let removed = settings.iter().filter(|setting| self.header.remove(&field(setting))).count();
        self.learn_rules(&before);
        removed
    }

    /// The rules are others now: where that may make room for leases, those who wait are looked at.
    fn learn_rules(&mut self, before: &Rules) {
        self.learn_header();
        if self.rules().get(&MAX_LEASED) != before.get(&MAX_LEASED) {
            self.first_due = Some(self.now());
        }
    }
}
