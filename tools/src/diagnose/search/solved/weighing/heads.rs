//! Attention's heads in a layer, of the text model or of the tower, computed again.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, Axis, s};
use reference::config::Attention;
use reference::grid::segments;
use reference::{RoundingContract, Site};

use super::parts::{Parts, projection};
use super::softmax::{Sums, joined};
use super::way::Run;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Columns by which ways are told apart, several times those that are needed.
pub(super) const SOME: usize = 64;

/// Tokens by which it is found that an attention is what is solved here.
const CHECKED: usize = 8;

/// Queries, keys and values of a layer, and what attention's output is multiplied by.
pub(in crate::diagnose) struct Heads {
    pub(in crate::diagnose) count: usize,
    pub(in crate::diagnose) groups: usize,
    pub(in crate::diagnose) d: usize,
    /// q, k and v.
    inputs: [Array2<f64>; 3],
    /// The output projection's weight, transposed, and its bias; without one, o itself is shown.
    output: Option<(Array2<f64>, Array1<f64>)>,
    /// Columns of the site by which ways are told apart, and the projection to these.
    some: Vec<usize>,
    to_some: Option<(Array2<f64>, Array1<f64>)>,
    /// The keys that each token has to see.
    pub(super) spans: Vec<Run>,
    /// The head in which something is done otherwise; in all, if `None`.
    only: Option<usize>,
}

impl Heads {
    /// Of attention whose output, or context, is at fault, if it is of that kind.
    pub(in crate::diagnose) fn of(bench: &Bench<'_, '_>, kind: Attention) -> Result<Option<Self>, Failure> {
        let Some(parts) = Parts::of(bench.site).filter(|parts| bench.suspects.contains(&parts.context)) else {
            return Ok(None);
        };
        let (config, n) = (bench.config(), bench.candidate.nrows());
        let (count, groups, d, spans) = match bench.site {
            Site::Layer(layer, _) if config.layer(layer).attention == kind => {
                let spans = (0..n).map(|row| Run { from: 0, to: row + 1 }).collect();
                (config.num_attention_heads, config.num_key_value_heads, config.head_dim, spans)
            }
            Site::Vision(pass, _) if kind == Attention::Full => {
                let Some((vision, pixels)) = bench.vision(pass) else { return Ok(None) };
                let heads = vision.num_attention_heads;
                (heads, heads, vision.head_dim(), of_segments(&segments(&pixels.grids)))
            }
            _ => return Ok(None),
        };
        let inputs = |contract| {
            let mut beside = bench.rerun(&[], contract, &parts.inputs)?.beside;
            let found = parts.inputs.map(|site| beside.remove(&site).filter(|rows| rows.nrows() == n));
            let [Some(q), Some(k), Some(v)] = found else { return Ok(None) };
            Ok::<_, Failure>(Some([q, k, v]))
        };
        let (Some(exact), true) = (inputs(RoundingContract::IDEAL)?, spans.len() == n) else { return Ok(None) };
        let output = parts.output.map(|(of, bias)| projection(bench, of, bias)).transpose()?;
        let width = bench.candidate.ncols();
        let some: Vec<usize> = (0..width).step_by(width.div_ceil(SOME)).collect();
        let to_some = output.as_ref().map(|(w, bias)| (w.select(Axis(1), &some), bias.select(Axis(0), &some)));
        let mut heads = Heads { count, groups, d, inputs: exact, output, some, to_some, spans, only: None };
        let is_right = kind != Attention::Full || heads.are_right(&bench.ideal, bench.rounding());
        // What is rounded on the way is rounded in the twin, too.
        if let Some(rounded) = inputs(bench.contract())? {
            heads.inputs = rounded;
        }
        if !is_right && !heads.are_right(&bench.twin.computed, bench.rounding()) {
            return Ok(None); // there is more to its attention than what is solved here
        }
        Ok(Some(heads))
    }

    /// Whether some of the rows are those that a run has, but for roundings.
    fn are_right(&self, computed: &Array2<f64>, rounding: f64) -> bool {
        let n = self.spans.len();
        (0..n).step_by(n.div_ceil(CHECKED).max(1)).all(|row| {
            let is = computed.row(row);
            let apart = &self.output(self.right(row).view()) - &is;
            apart.dot(&apart).sqrt() <= rounding * is.dot(&is).sqrt()
        })
    }

    pub(super) fn columns(&self, head: usize) -> Range<usize> {
        head * self.d..(head + 1) * self.d
    }

    /// The key head that a query head reads.
    pub(in crate::diagnose) fn group(&self, head: usize) -> usize {
        head * self.groups / self.count
    }

    /// The query head that a column of the site is of, where heads are shown.
    pub(super) fn head_at(&self, column: usize) -> Option<usize> {
        self.output.is_none().then(|| column / self.d)
    }

    /// Sums of each head over a token's keys.
    pub(in crate::diagnose) fn sums(&self, row: usize) -> Vec<Sums> {
        (0..self.count).map(|head| self.of_head(row, head)).collect()
    }

    fn of_head(&self, row: usize, head: usize) -> Sums {
        let [q, k, v] = &self.inputs;
        let columns = self.columns(self.group(head));
        let keys = k.slice(s![.., columns.clone()]);
        let scores = keys.dot(&q.slice(s![row, self.columns(head)])) / (self.d as f64).sqrt();
        Sums::of(scores, v.slice(s![.., columns]))
    }

    /// The logarithm of the softmax's denominator of a head, for a token.
    pub(super) fn log_sum(&self, row: usize, head: usize) -> f64 {
        self.of_head(row, head).log_sum(self.spans[row])
    }

    /// q, k and v.
    pub(super) fn inputs(&self) -> &[Array2<f64>; 3] {
        &self.inputs
    }

    /// The same attention of other queries, keys and values.
    pub(super) fn with(&self, inputs: [Array2<f64>; 3]) -> Self {
        let (some, spans) = (self.some.clone(), self.spans.clone());
        let (output, to_some) = (self.output.clone(), self.to_some.clone());
        Heads { inputs, output, some, to_some, spans, ..*self }
    }

    /// The same, where what is done otherwise is done in one head alone.
    pub(super) fn with_others_right(&self, head: usize) -> Self {
        Heads { only: Some(head), ..self.with(self.inputs.clone()) }
    }

    /// A token's context, of what `f` makes of a head and its sums, where something is done otherwise.
    pub(super) fn context(&self, row: usize, sums: &[Sums], f: impl Fn(usize, &Sums) -> Array1<f64>) -> Array1<f64> {
        let of = |(head, sums): (usize, &Sums)| {
            if self.only.is_none_or(|only| only == head) { f(head, sums) } else { sums.right(self.spans[row]) }
        };
        joined(&sums.iter().enumerate().map(of).collect::<Vec<_>>())
    }

    /// What a context's channels are multiplied by, one below the other; `None` where these are shown themselves.
    pub(super) fn projections(&self) -> Option<Array2<f64>> {
        self.output.as_ref().map(|(w, _)| w.clone())
    }

    /// The same of heads that read other keys and values: `which` says whether a query head does, `read` makes its rows of
    /// all, of keys or values.
    pub(super) fn reading(
        &self,
        row: usize,
        which: impl Fn(usize) -> bool,
        read: impl Fn(&Array2<f64>, bool, usize) -> Array2<f64>,
    ) -> Array1<f64> {
        let [q, k, v] = &self.inputs;
        let of = |head: usize| {
            let group = self.group(head);
            let own = |of: &Array2<f64>| of.slice(s![.., self.columns(group)]).to_owned();
            let other = which(head);
            let (keys, values) = if other { (read(k, true, head), read(v, false, head)) } else { (own(k), own(v)) };
            let scores = keys.dot(&q.slice(s![row, self.columns(head)])) / (self.d as f64).sqrt();
            Sums::of(scores, values.view()).right(self.spans[row])
        };
        joined(&(0..self.count).map(of).collect::<Vec<_>>())
    }

    pub(super) fn right(&self, row: usize) -> Array1<f64> {
        joined(&self.sums(row).iter().map(|sums| sums.right(self.spans[row])).collect::<Vec<_>>())
    }

    /// What the site has by a token's context.
    pub(in crate::diagnose) fn output(&self, context: ArrayView1<'_, f64>) -> Array1<f64> {
        match &self.output {
            Some((w, bias)) => context.dot(w) + bias,
            None => context.to_owned(),
        }
    }

    /// The same of changes of several contexts, which have no bias.
    pub(super) fn changes(&self, contexts: &Array2<f64>) -> Array2<f64> {
        match &self.output {
            Some((w, _)) => contexts.dot(w),
            None => contexts.clone(),
        }
    }

    /// Some columns of what the site has by several contexts.
    pub(super) fn some_outputs(&self, contexts: &Array2<f64>) -> Array2<f64> {
        match &self.to_some {
            Some((w, bias)) => contexts.dot(w) + bias,
            None => contexts.select(Axis(1), &self.some),
        }
    }

    /// The same columns of a row.
    pub(super) fn some_of(&self, row: ArrayView1<'_, f64>) -> Array1<f64> {
        row.select(Axis(0), &self.some)
    }
}

/// The rows of segments of so many rows.
fn of_segments(segments: &[usize]) -> Vec<Run> {
    let mut from = 0;
    let each = segments.iter().flat_map(|rows| {
        let run = Run { from, to: from + rows };
        from = run.to;
        vec![run; *rows]
    });
    each.collect()
}
