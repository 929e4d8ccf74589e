//! What is refused before anything is moved, and that what the text says to do first is enough.

use crate::common::Server;
use crate::program::move_zset;

struct Case {
    server: Server,
    now: i64,
}

impl Case {
    fn new() -> Case {
        let server = Server::start();
        let now = server.queue("mail").now();
        Case { server, now }
    }

    fn add(&self, member: impl AsRef<[u8]>, score: impl ToString) -> &Case {
        let mut con = self.server.conn();
        redis::cmd("ZADD").arg("old").arg(score.to_string()).arg(member.as_ref()).exec(&mut con).unwrap();
        self
    }

    /// It must be refused and change nothing, with `--dry-run` and without.
    #[track_caller]
    fn refuses(&self, options: &[&str], words: &[&str]) -> &Case {
        let before = self.server.dump();
        for dry in [&[][..], &["--dry-run"]] {
            move_zset(&self.server, &self.server, &[options, dry].concat()).refused(words);
        }
        assert_eq!(self.server.dump(), before);
        self
    }

    /// After the command that the text said it must go.
    #[track_caller]
    fn goes_after(&self, command: &str, jobs: i64) {
        self.server.run(&command.split(' ').collect::<Vec<_>>());
        move_zset(&self.server, &self.server, &[]).well();
        let mut queue = self.server.queue("mail");
        let [ready, delayed] = queue.stats(["ready", "delayed"]);
        assert_eq!(ready + delayed, jobs);
    }
}

#[test]
pub fn a_job_beyond_max_delay() {
    let case = Case::new();
    let command = "DQ.CONFIG mail SET max-delay 31d";
    case.add("near", case.now + 1000).add("far", case.now + 30 * 86_400_000 - 1000);
    case.refuses(&[], &["30.0 days", "max-delay is 7d", command]).goes_after(command, 2);
}

#[test]
pub fn a_unit_that_is_not_clear() {
    let case = Case::new();
    case.add("ms", case.now + 1000).refuses(&["--unit", "s"], &["is the unit right?"]);
    case.add("s", case.now / 1000).refuses(&[], &["1 look like seconds", "1 like ms"]);
    case.refuses(&["--unit", "ms"], &["1 scores look like seconds"]);
    let case = Case::new();
    case.add("µs", case.now * 1000).refuses(&[], &["1 like neither"]);
    case.refuses(&["--unit", "ms"], &["is the unit right?"]);
}

#[test]
pub fn a_job_that_is_never_due() {
    let case = Case::new();
    case.add("a", case.now + 1000).add("b", "+inf").refuses(&["--unit", "ms"], &["1 jobs have the score inf"]);
}

#[test]
pub fn a_member_over_max_payload() {
    let case = Case::new();
    case.server.run(&["DQ.CONFIG", "mail", "SET", "max-payload", "100"]);
    let command = "DQ.CONFIG mail SET max-payload 101";
    case.add([b'x'; 101], case.now + 1000).add("short", case.now + 2000);
    case.refuses(&[], &["has 101 bytes", command]).goes_after(command, 2);
}

#[test]
pub fn a_queue_without_room() {
    let case = Case::new();
    case.server.run(&["DQ.CONFIG", "mail", "SET", "max-length", "2"]);
    case.server.run(&["DQ.PUSH", "mail", "there already", "DELAY", "1h"]);
    let command = "DQ.CONFIG mail SET max-length 3";
    case.add("a", case.now + 1000).add("b", case.now + 2000);
    case.refuses(&[], &["would have 3 jobs", command]).goes_after(command, 3);
}

#[test]
pub fn a_queue_that_would_drop_them() {
    let case = Case::new();
    case.server.set("stale-policy", "drop");
    let command = "DQ.CONFIG mail SET stale-policy keep";
    case.add("a", case.now - 1000).refuses(&[], &["stale-policy is drop", command]).goes_after(command, 1);
}

/// What nobody claims becomes a dead letter; that is said, and how to keep it.
#[test]
pub fn the_stale_policy_is_told() {
    let case = Case::new();
    case.add("a", case.now - 1000);
    let said = move_zset(&case.server, &case.server, &["--dry-run"]).well();
    assert!(said.contains("nobody claims for 5m") && said.contains("SET stale-policy keep"), "{said}");
}

#[test]
pub fn a_dry_run_moves_nothing() {
    let case = Case::new();
    case.add("a", case.now - 1000).add("b", case.now + 1000);
    let before = case.server.dump();
    let said = move_zset(&case.server, &case.server, &["--dry-run"]).well();
    assert!(said.contains("jobs     2") && said.contains("unit     ms"), "{said}");
    assert_eq!(case.server.dump(), before);
}

/// Where the settings change while it runs, what is not moved stays where it was.
#[test]
pub fn a_push_that_is_refused_in_the_middle_loses_nothing() {
    let new = Server::start();
    let old = Server::builder().without_module().start();
    for from in [&new, &old] {
        let mut con = from.conn();
        let now = new.queue("mail").now();
        for i in 0..120 {
            redis::cmd("ZADD").arg("old").arg(now + 100_000 + i).arg(format!("job {i:03}")).exec(&mut con).unwrap();
        }
        // The look at the settings is over before the first push; then an administrator takes the room away.
        new.run(&["DQ.CONFIG", "mail", "SET", "max-length", "1000"]);
        let mover = crate::program::start_move(from, &new, &["--unit", "ms", "--follow"]);
        new.queue("mail").wait_stat("delayed", 120);
        new.run(&["DQ.CONFIG", "mail", "SET", "max-length", "130"]);
        let mut pipe = redis::pipe();
        for i in 0..120 {
            pipe.cmd("ZADD").arg("old").arg(now + 200_000 + i).arg(format!("late {i:03}")).ignore();
        }
        pipe.atomic().exec(&mut con).unwrap();
        crate::program::Ended::of(mover.wait_with_output().unwrap()).stopped("DQFULL");
        let left: i64 = redis::cmd("ZCARD").arg("old").query(&mut con).unwrap();
        let parked: i64 = redis::cmd("HLEN").arg("{old}:moving").query(&mut con).unwrap();
        let moved = new.queue("mail").stat("delayed");
        assert_eq!((left + moved, parked), (240, 0));
        assert!(moved <= 130, "{moved}");
        new.run(&["DQ.DROP", "mail"]);
        redis::cmd("DEL").arg("old").exec(&mut con).unwrap();
    }
}
