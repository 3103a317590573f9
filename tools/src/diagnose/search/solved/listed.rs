//! Lists in sentences: the first few of many.

use std::fmt::Display;

use crate::diagnose::search::Bench;

/// What is listed one by one.
const LISTED: usize = 4;

/// The first, and that there are more where there are.
pub(super) fn listed<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let mut all = all.into_iter();
    let first: Vec<String> = all.by_ref().take(LISTED).map(|one| one.to_string()).collect();
    let more = if all.next().is_some() { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}

/// Numbers in ascending order, those in a row as one: "0 to 3, 8 and 12 to 15".
pub(super) fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let told = |run: &[usize]| match run {
        [first, .., last] => format!("{first} to {last}"),
        [one] => one.to_string(),
        [] => String::new(),
    };
    let all: Vec<String> = runs.map(told).collect();
    match &all[..] {
        [most @ .., last] if !most.is_empty() && all.len() <= LISTED => format!("{} and {last}", most.join(", ")),
        _ => listed(all),
    }
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

/// Rows of a site of which something is said, before its verb.
pub(super) fn rows(bench: &Bench<'_, '_>, rows: &[usize]) -> String {
    let all = bench.candidate.nrows();
    match rows.len() {
        count if count == all => "all rows".to_owned(),
        count if rows == bench.rows_of_single_tokens() => {
            format!("{count} of {all} rows, those of calls of one token,")
        }
        count => format!("{count} of {all} rows, {},", listed(rows)),
    }
}

/// Columns of which something is said, behind it; nothing where these are all.
pub(super) fn columns(columns: &[usize], all: usize) -> String {
    match columns {
        _ if columns.len() == all => String::new(),
        [first, .., last] if last + 1 - first == columns.len() => format!(", in channels {first} to {last} of {all}"),
        _ => format!(", in {} of {all} channels, {}", columns.len(), listed(columns)),
    }
}

/// Of rows, whose values they have.
pub(super) fn others(rows: &[usize], others: &[usize]) -> String {
    let by = |i: usize| others[i].cast_signed() - rows[i].cast_signed();
    if rows.len() > 1 && (0..rows.len()).all(|i| by(i) == by(0)) {
        let side = if by(0) < 0 { "before it" } else { "behind it" };
        return format!("of the row {} {side}", by(0).abs());
    }
    let each = rows.iter().zip(others).map(|(row, other)| format!("of row {other} in {row}"));
    listed(each)
}

/// For each of some rows, another of so many whose values it has: that so many before or behind it, if one distance does for all,
/// else the first; `None` where one has no other's.
pub(super) fn find_others(rows: &[usize], all: usize, is: impl Fn(usize, usize) -> bool) -> Option<Vec<usize>> {
    let first = *rows.first()?;
    let of_first: Vec<usize> = (0..all).filter(|other| *other != first && is(first, *other)).collect();
    let alike = |other: &usize| -> Option<Vec<usize>> {
        let moved = |row: &usize| (row + other).checked_sub(first).filter(|own| *own < all && is(*row, *own));
        rows.iter().map(moved).collect()
    };
    of_first.first()?;
    let each = || rows.iter().map(|row| (0..all).find(|other| other != row && is(*row, *other))).collect();
    of_first.iter().find_map(alike).or_else(each)
}

/// "key 3", "keys 3, 5, 9".
pub(super) fn many(what: &str, all: &[usize]) -> String {
    match all {
        [one] => format!("{what} {one}"),
        [first, .., last] if last + 1 - first == all.len() => format!("{what}s {first} to {last}"),
        _ => format!("{what}s {}", listed(all)),
    }
}
