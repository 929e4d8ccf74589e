//! The README in Chinese has the same code as the English one.

use crate::blocks::{self, Block, Note};
use crate::files;

/// The blocks that are more than a picture.
fn code(page: &str) -> Vec<Block> {
    blocks::of(&files::text(page))
        .into_iter()
        .filter(|block| block.kind != "text" || block.note == Note::Prints)
        .collect()
}

#[test]
fn the_readme_in_chinese_has_the_same_blocks() {
    let (english, chinese) = (code("README.md"), code("README.zh-CN.md"));
    for (one, other) in english.iter().zip(&chinese) {
        let lines = format!("README.md:{} and README.zh-CN.md:{}", one.line, other.line);
        assert_eq!(one.kind, other.kind, "{lines}");
        assert!(one.without_comments() == other.without_comments(), "{lines} differ:\n{}\n{}", one.text, other.text);
    }
    assert_eq!(english.len(), chinese.len());
}
