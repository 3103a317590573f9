//! Lists in sentences: the first few of many.

use std::fmt::Display;

/// What is listed one by one.
const LISTED: usize = 4;

/// The first, and that there are more where there are.
pub(super) fn listed<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let mut all = all.into_iter();
    let first: Vec<String> = all.by_ref().take(LISTED).map(|one| one.to_string()).collect();
    let more = if all.next().is_some() { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}

/// Tokens of which something is said: of so many that were tried, out of those that are off.
pub(super) fn tokens(rows: &[usize], tried: usize, off: usize) -> String {
    let own = listed(rows);
    match rows.len() {
        count if count == off => "all tokens that are off".to_owned(),
        count if tried == off => format!("{count} of {off} tokens that are off, {own}"),
        count => format!("{count} of {tried} tokens that were tried, of {off} that are off: {own}"),
    }
}
