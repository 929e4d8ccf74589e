//! Figures of DQ.STATS that must add up as long as one server process lives.

use std::collections::BTreeMap;

use crate::common::Server;

/// What every queue's figures add up to.
pub struct Figures(Vec<(String, BTreeMap<String, i64>)>);

impl Figures {
    pub fn read(server: &Server, queues: &[String]) -> Figures {
        let read = |queue: &String| {
            let mut q = server.queue(queue);
            (queue.clone(), q.unwatched().stats_list().into_iter().collect())
        };
        Figures(queues.iter().map(read).collect())
    }

    /// Only a push adds a job, and only an ACK removes one: so many were there before the server counted.
    fn kept(all: &BTreeMap<String, i64>) -> i64 {
        sum(all, &["ready", "delayed", "leased", "dead", "acked", "dead-evicted"]) - all["pushed"]
    }

    /// Each claim runs or has ended in one way; an act that came late counts beside the lapse.
    fn late(all: &BTreeMap<String, i64>) -> i64 {
        sum(all, &["leased", "acked", "retried", "failed", "lapsed", "released"]) - all["claimed"]
    }

    /// Fails where they do not go on from the earlier ones.
    #[track_caller]
    pub fn assert_follow(&self, before: &Figures) {
        for ((queue, now), (_, before)) in self.0.iter().zip(&before.0) {
            assert_eq!(Figures::kept(now), Figures::kept(before), "jobs of {queue}: {before:?} and {now:?}");
            assert!(Figures::late(now) >= Figures::late(before), "claims of {queue}: {before:?} and {now:?}");
        }
    }

    /// Fails where a job was pushed, moved or handed out since the earlier ones.
    #[track_caller]
    pub fn assert_stand_still(&self, before: &Figures) {
        const ACTS: [&str; 8] =
            ["pushed", "claimed", "acked", "retried", "released", "failed", "lapsed", "stale-purged"];
        for ((queue, now), (_, before)) in self.0.iter().zip(&before.0) {
            for act in ACTS {
                assert_eq!(now[act], before[act], "{act} of {queue} while no write was taken");
            }
        }
    }
}

fn sum(all: &BTreeMap<String, i64>, names: &[&str]) -> i64 {
    names.iter().map(|name| all[*name]).sum()
}
