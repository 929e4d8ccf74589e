//! A server that nobody hurts: what the account must show when all is well, so that it can be trusted when it is not.

use std::sync::Arc;

use crate::account::{Account, Left};
use crate::common::dice::seed;
use crate::common::{wait_for, Server};
use crate::crew::{Crew, Plan};
use crate::ledger::Ledger;
use crate::scene::{left_in, wait_until_done};
use crate::way::OneServer;

#[test]
fn all_is_done_where_nothing_is_hurt() {
    let seed = seed();
    eprintln!("DQ_TEST_SEED={seed}");
    let server = Server::builder().set("max-lapses", "1000").start();
    let plan = Plan::of(&["a", "b"]);
    let ledger = Arc::new(Ledger::default());
    let mut crew = Crew::start(plan.clone(), Arc::new(OneServer(server.port)), ledger.clone(), seed);
    wait_for("some thousand jobs", || ledger.pushed() > 1500);
    crew.stop_pushing();
    crew.drain();
    wait_until_done(&server, &plan.queues);
    crew.dismiss();
    let mut left = Left::new();
    left_in(&server, &plan.queues, &mut left);
    let pages = ledger.pages();
    let account = Account::of(&pages, &left);
    account.settle();
    assert!(account.tally["finished"] > 1000, "{}", account.text());
}
