//! The dashboard in a real browser, against real servers.
//!
//! `DQ_TEST_SERVER` chooses the server, `DQ_MODULE` the module, as in the module's own tests; `DQ_CHROMIUM` the browser.

// The harness calls libc: signals, process groups, processor time.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../../../tests/common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../../../tests/torture/cluster/topology.rs"]
mod topology;

mod access;
mod acts;
mod away;
mod browser;
mod dashboard;
mod errors;
mod exposed;
mod groups;
mod guards;
mod hostile;
mod http;
mod incidents;
mod load;
mod many;
mod million;
mod screenshots;
mod sees;
mod time;
mod tls;
mod troubles;
mod words;
mod workload;
