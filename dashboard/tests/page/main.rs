//! The dashboard in a real browser, against real servers.
//!
//! `DQ_TEST_SERVER` chooses the server, `DQ_MODULE` the module, as in the module's own tests.

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../../../tests/common/mod.rs"]
mod common;

mod browser;
mod dashboard;
mod http;
mod screenshots;
mod workload;
