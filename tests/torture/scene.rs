//! What all parts do with their servers: waiting until all is done, and reading what is left.

use crate::account::{Left, Place};
use crate::common::{bytes, wait_for, Server};
use crate::crew::number_of;

/// Every job that the server holds in these queues.
pub fn left_in(server: &Server, queues: &[String], left: &mut Left) {
    for queue in queues {
        let mut q = server.queue(queue);
        q.check_clean();
        let raw = q.read_raw();
        for (bodies, place) in [(raw.jobs, Place::Live), (raw.dead, Place::Dead)] {
            for id in bodies.keys() {
                let id = String::from_utf8(id.clone()).expect("an id is ASCII");
                let payload = bytes(&q.get(&id).expect("the job is there")["payload"]);
                let job = number_of(&payload).unwrap_or_else(|| panic!("{id} has the payload {payload:?}"));
                left.entry(job).or_default().push(place);
            }
        }
    }
}

/// Waits until no queue has a job that is due or leased.
pub fn wait_until_done(server: &Server, queues: &[String]) {
    for queue in queues {
        let mut q = server.queue(queue);
        q.unwatched();
        wait_for("all to be done", || q.stats(["ready", "delayed", "leased"]) == [0, 0, 0]);
    }
}
