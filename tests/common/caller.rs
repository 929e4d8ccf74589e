//! A module that calls commands as other modules do, see caller.c.

use std::fs;
use std::process::Command;

use super::server::Server;

/// Builds the module and puts it into the server.
pub fn load_caller(server: &Server) {
    fs::write(server.dir().join("caller.c"), include_str!("caller.c")).expect("the source is written");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", "caller.so", "caller.c"])
        .current_dir(server.dir())
        .output()
        .expect("cc is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.run(&["MODULE", "LOAD", &server.dir().join("caller.so").to_string_lossy()]);
}
