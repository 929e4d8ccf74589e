//! The code blocks of a page.

/// What stands between two fences.
#[derive(Debug)]
pub struct Block {
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// The word behind it.
    pub kind: String,
    pub text: String,
    /// The comment on the line before it.
    pub note: Note,
}

impl Block {
    /// Its lines less what a comment of a shell or of Python says, which may be in another language.
    pub fn without_comments(&self) -> Vec<&str> {
        let has_comments = ["sh", "python"].contains(&self.kind.as_str());
        let code = |line| if has_comments { str::split(line, '#').next().unwrap_or_default().trim_end() } else { line };
        self.text.lines().map(code).collect()
    }
}

/// What the comment before a block says.
#[derive(Debug, PartialEq)]
pub enum Note {
    None,
    /// `<!-- not run: the reason -->`
    NotRun(String),
    /// `<!-- prints -->`: what the block before this one writes.
    Prints,
    /// `<!-- in the background -->`: a thread beside the blocks that follow.
    Thread,
    /// `<!-- in the background, as a process -->`: it ends by SIGTERM when the page does.
    Process,
}

impl Note {
    fn of(line: &str) -> Note {
        let comment = line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")).map(str::trim);
        match comment {
            Some("prints") => Note::Prints,
            Some("in the background") => Note::Thread,
            Some("in the background, as a process") => Note::Process,
            Some(other) => match other.strip_prefix("not run:") {
                Some(reason) => Note::NotRun(reason.trim().to_string()),
                None => Note::None,
            },
            None => Note::None,
        }
    }
}

/// Every block of the page, in order.
pub fn of(page: &str) -> Vec<Block> {
    let lines: Vec<&str> = page.lines().collect();
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let indent = lines[at].len() - lines[at].trim_start().len();
        let Some(kind) = lines[at].trim_start().strip_prefix("```") else {
            at += 1;
            continue;
        };
        let length = lines[at + 1..].iter().position(|line| line.trim() == "```");
        let length = length.unwrap_or_else(|| panic!("line {}: the block has no end", at + 1));
        let inside = lines[at + 1..at + 1 + length].iter().map(|line| without_indent(line, indent));
        blocks.push(Block {
            line: at + 1,
            kind: kind.trim().to_string(),
            text: inside.map(|line| format!("{line}\n")).collect(),
            note: at.checked_sub(1).map_or(Note::None, |before| Note::of(lines[before])),
        });
        at += length + 2;
    }
    blocks
}

/// A block in a list is indented as a whole.
fn without_indent(line: &str, indent: usize) -> &str {
    let own = line.len() - line.trim_start().len();
    &line[own.min(indent)..]
}
