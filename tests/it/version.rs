//! The version of Cargo.toml is what the server shows.

use std::collections::BTreeMap;

use crate::common::*;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn module_list_and_info_show_the_version_of_the_package() {
    let server = Server::start();
    assert_eq!(server.info("dq", "dq_version"), VERSION);
    let parts: Vec<i64> = VERSION.split('.').map(|part| part.parse().expect("a number")).collect();
    let modules = list(&server.run(&["MODULE", "LIST"]));
    let ours = modules.iter().map(|module| pairs(module).into_iter().collect::<BTreeMap<_, _>>());
    let ours = ours.into_iter().find(|module| text(&module["name"]) == "dq").expect("the module is there");
    assert_eq!(int(&ours["ver"]), parts[0] * 10_000 + parts[1] * 100 + parts[2]);
}
