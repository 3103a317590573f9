//! Text that Markdown takes as it is.

/// Text of a paragraph or a cell on one line: every mark has a backslash, as `CommonMark` allows for ASCII punctuation.
pub(super) fn plain(text: &str) -> String {
    let marked = |c: char| if c.is_ascii_punctuation() { format!("\\{c}") } else { on_one_line(c).to_string() };
    text.chars().map(marked).collect()
}

/// Code on one line, between more backticks than it has in a row itself.
pub(super) fn code(text: &str) -> String {
    let text: String = text.chars().map(on_one_line).collect();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn on_one_line(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
