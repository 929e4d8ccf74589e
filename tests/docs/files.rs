//! Which pages there are.

use std::fs;
use std::path::{Path, PathBuf};

/// The checkout.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where the documents are. What else ends in `.md`, such as the CHANGELOG, has no code.
const FOLDERS: [&str; 3] = ["docs", "examples", "dashboard"];
/// What a build may leave below them.
const NOT_OURS: [&str; 2] = ["node_modules", "target"];

/// All documents, as paths from the root of the checkout.
pub fn pages() -> Vec<String> {
    let mut found: Vec<PathBuf> =
        ["README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name)).into();
    FOLDERS.iter().for_each(|folder| gather(&root().join(folder), &mut found));
    found.retain(|path| path.exists());
    let root = root();
    let mut names: Vec<String> = found
        .iter()
        .map(|path| path.strip_prefix(&root).expect("it is below the root").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.expect("the folder can be read").path()) {
        if NOT_OURS.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
}

/// The text of a page.
pub fn text(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}
