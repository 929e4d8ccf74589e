//! The header: the HASH under the queue's own name, which marks it as a queue and says when it was made.

use super::Queue;
use crate::redis::Text;

/// The field that marks a HASH as a queue's header; its value is the version of the layout.
const MARK: &[u8] = b"dq";
const VERSION: &[u8] = b"1";
/// The field that says when the header was made, in ms of queue time.
const MADE: &[u8] = b"made";

impl Queue<'_> {
    pub(super) fn header_is_ours(&mut self) -> bool {
        !self.header.exists() || self.header.has(&Text::new(MARK))
    }

    pub(super) fn make_header(&mut self) {
        if !self.header.exists() {
            let made = Text::of_integer(i64::try_from(self.now()).unwrap_or(i64::MAX));
            self.header.put(&Text::new(MARK), Text::new(VERSION));
            self.header.put(&Text::new(MADE), made);
        }
    }

    /// Makes a header again that was taken away while there are jobs; `true` where it did.
    pub fn restore_header(&mut self) -> bool {
        let lost = !self.header.exists() && self.jobs.exists();
        if lost {
            self.make_header();
            self.state.metrics.headers_remade.add(1);
        }
        lost
    }

    /// Takes away the header of a queue that has nothing else; `true` where the queue is gone now.
    pub fn remove_idle_header(&mut self) -> bool {
        if self.has_companions() {
            return false;
        }
        for field in [MARK, MADE] {
            self.header.remove(&Text::new(field));
        }
        !self.header.exists()
    }
}
