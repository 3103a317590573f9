//! Which tokens' rows a dump has that are fewer than the tokens, where neither what was decoded nor an embedding says it: those at which
//! what the reference computes is much nearer to them than at others. Of a loss, all tokens but the last have rows; of what was scored
//! behind a context, those from one before it on; of what is kept without the first token, all behind it.

use std::ops::Range;

use fixtures::activations::rows::inferred::{self, Fed, Size};
use fixtures::activations::rows::{Call, Request, Segment, Slot};
use fixtures::names::at::At;
use fixtures::names::families::is_told;
use fixtures::names::measure::Measure;
use fixtures::names::sited::Sited;
use ndarray::{Array2, ArrayView2, Axis, concatenate, s};
use reference::site::Extent;
use reference::{Semantics, Site};

use super::computed::{Computed, MOST_LOGITS, NEARER, in_order, off};
use super::generated::{Generated, generated, logits};
use super::inferred::{Inferred, all_of, is_unpadded, misfit};
use super::lasts::shows_inside;
use super::model::Model;
use crate::failure::Failure;

/// Rows that are looked up one by one.
const SOME: usize = 8;

/// How far values are from what the reference computes of the last tokens, in parts of how far they are from it elsewhere, at most, where
/// they are of these: the last rows are what people keep, and a faulty engine's are hardly nearer. Rows of other tokens are all about as
/// far, n values by 1/√(2n) of it more or less: 4 % of five rows of 64. A tenth nearer than the nearest of them is none by chance.
const LAST: f64 = 0.9;

/// The calls of a dump that shows logits alone, or the norm before them, in fewer rows than one prompt has tokens.
pub(super) fn of_logits(
    values: &Sited,
    one: &Fed,
    sizes: &[Size],
    reading: (&Model, &Semantics),
) -> Result<Option<Inferred>, Failure> {
    if !is_unpadded(one) || !one.decoded.is_empty() {
        return Ok(None);
    }
    let tokens = one.tokens();
    let Some(generated) = generated(values, &tokens, sizes)? else { return Ok(None) };
    let generated = if generated.is_sure { Some(generated) } else { of_calls(values, &tokens, sizes.len(), reading)? };
    let Some(Generated { mut fed, mut unread, .. }) = generated else { return Ok(None) };
    let mut found = if let [size] = sizes { window(values, (&tokens, unread), *size, reading)? } else { None };
    if let Some(window) = &found {
        // Rows that end at the last token but one are the last of what was read.
        unread = usize::from(window.end + 1 == tokens.len());
        fed = Fed::new(&tokens[..tokens.len() - unread], &[]);
    }
    found = found.filter(|window| window.end < tokens.len() - unread);
    let mut unsaid = sizes.to_vec();
    unsaid[0] = Size::default();
    let mut calls = inferred::calls(std::slice::from_ref(&fed), &unsaid).map_err(misfit)?;
    calls[0].window = found;
    Ok(Some(Inferred { calls, known: Some(vec![fed]), unread, ..Inferred::default() }))
}

/// What was decoded in calls whose logits, a row of each, are much nearer to the reference's if the last token was read, or if not.
fn of_calls(
    values: &Sited,
    tokens: &[u32],
    calls: usize,
    reading: (&Model, &Semantics),
) -> Result<Option<Generated>, Failure> {
    let Some(shown) = Shown::logits(values, calls, reading.0)? else { return Ok(None) };
    let Some(beside) = shown.beside(tokens, reading)? else { return Ok(None) };
    let off = beside.off();
    let Some(&[unread, read]) = off.last_chunk::<2>() else { return Ok(None) };
    let is_unread = unread < read;
    let is_clear = unread.min(read) <= NEARER * unread.max(read);
    Ok(is_clear.then(|| Generated::of(tokens, (calls, shown.rows.nrows()), usize::from(is_unread))))
}

/// The tokens whose rows the one call's logits are, or those of the norm before them, if these are not the last ones that were read.
fn window(
    values: &Sited,
    (tokens, unread): (&[u32], usize),
    size: Size,
    reading: (&Model, &Semantics),
) -> Result<Option<Range<usize>>, Failure> {
    let Some(shown) = Shown::logits(values, 1, reading.0)?.or(Shown::earliest(values, &[size], reading.0)?) else {
        return Ok(None);
    };
    let Some(beside) = shown.beside(tokens, reading)? else { return Ok(None) };
    let (off, count) = (beside.off(), shown.rows.nrows());
    let Some(last) = off.len().checked_sub(1 + unread) else { return Ok(None) };
    let Some((first, nearest)) = nearest(&off) else { return Ok(None) };
    beside.require_run(nearest)?;
    Ok((nearest <= NEARER * off[last]).then_some(first..first + count))
}

/// The first row from which on values are nearest, and how far they are there.
fn nearest(off: &[f64]) -> Option<(usize, f64)> {
    off.iter().copied().enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// The calls of a dump that shows no embeddings, and has fewer rows than one prompt has tokens, or more. Where operators are judged
/// by themselves, rows are those of a step from a cache.
pub(super) fn of_rows(
    values: &Sited,
    one: &Fed,
    sizes: &[Size],
    reading: (&Model, &Semantics),
) -> Result<Option<Inferred>, Failure> {
    let [Size { rows: Some(rows), .. }] = sizes else { return of_steps(values, one, sizes, reading) };
    let tokens = one.tokens();
    if !is_unpadded(one) || !one.decoded.is_empty() || *rows == 0 {
        return Ok(None);
    }
    let shown = Shown::earliest(values, sizes, reading.0)?.or(Shown::logits(values, 1, reading.0)?);
    let Some(shown) = shown else { return Ok(None) };
    let Some(first) = shown.first(&tokens, reading)? else { return Ok(None) };
    if *rows > tokens.len() {
        let padding = |count: usize| vec![None; count];
        let slots = [padding(first), one.slots.clone(), padding(rows - first - tokens.len())].concat();
        let fed = vec![Fed { slots, ..one.clone() }];
        let calls = inferred::calls(&fed, sizes).map_err(misfit)?;
        return Ok(Some(Inferred { calls, known: Some(fed), ..Inferred::default() }));
    }
    let end = first + rows;
    // One row, of the last token, is known as such.
    if *rows == 1 && end == tokens.len() {
        return Ok(None);
    }
    let (ahead, from) = if shows_inside(values) { (0, first) } else { (first, 0) };
    let read = tokens[from..end].iter().enumerate();
    let slots = read.map(|(i, token)| Some(Slot { token: *token, position: Some(from + i) })).collect();
    let window = (ahead > 0).then_some(ahead..end);
    let call = Call { window, ..Call::new(1, end - from, vec![Segment { request: 0, start: 0, slots }]) };
    let known = Fed::new(&tokens[..end], &[]);
    Ok(Some(Inferred {
        calls: vec![call],
        known: Some(vec![known]),
        unread: tokens.len() - end,
        ..Inferred::default()
    }))
}

/// The calls of a dump that has steps of one row alone, fewer than there are tokens: as whoever hooks a model behind the prompt has them.
fn of_steps(
    values: &Sited,
    one: &Fed,
    sizes: &[Size],
    reading: (&Model, &Semantics),
) -> Result<Option<Inferred>, Failure> {
    let (tokens, steps) = (all_of(one), sizes.len());
    let are_single = sizes.iter().all(|size| size.rows == Some(1));
    if !are_single || !is_unpadded(one) || steps < 2 || steps >= tokens.len() {
        return Ok(None);
    }
    let Some(shown) = Shown::earliest(values, sizes, reading.0)? else { return Ok(None) };
    let Some(first) = shown.first(&tokens, reading)?.filter(|first| *first > 0) else { return Ok(None) };
    let ahead = if shows_inside(values) { 0 } else { first };
    let call = |number: usize| {
        let at = first + number;
        let before = if number == 0 { ahead } else { 0 };
        let slots = (at - before..=at).map(|at| Some(Slot { token: tokens[at], position: Some(at) })).collect();
        let window = (before > 0).then_some(before..before + 1);
        Call { window, ..Call::new(1, before + 1, vec![Segment { request: 0, start: 0, slots }]) }
    };
    let end = first + steps;
    let known = Fed::new(&tokens[..=first], &tokens[first + 1..end]);
    Ok(Some(Inferred {
        calls: (0..steps).map(call).collect(),
        known: Some(vec![known]),
        unread: tokens.len() - end,
        ..Inferred::default()
    }))
}

/// Whether rows follow one another.
pub(super) fn are_one_run(rows: &[usize]) -> bool {
    rows.windows(2).all(|pair| pair[0] + 1 == pair[1])
}

/// All rows of a call, of which there are so many, at a site, if the dump shows them.
pub(super) fn rows_of(
    values: &Sited,
    (call, rows): (usize, usize),
    site: Site,
) -> Result<Option<Array2<f64>>, Failure> {
    let (of_call, extent) = (values.of(Request::of_call(call, (1, rows))), Extent::new(rows, rows));
    // What is read has the passes of its request alone.
    let at = At { step: 0, site };
    if !of_call.has(at) || of_call.shown(at, extent)?.is_some() {
        return Ok(None);
    }
    Ok(of_call.matrix::<f64>(at, extent).ok().filter(|read| read.nrows() == rows))
}

/// Rows of which it is to be found whose they are.
pub(super) struct Shown {
    site: Site,
    measure: Measure,
    rows: Array2<f64>,
}

impl Shown {
    /// The logits of the one call, or a row of each of several.
    fn logits(values: &Sited, calls: usize, model: &Model) -> Result<Option<Self>, Failure> {
        let vocabulary = model.checkpoint.config().vocab_size;
        let Some(rows) = logits(values, calls)?.filter(|rows| rows.iter().all(|row| row.len() == vocabulary)) else {
            return Ok(None);
        };
        let rows = Array2::from_shape_fn((rows.len(), vocabulary), |at| rows[at.0][at.1]);
        Ok(Some(Shown::of_logits(values, rows)))
    }

    /// Rows of logits, as the dump measures them.
    pub(super) fn of_logits(values: &Sited, rows: Array2<f64>) -> Self {
        let measures = [Site::LmHead, Site::Logits].map(|site| values.measure(At { step: 0, site }));
        let measure = measures.into_iter().find(|measure| *measure != Measure::Logits).unwrap_or_default();
        let rows = if measure == Measure::Probs { rows.mapv_into(f64::ln) } else { rows };
        Shown { site: Site::Logits, measure, rows: in_measure(rows, measure) }
    }

    /// What it shows that is computed first, of all rows of all calls; a cache has rows of other calls, too.
    fn earliest(values: &Sited, sizes: &[Size], model: &Model) -> Result<Option<Self>, Failure> {
        let config = model.checkpoint.config();
        let rows: Option<Vec<usize>> =
            sizes.iter().map(|size| size.rows.filter(|_| size.batch.unwrap_or(1) == 1)).collect();
        let Some(rows) = rows else { return Ok(None) };
        if values.reading().values.values().any(|place| place.form.is_cache()) {
            return Ok(None);
        }
        let is_of_rows = |at: &At| at.step == 0 && is_told(at.site, config) && !at.site.is_choice();
        let before_head = values.sites().filter(is_of_rows).filter(|at| at.site < Site::LmHead);
        let Some(site) = before_head.map(|at| at.site).min() else { return Ok(None) };
        let mut all = Vec::new();
        for (call, rows) in rows.into_iter().enumerate() {
            let Some(read) = rows_of(values, (call, rows), site)? else { return Ok(None) };
            all.push(in_order(site, read));
        }
        let views: Vec<ArrayView2<'_, f64>> = all.iter().map(|rows| rows.view()).collect();
        let rows = concatenate(Axis(0), &views).ok();
        Ok(rows.map(|rows| Shown { site, measure: Measure::Logits, rows }))
    }

    /// The first token of those whose rows it has, where the reference's are much nearer there than at all others, or nearer, of the
    /// last rows.
    fn first(&self, tokens: &[u32], reading: (&Model, &Semantics)) -> Result<Option<usize>, Failure> {
        let Some(beside) = self.beside(tokens, reading)? else { return Ok(None) };
        let off = beside.off();
        let Some((first, nearest)) = nearest(&off) else { return Ok(None) };
        beside.require_run(nearest)?;
        let mut others = off.iter().enumerate().filter(|(other, _)| *other != first);
        let is_last = self.rows.nrows() < tokens.len() && first + 1 == off.len();
        let most = if is_last { LAST } else { NEARER };
        let is_clear = nearest <= most && others.all(|(_, off)| nearest <= most * off);
        Ok(is_clear.then_some(first))
    }

    /// What the reference computes of the tokens beside it; nothing, where that is too much, or rows are those of all tokens.
    pub(super) fn beside(
        &self,
        tokens: &[u32],
        (model, semantics): (&Model, &Semantics),
    ) -> Result<Option<Beside<'_>>, Failure> {
        let config = model.checkpoint.config();
        let is_much = self.site == Site::Logits && tokens.len().saturating_mul(config.vocab_size) > MOST_LOGITS;
        if is_much || self.rows.nrows() == tokens.len() {
            return Ok(None);
        }
        let computed = Computed::at(self.site, tokens, (model, semantics))?;
        let computed = computed.map(|computed| in_measure(in_order(self.site, computed), self.measure));
        let computed = computed.filter(|computed| computed.ncols() == self.rows.ncols());
        Ok(computed.map(|computed| Beside { shown: self.rows.view(), computed }))
    }
}

/// Rows that are shown, and those that the reference computes of all tokens.
pub(super) struct Beside<'a> {
    shown: ArrayView2<'a, f64>,
    computed: Array2<f64>,
}

impl<'a> Beside<'a> {
    /// Rows beside others.
    pub(super) fn new(shown: ArrayView2<'a, f64>, computed: Array2<f64>) -> Self {
        Beside { shown, computed }
    }

    /// How far the fewer of both are from as many of the others, from each first one on.
    pub(super) fn off(&self) -> Vec<f64> {
        let (shown, computed) = (self.shown.nrows(), self.computed.nrows());
        let count = shown.min(computed);
        let of = |first: usize| {
            let [i, j] = if shown < computed { [0, first] } else { [first, 0] };
            off(self.shown.slice(s![i..i + count, ..]), self.computed.slice(s![j..j + count, ..]))
        };
        (0..=shown.max(computed) - count).map(of).collect()
    }

    /// The tokens of the first rows that are shown, so many at most, where the reference's are much nearer to each than at all others, and
    /// than `nearest`.
    pub(super) fn tokens(&self, most: usize, nearest: f64) -> Option<Vec<usize>> {
        let token_of = |i: usize| {
            let of = |token: usize| off(self.shown.slice(s![i..=i, ..]), self.computed.slice(s![token..=token, ..]));
            let mut each: Vec<(f64, usize)> = (0..self.computed.nrows()).map(|token| (of(token), token)).collect();
            each.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            let [(near, token), (next, _)] = each.first_chunk::<2>().copied()?;
            (near <= NEARER * next.min(nearest)).then_some(token)
        };
        (0..self.shown.nrows().min(most)).map(token_of).collect()
    }

    /// Demands that fewer rows than tokens, of which the nearest run is so far, are not those of some tokens here and there.
    fn require_run(&self, nearest: f64) -> Result<(), Failure> {
        let (shown, computed) = (self.shown.nrows(), self.computed.nrows());
        if nearest <= NEARER || shown >= computed || shown < 2 {
            return Ok(());
        }
        let Some(tokens) = self.tokens(SOME, nearest) else { return Ok(()) };
        if are_one_run(&tokens) {
            return Ok(());
        }
        let few: Vec<String> = tokens.iter().map(usize::to_string).collect();
        let problem = format!(
            "the dump's {shown} rows are by their values those of the tokens {}{}: expected tokens that follow each other",
            few.join(", "),
            if shown > SOME { ", …" } else { "" }
        );
        Err(Failure::new(problem)
            .help("dump the rows of all tokens, or of some that follow each other, such as h[:, -8:]"))
    }
}

/// Log-probabilities are logits less a number of each row: less their mean, both are alike.
fn in_measure(mut rows: Array2<f64>, measure: Measure) -> Array2<f64> {
    if measure != Measure::Logits {
        for mut row in rows.axis_iter_mut(Axis(0)) {
            let mean = row.sum() / row.len() as f64;
            row -= mean;
        }
    }
    rows
}
