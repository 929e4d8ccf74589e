//! What all parts do with their servers: waiting until all is done, and reading what is left.

use std::time::Instant;

use crate::account::{Left, Place};
use crate::common::{bytes, Server, DEADLINE, PAUSE};
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
        let end = Instant::now() + 2 * DEADLINE;
        while q.stats(["ready", "delayed", "leased"]) != [0, 0, 0] {
            let raw = || format!("{:?}", server.queue(queue).unwatched().read_raw());
            assert!(
                Instant::now() < end,
                "waited in vain for all of {queue} to be done: {:?}\n{}",
                q.stats_list(),
                raw()
            );
            std::thread::sleep(PAUSE);
        }
    }
}
