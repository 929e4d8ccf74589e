//! The way back: what DQ has and nobody works on becomes members again.

use redis::Commands;

use crate::common::Server;
use crate::program::move_zset;

#[test]
pub fn there_and_back_again() {
    for (unit, score) in [("ms", 1.0), ("s", 1000.0)] {
        let server = Server::start();
        let mut con = server.conn();
        let now = server.queue("mail").now();
        let mut members: Vec<(Vec<u8>, f64)> = Vec::new();
        for i in 0..250 {
            let member = [format!("job {i} ").as_bytes(), &[0, 0xff]].concat();
            members.push((member, (now + 100_000 + i) as f64 / score));
        }
        for (member, score) in &members {
            let _: i64 = con.zadd("old", member, score).unwrap();
        }
        move_zset(&server, &server, &[]).well();
        let said = move_zset(&server, &server, &["--back", "--unit", unit]).well();
        assert!(said.contains("250 back"), "{said}");
        let mut queue = server.queue("mail");
        assert_eq!(queue.stats(["ready", "delayed"]), [0, 0]);
        let back: Vec<(Vec<u8>, f64)> = con.zrange_withscores("old", 0, -1).unwrap();
        assert_eq!(back, members);
    }
}

/// Two jobs of one payload would be one member: the second stays.
#[test]
pub fn a_payload_that_is_a_member_already_stays() {
    let server = Server::start();
    let mut queue = server.queue("mail");
    for payload in ["twice", "twice", "at work"] {
        queue.push(payload);
    }
    let ids = queue.claim_n(3);
    queue.release(&ids[0].receipt);
    queue.release(&ids[1].receipt);
    move_zset(&server, &server, &["--back", "--unit", "ms"]).stopped("1 jobs stay in DQ");
    assert_eq!(queue.stats(["ready", "delayed", "leased"]), [1, 0, 1]);
    assert_eq!(server.conn().zcard::<_, i64>("old").unwrap(), 1);
}
