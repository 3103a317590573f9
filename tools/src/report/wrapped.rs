//! Sentences in lines that a terminal has room for.

use textwrap::{Options, WordSeparator, WordSplitter, fill};

use super::table::columns;

/// Columns that sentences take at most: wider lines are harder to read.
const WIDEST: usize = 100;

/// Sentences behind `first`, and lines after the first behind as many blanks. Names and paths are not cut.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let blanks = " ".repeat(first.chars().count());
    let options = Options::new(columns().min(WIDEST)).initial_indent(first).subsequent_indent(&blanks);
    let whole_words = options.word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation);
    fill(text, whole_words.break_words(false))
}
