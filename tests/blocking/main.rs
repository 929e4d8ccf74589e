//! Workers that wait: DQ.CLAIM with BLOCK, DQ.MCLAIM, DQ.PAUSE and DQ.RESUME, in real servers. `DQ_TEST_SERVER` and
//! `DQ_MODULE` choose them as for `tests/it`.

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports)]
mod common;

mod client;
mod scene;

mod bad_options;
mod busy;
mod chaos;
mod crowd;
mod idle;
mod inside;
mod keys;
mod leaving;
mod library;
mod max_leased;
mod mclaim;
mod one_pass;
mod order;
mod pause;
mod paused_writes;
mod receipts;
mod reload;
mod roles;
mod shutdown;
mod unread;
mod untold;
mod watch;
