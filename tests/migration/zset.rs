//! A plain sorted set: every member is there afterwards, with its bytes, its time and its order.

use redis::Commands;

use crate::common::{list, odd_bytes, pairs, Server};
use crate::program::move_zset;

/// What is in the queue of DQ: payloads with due times, in the order in which they come.
fn jobs(server: &Server) -> Vec<(Vec<u8>, i64)> {
    let mut queue = server.queue("mail");
    let page = list(&queue.ok("PEEK", crate::args!["COUNT", 1000]));
    let jobs = list(&page[1]).into_iter().map(|job| {
        let fields = pairs(&job);
        let field = |name: &str| fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let payload = crate::common::bytes(&field("payload").expect("a payload"));
        (payload, crate::common::int(&field("due-at").expect("a due time")))
    });
    jobs.collect()
}

fn now(server: &Server) -> i64 {
    server.queue("mail").now()
}

fn add(server: &Server, member: &[u8], score: impl ToString) {
    let added: i64 =
        redis::cmd("ZADD").arg("old").arg(score.to_string()).arg(member).query(&mut server.conn()).unwrap();
    assert_eq!(added, 1);
}

fn assert_moved(from: &Server, to: &Server) {
    for key in ["old", "{old}:moving"] {
        assert!(!from.conn().exists::<_, bool>(key).unwrap(), "{key} is left");
    }
    to.queue("mail").check_clean();
}

/// From one server to the same, and from one to another that stands beside it.
fn both_ways(test: impl Fn(&Server, &Server)) {
    let one = Server::start();
    test(&one, &one);
    let (old, new) = (Server::builder().without_module().start(), Server::start());
    test(&old, &new);
}

#[test]
pub fn members_keep_their_bytes_and_their_times() {
    both_ways(|from, to| {
        let now = now(to);
        let members: Vec<Vec<u8>> = odd_bytes().into_iter().chain((0..300).map(|i| vec![b'm'; i + 1])).collect();
        for (i, member) in members.iter().enumerate() {
            add(from, member, now + 60_000 + i as i64 * 1000);
        }
        let said = move_zset(from, to, &[]).well();
        assert!(said.contains(&format!("moved    {}", members.len())), "{said}");
        assert_moved(from, to);
        let moved = jobs(to);
        assert_eq!(moved.iter().map(|(payload, _)| payload).collect::<Vec<_>>(), members.iter().collect::<Vec<_>>());
        for (i, (_, due)) in moved.iter().enumerate() {
            let wanted = now + 60_000 + i as i64 * 1000;
            assert!((wanted..wanted + 1000).contains(due), "job {i} was due at {wanted} and is at {due}");
        }
    });
}

#[test]
pub fn seconds_and_their_fractions() {
    both_ways(|from, to| {
        let at = now(to) / 1000 + 100;
        add(from, b"whole", at);
        add(from, b"half", format!("{}.5", at + 1));
        move_zset(from, to, &[]).well();
        assert_moved(from, to);
        let due: Vec<i64> = jobs(to).iter().map(|(_, due)| due - at * 1000).collect();
        assert!((0..400).contains(&due[0]) && (1500..1900).contains(&due[1]), "{due:?}");
    });
}

/// The jobs of one step are due in one ms, and then come in the order of their ids: from server to server that is theirs,
/// within one server it is that of the members' digests.
#[test]
pub fn what_is_past_due_comes_at_once_and_in_its_old_order() {
    both_ways(|from, to| {
        let now = now(to);
        for i in 0..200 {
            let i = (i * 37) % 200;
            add(from, format!("{i}").as_bytes(), now - 500_000 + i);
        }
        move_zset(from, to, &[]).well();
        assert_moved(from, to);
        let apart = if from.port == to.port { 100 } else { 1 };
        let claimed = to.queue("mail").claim_n(200);
        assert_eq!(claimed.len(), 200);
        for (i, job) in claimed.into_iter().enumerate() {
            let was: usize = String::from_utf8(job.payload).unwrap().parse().unwrap();
            assert!(i.abs_diff(was) < apart, "the one that was at {was} comes at {i}");
        }
    });
}

/// Scores that are no times mean: at once. The unit has to be said, then.
#[test]
pub fn scores_that_are_no_times() {
    both_ways(|from, to| {
        for (member, score) in [("a", "-inf"), ("b", "-5"), ("c", "0"), ("d", "7")] {
            add(from, member.as_bytes(), score);
        }
        move_zset(from, to, &[]).refused(&["unit", "4 like neither"]);
        move_zset(from, to, &["--unit", "s"]).well();
        assert_moved(from, to);
        let mut claimed: Vec<Vec<u8>> = to.queue("mail").claim_n(10).into_iter().map(|job| job.payload).collect();
        claimed.sort();
        assert_eq!(claimed, [b"a", b"b", b"c", b"d"]);
    });
}

#[test]
pub fn names_with_blanks_braces_and_bytes() {
    let server = Server::start();
    let mut con = server.conn();
    let names: [(&[u8], &[u8]); 3] = [(b"{t}:old", b"{t}:mail"), (b"old jobs", b"new jobs"), (b"o\xffd", b"m\xfel")];
    for (zset, queue) in names {
        let _: i64 = con.zadd(zset, "job", now(&server) + 100_000).unwrap();
        let mut words = crate::program::program("move_zset.py", &[]);
        words.arg("--from").arg(crate::program::url(&server));
        use std::os::unix::ffi::OsStrExt;
        words.arg(std::ffi::OsStr::from_bytes(zset)).arg(std::ffi::OsStr::from_bytes(queue));
        crate::program::Ended::of(words.output().unwrap()).well();
        assert_eq!(server.queue(queue).stat("delayed"), 1);
        assert!(!con.exists::<_, bool>(zset).unwrap());
    }
}

/// As in the old queue: adding a member again gives its job another time.
#[test]
pub fn a_member_that_is_added_again_is_the_same_job() {
    let server = Server::start();
    let now = now(&server);
    add(&server, b"job", now + 100_000);
    move_zset(&server, &server, &[]).well();
    add(&server, b"job", now + 200_000);
    move_zset(&server, &server, &[]).well();
    assert_moved(&server, &server);
    let due: Vec<i64> = jobs(&server).iter().map(|(_, due)| due - now).collect();
    assert_eq!(due.len(), 1);
    assert!((200_000..201_000).contains(&due[0]), "{due:?}");
}

/// As in the old queue, where a job at work is no member any more.
#[test]
pub fn a_member_that_is_added_again_while_its_job_is_at_work_is_another_job() {
    let server = Server::start();
    let mut queue = server.queue("mail");
    add(&server, b"job", now(&server) - 1000);
    move_zset(&server, &server, &[]).well();
    let held = queue.claim();
    for (member, wait) in [("job", 100_000), ("other", 200_000)] {
        add(&server, member.as_bytes(), now(&server) + wait);
    }
    move_zset(&server, &server, &[]).stopped("1 members stay");
    assert_eq!(queue.stats(["leased", "delayed"]), [1, 1], "the other one is moved");
    assert_eq!(queue.ack(&held.receipt), 1);
    move_zset(&server, &server, &[]).well();
    assert_moved(&server, &server);
    assert_eq!(queue.stats(["leased", "delayed"]), [0, 2]);
}

/// The way to cancel a job that was moved.
#[test]
pub fn a_job_is_found_by_the_sha_1_of_its_member() {
    let server = Server::start();
    add(&server, b"hello", now(&server) + 100_000);
    move_zset(&server, &server, &[]).well();
    assert_eq!(server.queue("mail").state("aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"), "delayed");
}

/// With the queue in one slot and the sorted set in another, no script can reach both.
#[test]
pub fn in_a_cluster() {
    let server = Server::builder().cluster_node().start();
    server.run(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    crate::common::wait_for("the cluster to be up", || {
        crate::common::text(&server.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok")
    });
    for (zset, way) in [("old", "put aside"), ("old:{mail}", "in one step")] {
        let _: i64 = server.conn().zadd(zset, zset, now(&server) + 100_000).unwrap();
        let said = crate::program::run("move_zset.py", &[zset, "mail", "--from", &crate::program::url(&server)]).well();
        assert!(said.contains(way), "{said}");
    }
    assert_eq!(server.queue("mail").stat("delayed"), 2);
    let left: Vec<String> = redis::cmd("KEYS").arg("*old*").query(&mut server.conn()).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// Producers that cannot be changed at once go on adding to the sorted set.
#[test]
pub fn it_follows_producers_that_go_on() {
    both_ways(|from, to| {
        let mut mover = crate::program::start_move(from, to, &["--unit", "ms", "--follow"]);
        let mut queue = to.queue("mail");
        for i in 0..3 {
            add(from, format!("job {i}").as_bytes(), now(to) + 100_000);
            queue.wait_stat("delayed", i + 1);
        }
        mover.kill().unwrap();
        mover.wait().unwrap();
        assert_moved(from, to);
    });
}

/// The user of docs/migration/zset.md can do both ways over, and nothing that they do not need.
#[test]
pub fn the_rights_of_the_page_are_enough() {
    both_ways(|from, to| {
        let page = include_str!("../../docs/migration/zset.md");
        let line = page.lines().find(|line| line.starts_with("ACL SETUSER mover")).expect("the page has the line");
        let words: Vec<&str> = line.split(' ').collect();
        to.run(&words);
        if from.port != to.port {
            let old: Vec<&str> = words.into_iter().filter(|word| !word.starts_with("+dq.")).collect();
            from.run(&old);
        }
        add(from, b"job", now(to) + 100_000);
        let url = |server: &Server| format!("redis://mover:mover-password@127.0.0.1:{}", server.port);
        crate::program::run("move_zset.py", &["old", "mail", "--from", &url(from), "--to", &url(to)]).well();
        assert_moved(from, to);
        assert_eq!(to.queue("mail").stat("delayed"), 1);
    });
}
