//! What was decoded of the tokens that came with a dump, where it shows logits alone, or the norm before them, in fewer rows than
//! there are tokens.
//!
//! ```text
//! tokens   t₀ … t(N−1), prompt and what was decoded
//! logits   K rows, in one call or in K, the last of which have
//!          t(N−1) before them: the tokens behind all but the last are known, too
//!          t(N−1) behind them: this was never read
//! ```
//!
//! Which of both it is, decoding tells: greedily, a row's likeliest token is the one behind it; else tokens that were drawn by
//! their rows have about the probability that a row gives to what is drawn by it.
//!
//! ```text
//! Σ log pᵢ(t) ≥ −Σ Hᵢ − 4·√Σ Vᵢ        t drawn by pᵢ = softmax(zᵢ), or likelier; Hᵢ = E[−log pᵢ], Vᵢ its variance
//! ```

use fixtures::Tensor;
use fixtures::activations::rows::inferred::{Fed, Size};
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::Site;

use crate::failure::Failure;

/// Standard deviations by which the logarithm of what is drawn is not below its mean by chance.
const FAR: f64 = 4.0;

/// Where what is shown ends in the tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Generated {
    /// The prompt, and what was decoded, where calls tell them apart.
    pub(super) fed: Fed,
    /// Tokens at the end that no call read.
    pub(super) unread: usize,
    /// Whether decoding says so: what is drawn from rows that are much alike may be behind either.
    pub(super) is_sure: bool,
}

impl Generated {
    /// Of tokens that end so many behind what was read, of which calls made so many rows.
    pub(super) fn of(tokens: &[u32], (calls, rows): (usize, usize), unread: usize) -> Self {
        let count = tokens.len();
        let prompt = if calls == 1 { count - unread } else { count + 1 - rows - unread };
        Generated { fed: Fed::new(&tokens[..prompt], &tokens[prompt..count - unread]), unread, is_sure: true }
    }
}

/// Of tokens without padding, as many of them as a dump has rows of that shows logits alone; `None` where rows are of other tokens,
/// or nothing tells of which.
pub(super) fn generated(values: &Sited, tokens: &[u32], sizes: &[Size]) -> Result<Option<Generated>, Failure> {
    let (count, calls) = (tokens.len(), sizes.len());
    let is_of_head = |at: At| matches!(at.site, Site::LmHead | Site::Logits | Site::FinalNorm);
    let is_step = |size: &Size| size.rows.is_none_or(|rows| rows == 1);
    if !values.sites().all(is_of_head) || sizes.is_empty() || !sizes[1..].iter().all(is_step) {
        return Ok(None);
    }
    let Some(rows) = logits(values, calls)? else {
        let are_last = calls == 1 && sizes[0].rows.is_some_and(|rows| rows < count);
        return Ok(are_last.then(|| Generated { fed: Fed::new(tokens, &[]), unread: 0, is_sure: true }));
    };
    let of_rows = rows.len();
    if of_rows >= count || calls > 1 && of_rows != calls {
        return Ok(None);
    }
    let said = unread(&rows, tokens);
    // One row alone has no token behind it, or a token that may be any.
    let unread = if (calls, of_rows) == (1, 1) { 0 } else { said.unwrap_or(0) };
    let is_sure = calls == 1 || said.is_some();
    Ok(Some(Generated { is_sure, ..Generated::of(tokens, (calls, of_rows), unread) }))
}

/// How many of the last tokens were not read, where decoding by rows that are fewer says it.
pub(super) fn unread(rows: &[Vec<f64>], tokens: &[u32]) -> Option<usize> {
    let first = tokens.len().checked_sub(rows.len()).filter(|first| *first > 0)?;
    let both =
        |follow: fn(&[Vec<f64>], &[u32]) -> bool| (follow(rows, &tokens[first + 1..]), follow(rows, &tokens[first..]));
    let (greedy, drawn) = (both(are_likeliest), both(are_drawn));
    let (all_read, last_is_not) = if greedy.0 == greedy.1 { drawn } else { greedy };
    (all_read != last_is_not).then_some(usize::from(last_is_not))
}

/// Whether these tokens are the likeliest, each by its row of logits.
fn are_likeliest(rows: &[Vec<f64>], tokens: &[u32]) -> bool {
    let is_likeliest =
        |(row, token): (&Vec<f64>, &u32)| row.get(*token as usize).is_some_and(|own| row.iter().all(|z| z <= own));
    rows.iter().zip(tokens).all(is_likeliest)
}

/// Whether these tokens may have been drawn, each by its row of logits.
fn are_drawn(rows: &[Vec<f64>], tokens: &[u32]) -> bool {
    let (mut sum, mut variance) = (0.0, 0.0);
    for (row, &token) in rows.iter().zip(tokens) {
        let Some(own) = row.get(token as usize) else { return false };
        let largest = row.iter().fold(f64::NEG_INFINITY, |largest, z| largest.max(*z));
        let total: f64 = row.iter().map(|z| (z - largest).exp()).sum();
        let log = |z: f64| z - largest - total.ln();
        let mean_of = |f: fn(f64) -> f64| -> f64 {
            let likely = row.iter().map(|z| log(*z)).filter(|log| log.is_finite());
            likely.map(|log| log.exp() * f(log)).sum()
        };
        let (mean, square) = (mean_of(|log| log), mean_of(|log| log * log));
        sum += log(*own) - mean;
        variance += square - mean * mean;
    }
    sum >= -FAR * variance.max(0.0).sqrt()
}

/// The logits of a call, as the dump has them.
pub(super) fn logits_of(values: &Sited, step: usize) -> Result<Option<Tensor<'_>>, Failure> {
    let mut places = [Site::LmHead, Site::Logits].into_iter().map(|site| At { step, site });
    let place = places.find_map(|at| values.reading().values.get(&at));
    Ok(place.map(|place| values.dump().tensor(&place.tensor)).transpose()?)
}

/// The token of which a row's logit is the largest, of equals the first.
pub(super) fn likeliest(row: &[f64]) -> u32 {
    let best = |best: usize, token: usize| if row[token] > row[best] { token } else { best };
    u32::try_from((0..row.len()).fold(0, best)).expect("a vocabulary has fewer tokens")
}

/// The rows of logits, in the order of calls: of one call all, of several one each.
pub(super) fn logits(values: &Sited, calls: usize) -> Result<Option<Vec<Vec<f64>>>, Failure> {
    let mut all = Vec::new();
    for step in 0..calls {
        let Some(tensor) = logits_of(values, step)? else { return Ok(None) };
        let Some(width) = tensor.shape().last().copied().filter(|width| *width > 0) else { return Ok(None) };
        let rows: Vec<Vec<f64>> = tensor.values::<f64>().chunks(width).map(<[f64]>::to_vec).collect();
        if calls > 1 && rows.len() != 1 || rows.iter().flatten().any(|z| z.is_nan()) {
            return Ok(None);
        }
        all.extend(rows);
    }
    Ok(Some(all))
}
