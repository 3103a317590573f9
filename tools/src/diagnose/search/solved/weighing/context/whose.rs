//! Whose values the context of heads may have.

use ndarray::{Array2, Axis, s};

use super::{Contexts, flat};
use crate::diagnose::search::solved::listed::{self, listed};
use crate::diagnose::search::solved::sinks::{median, told};

/// Multiplications by which channels are told apart, at most.
const BUDGET: usize = 2_000_000_000;

/// Orders of tokens, heads and channels in which a context may be written, where \[token, head, channel\] is read.
const LAYOUTS: [([usize; 3], &str); 5] = [
    ([1, 0, 2], "[heads, tokens, channels]"),
    ([0, 2, 1], "[tokens, channels, heads]"),
    ([2, 0, 1], "[channels, tokens, heads]"),
    ([1, 2, 0], "[heads, channels, tokens]"),
    ([2, 1, 0], "[channels, heads, tokens]"),
];

/// Whose values they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Nobody's: zeros.
    Nothing,
    /// Other heads' of the same token.
    Heads,
    /// Other tokens' of the same heads.
    Tokens,
    /// Their own, each head's times a factor.
    Times,
    /// Their own, as of a softmax that counts a score beside those of keys.
    Sink,
    /// Those that stand there where axes follow each other in another order.
    Layout([usize; 3], &'static str),
    /// Other channels' of the same head.
    Lanes,
    /// Other channels', of any head.
    Channels,
}

impl Whose {
    /// All of them, the plainest first.
    fn all(contexts: &Contexts<'_>) -> Vec<Self> {
        let layouts = LAYOUTS.map(|(axes, name)| Whose::Layout(axes, name));
        let last = [Whose::Lanes, Whose::Channels, Whose::Sink];
        let width = contexts.right.ncols();
        let cost = contexts.which.len() * contexts.heads.d * width * contexts.rows.len();
        let plain = [Whose::Nothing, Whose::Heads, Whose::Tokens, Whose::Times];
        // Of a context that is shown itself, that is told of its values.
        let layouts = layouts.into_iter().filter(|_| contexts.heads.head_at(0).is_none());
        let all = plain.into_iter().chain(layouts).chain(last);
        all.filter(|whose| *whose != Whose::Channels || cost <= BUDGET).collect()
    }

    /// A sentence, and the rows' contexts under it.
    fn of(self, contexts: &Contexts<'_>) -> Option<(String, Array2<f64>)> {
        match self {
            Whose::Nothing => Some(contexts.zeros()),
            Whose::Heads => contexts.other_heads(),
            Whose::Tokens => contexts.other_tokens(),
            Whose::Times => Some(contexts.times()),
            Whose::Sink => contexts.sinks(),
            Whose::Layout(axes, name) => contexts.layout(axes, name),
            Whose::Lanes => contexts.channels(true),
            Whose::Channels => contexts.channels(false),
        }
    }
}

impl Contexts<'_> {
    /// A sentence on the plainest whose values hold, and the rows' contexts under it.
    pub(super) fn told(&self, holds: impl Fn(&Array2<f64>) -> bool) -> Option<(String, Array2<f64>)> {
        let each = Whose::all(self).into_iter().filter_map(|whose| whose.of(self));
        each.into_iter().find(|(_, found)| holds(found))
    }

    fn own(&self) -> Array2<f64> {
        self.right.select(Axis(0), &self.rows)
    }

    fn noun(&self) -> (&'static str, &'static str) {
        if self.which.len() == 1 { ("head", "is") } else { ("heads", "are") }
    }

    fn zeros(&self) -> (String, Array2<f64>) {
        let mut all = self.own();
        self.which.iter().for_each(|head| all.slice_mut(s![.., self.heads.columns(*head)]).fill(0.0));
        let (noun, verb) = self.noun();
        (format!("{noun} {} of attention's context {verb} 0", listed::ranges(&self.which)), all)
    }

    /// What one head has of the rows, and how far another's is from it.
    fn apart(&self, own: &Array2<f64>, head: usize, other: usize) -> f64 {
        let found = self.found.slice(s![.., self.heads.columns(head)]);
        (&found - &own.slice(s![.., self.heads.columns(other)])).iter().map(|x| x * x).sum()
    }

    fn other_heads(&self) -> Option<(String, Array2<f64>)> {
        let own = self.own();
        let mut all = own.clone();
        let mut moved = Vec::new();
        for &head in &self.which {
            let nearest = |a: &usize, b: &usize| self.apart(&own, head, *a).total_cmp(&self.apart(&own, head, *b));
            let other = (0..self.heads.count).min_by(nearest)?;
            all.slice_mut(s![.., self.heads.columns(head)]).assign(&own.slice(s![.., self.heads.columns(other)]));
            moved.extend((other != head).then_some((head, other)));
        }
        let said = match moved[..] {
            [] => return None,
            [(a, b), (c, d)] if (a, b) == (d, c) => {
                format!("heads {a} and {c} of attention's context are in each other's place")
            }
            _ => {
                let each = moved.iter().map(|(head, other)| format!("head {other} for {head}"));
                format!("heads of attention's context stand in others' places: {}", each.collect::<Vec<_>>().join(", "))
            }
        };
        Some((said, all))
    }

    fn other_tokens(&self) -> Option<(String, Array2<f64>)> {
        let n = self.right.nrows();
        let channels: Vec<usize> = self.which.iter().flat_map(|head| self.heads.columns(*head)).collect();
        let right = self.right.select(Axis(1), &channels);
        let found = self.found.select(Axis(1), &channels);
        let apart = |i: usize, other: usize| (&found.row(i) - &right.row(other)).iter().map(|x| x * x).sum::<f64>();
        let others: Vec<usize> = (0..self.rows.len())
            .map(|i| (0..n).min_by(|a, b| apart(i, *a).total_cmp(&apart(i, *b))))
            .collect::<Option<_>>()?;
        let mut all = self.own();
        for (i, other) in others.iter().enumerate() {
            for column in &channels {
                all[[i, *column]] = self.right[[*other, *column]];
            }
        }
        let (noun, verb) = self.noun();
        let which = listed::ranges(&self.which);
        let whose = listed::others(&self.rows, &others);
        Some((format!("{noun} {which} of attention's context {verb} that {whose}"), all))
    }

    fn times(&self) -> (String, Array2<f64>) {
        let mut all = self.own();
        let mut factors = Vec::new();
        for &head in &self.which {
            let own = all.slice(s![.., self.heads.columns(head)]).to_owned();
            let found = self.found.slice(s![.., self.heads.columns(head)]);
            let factor = (&own * &found).sum() / own.iter().map(|x| x * x).sum::<f64>();
            all.slice_mut(s![.., self.heads.columns(head)]).assign(&(own * factor));
            factors.push(format!("head {head} {factor:.5} times"));
        }
        (format!("attention's context is multiplied by numbers: {}", listed(factors)), all)
    }

    /// p = exp s / (exp b + Σ exp s): the context is less by the share Σ exp s / (exp b + Σ exp s).
    fn sinks(&self) -> Option<(String, Array2<f64>)> {
        let mut all = self.own();
        let mut sinks = Vec::new();
        for &head in &self.which {
            let mut each = Vec::new();
            let sums: Vec<f64> = self.rows.iter().map(|row| self.heads.log_sum(*row, head)).collect();
            for (i, sum) in sums.iter().enumerate() {
                let own = all.slice(s![i, self.heads.columns(head)]);
                let share = own.dot(&self.found.slice(s![i, self.heads.columns(head)])) / own.dot(&own);
                each.push(sum + (share.recip() - 1.0).ln());
            }
            each.retain(|sink| sink.is_finite());
            let sink = median(each)?;
            for (i, sum) in sums.iter().enumerate() {
                let share = ((sink - sum).exp() + 1.0).recip();
                let mut own = all.slice_mut(s![i, self.heads.columns(head)]);
                own *= share;
            }
            sinks.push((head, sink));
        }
        let each = told(&sinks)?;
        Some((format!("the softmax's denominator counts a score beside those of keys: {each}"), all))
    }

    /// What stands at each place where the axes of \[token, head, channel\] are written in another order.
    fn layout(&self, axes: [usize; 3], name: &str) -> Option<(String, Array2<f64>)> {
        let (n, d) = (self.right.nrows(), self.heads.d);
        let of_axes = self.right.view().into_shape_with_order((n, self.heads.count, d)).ok()?;
        let written = of_axes.permuted_axes(axes).as_standard_layout().into_owned();
        let read = Array2::from_shape_vec(
            self.right.dim(),
            flat(&written.into_shape_with_order(self.right.dim()).ok()?).to_vec(),
        );
        let said = format!("attention's context is written as {name}, and read as [tokens, heads, channels]");
        Some((said, read.ok()?.select(Axis(0), &self.rows)))
    }

    /// The nearest channel of the same head, or of any, for each.
    fn channels(&self, of_own: bool) -> Option<(String, Array2<f64>)> {
        let own = self.own();
        let mut all = own.clone();
        let mut moved = Vec::new();
        for column in self.which.iter().flat_map(|head| self.heads.columns(*head)) {
            let found = self.found.column(column);
            let apart = |other: usize| (&found - &own.column(other)).iter().map(|x| x * x).sum::<f64>();
            let others = if of_own { self.heads.columns(column / self.heads.d) } else { 0..own.ncols() };
            let other = others.min_by(|a, b| apart(*a).total_cmp(&apart(*b)))?;
            all.column_mut(column).assign(&own.column(other));
            moved.extend((other != column).then_some((column, other)));
        }
        let d = self.heads.d;
        let lane = |(column, other): &(usize, usize)| (column % d, other % d);
        let mut lanes: Vec<(usize, usize)> = moved.iter().map(lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let is_of_heads = of_own && moved.len() == lanes.len() * self.which.len();
        let each = |pairs: &[(usize, usize)]| listed(pairs.iter().map(|(own, other)| format!("{own} that of {other}")));
        let said = match (moved.is_empty(), is_of_heads) {
            (true, _) => return None,
            (_, true) => {
                let (noun, which) = (self.noun().0, listed::ranges(&self.which));
                format!(
                    "channels of attention's context have the values of others, in {noun} {which}: {}",
                    each(&lanes)
                )
            }
            _ => format!("channels of attention's context have the values of others: {}", each(&moved)),
        };
        Some((said, all))
    }
}
