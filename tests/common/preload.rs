//! Libraries of C that a test puts between a server and the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `<name>.so` in the folder from the source.
pub fn build(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (code, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&code, source).expect("the source is written");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &code])
        .arg("-ldl")
        .output()
        .expect("cc is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}
