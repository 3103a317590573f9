//! Rows of probabilities, call by call, and what is off in them.

use ndarray::{Array1, Array2, s};
use reference::{LayerSite, RoundingContract, Site};

use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::weighing::{COARSE, LEFT};
use crate::failure::Failure;

/// Probabilities that are looked at: those of some thousand tokens take minutes.
const MOST: usize = 1 << 24;

/// The least probability of which a logarithm is taken: subnormal numbers have fewer bits.
const LEAST: f64 = 1e-30;

/// A head's row of a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Where it stands.
    pub(super) at: usize,
    pub(super) head: usize,
    /// The query's position.
    pub(super) token: usize,
    /// The position at which its call begins.
    pub(super) call: usize,
}

/// Those of a site that are off.
pub(super) struct Rows {
    pub(super) heads: usize,
    pub(super) off: Vec<Row>,
}

impl Rows {
    /// Of probabilities that are shown of every call.
    pub(super) fn of(bench: &Bench<'_, '_>) -> Option<Self> {
        let Site::Layer(_, LayerSite::Probabilities) = bench.site else { return None };
        let (heads, calls) = (bench.config().num_attention_heads, bench.calls());
        let n: usize = calls.iter().sum();
        if bench.candidate.dim() != (heads * n, n) || bench.candidate.len() > MOST {
            return None;
        }
        let mut all = Vec::new();
        let mut call = 0;
        for tokens in calls {
            for (i, at) in (heads * call..heads * (call + tokens)).enumerate() {
                all.push(Row { at, head: i / tokens, token: call + i % tokens, call });
            }
            call += tokens;
        }
        all.retain(|row| bench.row_is_off(row.at));
        Some(Rows { heads, off: all })
    }

    /// The keys of a row that both count: the key, the logarithm of its right probability, and what the candidate's has more.
    pub(super) fn logs(row: Row, bench: &Bench<'_, '_>) -> Vec<(usize, f64, f64)> {
        let pairs = bench.candidate.row(row.at).into_iter().zip(bench.ideal.row(row.at)).enumerate();
        let both = pairs.filter(|(_, (own, right))| **own > LEAST && **right > LEAST);
        both.map(|(key, (own, right))| (key, right.ln(), own.ln() - right.ln())).collect()
    }

    /// The right values with others in some rows, if these come near enough to the candidate's in all that are off.
    pub(super) fn held(&self, of: impl Fn(Row) -> Array1<f64>, bench: &Bench<'_, '_>) -> Option<Array2<f64>> {
        let mut values = bench.ideal.clone();
        let (mut left, mut off, mut noise) = (0.0, 0.0, 0.0);
        for row in &self.off {
            let own = of(*row);
            let candidate = bench.candidate.row(row.at);
            let apart = |x: Array1<f64>| x.dot(&x);
            left += apart(&own - &candidate);
            off += apart(&candidate - &bench.ideal.row(row.at));
            noise += bench.noise(row.at).powi(2);
            values.row_mut(row.at).assign(&own);
        }
        (left <= noise.clamp(LEFT * LEFT * off, COARSE * COARSE * off)).then_some(values)
    }

    /// Queries and keys as attention reads them, rotated: a token a row.
    pub(super) fn inputs(bench: &Bench<'_, '_>) -> Result<Option<[Array2<f64>; 2]>, Failure> {
        let Some(layer) = bench.site.layer() else { return Ok(None) };
        let wanted = [LayerSite::QRope, LayerSite::KRope].map(|site| Site::Layer(layer, site));
        let mut beside = bench.rerun(&[], RoundingContract::IDEAL, &wanted)?.beside;
        let n = bench.candidate.ncols();
        let [q, k] = wanted.map(|site| beside.remove(&site).filter(|rows| rows.nrows() == n));
        Ok(q.zip(k).map(|(q, k)| [q, k]))
    }
}

/// A row's scores of all keys, of queries and keys.
pub(super) fn scores(row: Row, [q, k]: [&Array2<f64>; 2], bench: &Bench<'_, '_>, heads: usize) -> Array1<f64> {
    let config = bench.config();
    let (d, group) = (config.head_dim, row.head * config.num_key_value_heads / heads);
    let own = q.slice(s![row.token, row.head * d..(row.head + 1) * d]);
    k.slice(s![.., group * d..(group + 1) * d]).dot(&own) / (d as f64).sqrt()
}

/// A softmax's probabilities of right ones whose scores have so much more.
pub(super) fn moved(row: Row, bench: &Bench<'_, '_>, more: impl Fn(usize, f64) -> f64) -> Array1<f64> {
    let right = bench.ideal.row(row.at);
    let score = |(key, p): (usize, &f64)| if *p > 0.0 { p.ln() + more(key, p.ln()) } else { f64::NEG_INFINITY };
    softmax(right.indexed_iter().map(score).collect())
}

/// Of scores, those of −∞ not counted.
pub(super) fn softmax(scores: Array1<f64>) -> Array1<f64> {
    let largest = scores.fold(f64::NEG_INFINITY, |most, score| most.max(*score));
    let exponentials = scores.mapv(|score| if score > f64::NEG_INFINITY { (score - largest).exp() } else { 0.0 });
    let sum = exponentials.sum();
    exponentials / sum
}
