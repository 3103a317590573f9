//! What was decoded behind prompts, where a dump shows the logits of it: of a batch whose tokens are said, or of prompts whose decoded
//! tokens nobody says. Those are what greedy decoding takes, if the reference's logits behind them are near the dump's.
//!
//! ```text
//! one tensor            [B, K, V]  [K, B, V]  of one prompt also [K, V]      the last K rows of each of B lists
//! a tensor of each step [B, V]  [B, 1, V]  the first also [B, T, V]          a row of each list
//! caches                beside them, of all slots
//! tokens                all that were read; or these and the last, which was not; or prompts, behind them each row's likeliest
//! ```

use fixtures::activations::rows::Call;
use fixtures::activations::rows::inferred::{self, Fed, Size};
use fixtures::names::at::At;
use fixtures::names::reading::Place;
use fixtures::names::sited::Sited;
use ndarray::{Array2, ArrayView2, s};
use reference::{Semantics, Site};

use super::computed::NEARER;
use super::generated::{likeliest, logits_of, unread};
use super::inferred::{Inferred, all_of, is_unpadded};
use super::model::Model;
use super::window::Shown;
use crate::failure::Failure;

/// How many times as far as the prompt's own row all are, at most, where one mistake puts all of them off alike. Behind other tokens they
/// are as far as any rows from any, by √2 of their size, and that row is as near as rounding leaves it, to a tenth at most: fourteen times,
/// of which four is half-way.
const ALIKE: f64 = 4.0;

/// Which tokens were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Those that are said, but so many at the end.
    AllBut(usize),
    /// Those, and behind them the likeliest of each row but the last.
    Likeliest,
}

impl Read {
    /// What is known of a request then, of which so much is said, and so much is likeliest behind it.
    fn of(self, one: &Fed, likeliest: &[u32]) -> Fed {
        let mut one = one.clone();
        match self {
            Read::AllBut(unread) => one.slots.truncate(one.slots.len() - unread),
            Read::Likeliest => one.decoded = likeliest.to_vec(),
        }
        one
    }
}

/// The calls and the requests' tokens, if a dump shows logits of the prompts' last tokens and of what was decoded behind them.
pub(super) fn of_decoded(
    values: &Sited,
    fed: &[Fed],
    sizes: &[Size],
    reading: (&Model, &Semantics),
) -> Result<Option<Inferred>, Failure> {
    let width = fed.iter().map(|one| one.slots.len()).max().unwrap_or(0);
    let is_prompt = |one: &Fed| {
        one.decoded.is_empty() && !one.tokens().is_empty() && (one.slots.len() == width || is_unpadded(one))
    };
    if width < 2 || !fed.iter().all(is_prompt) {
        return Ok(None);
    }
    let fed: Vec<Fed> = fed.iter().map(|one| to_width(one, width)).collect();
    let Some(logits) = Logits::of(values, (fed.len(), width), sizes, reading.0)? else { return Ok(None) };
    let Some(read) = logits.read(values, &fed, reading)? else { return Ok(None) };
    let fed: Vec<Fed> = fed.iter().zip(&logits.likeliest).map(|(one, likeliest)| read.of(one, likeliest)).collect();
    let (likeliest, unread) = match read {
        Read::AllBut(unread) => (0, unread),
        Read::Likeliest => (logits.rows.nrows() - 1, 0),
    };
    // Rows of other values may be those of calls behind the prompt alone.
    let Some(calls) = logits.calls(&fed, sizes) else { return Ok(None) };
    Ok(Some(Inferred { calls, known: Some(fed), likeliest, unread, ..Inferred::default() }))
}

/// A prompt behind as much padding as it is shorter than others.
fn to_width(one: &Fed, width: usize) -> Fed {
    let padding = vec![None; width - one.slots.len()];
    Fed { slots: [padding, one.slots.clone()].concat(), ..one.clone() }
}

/// The logits of each list's last rows, one behind the other.
struct Logits {
    /// Those of the first list, \[K, V\], by which it is told what they are.
    rows: Array2<f64>,
    /// The likeliest tokens of each list's rows but the last.
    likeliest: Vec<Vec<u32>>,
    /// Whether one tensor has them all, and else whether the first call's tensors have rows of it alone.
    is_one: bool,
    is_of_last: bool,
    /// Whether caches are beside them.
    has_caches: bool,
}

impl Logits {
    /// Those of a dump that has so many lists of so many slots.
    fn of(
        values: &Sited,
        (lists, slots): (usize, usize),
        sizes: &[Size],
        model: &Model,
    ) -> Result<Option<Self>, Failure> {
        let (is_one, vocabulary) = (sizes.len() == 1, model.checkpoint.config().vocab_size);
        let (mut first, mut likeliest_of) = (Vec::new(), vec![Vec::new(); lists]);
        let mut is_last = false;
        for step in 0..sizes.len() {
            let Some(tensor) = logits_of(values, step)? else { return Ok(None) };
            let (shape, rows) = (tensor.shape(), tensor.len() / vocabulary);
            let (each, rest) = (rows / lists, rows % lists);
            let is_row = is_one || each == 1 || step == 0 && each == slots;
            if shape.last() != Some(&vocabulary) || rest > 0 || each == 0 || !is_row {
                return Ok(None);
            }
            let is_across = shape.len() == 3 && shape[..2] == [each, lists] && each != lists;
            for (list, likeliest_of) in likeliest_of.iter_mut().enumerate() {
                for i in if is_one { 0..each } else { each - 1..each } {
                    let row = if is_across { i * lists + list } else { list * each + i };
                    let mut logits = vec![0.0_f64; vocabulary];
                    tensor.values_into(row * vocabulary, &mut logits);
                    if logits.iter().any(|z| z.is_nan()) {
                        return Ok(None);
                    }
                    likeliest_of.push(likeliest(&logits));
                    first.extend(if list == 0 { logits } else { Vec::new() });
                }
            }
            is_last |= step == 0 && each == 1;
        }
        // Final caches have slots of all that was read.
        let is_beside = |(at, place): (&At, &Place)| {
            at.step > 0 || matches!(at.site, Site::LmHead | Site::Logits) || place.form.is_cache()
        };
        let has_caches = values.reading().values.values().any(|place| place.form.is_cache());
        let are_alone = values.reading().values.iter().all(is_beside);
        let steps = first.len() / vocabulary;
        if is_one && !are_alone || steps < 2 {
            return Ok(None);
        }
        for tokens in &mut likeliest_of {
            tokens.truncate(steps - 1);
        }
        let rows = Array2::from_shape_vec((steps, vocabulary), first).expect("rows of one width");
        Ok(Some(Logits { rows, likeliest: likeliest_of, is_one, is_of_last: are_alone && is_last, has_caches }))
    }

    /// Which tokens were read, those of the first list for all: those that rows choose or draw, or else behind which the reference's
    /// logits are near. Where already the prompt's own row is far, any are as good; and where rows behind the likeliest are about as
    /// far as it, what makes it so makes these so. Of logits alone of one prompt, all but the likeliest is asked elsewhere.
    fn read(&self, values: &Sited, fed: &[Fed], reading: (&Model, &Semantics)) -> Result<Option<Read>, Failure> {
        let (tokens, all) = (fed[0].tokens(), &self.rows);
        let off = |tokens: &[u32], rows: ArrayView2<'_, f64>| {
            let beside = Shown::of_logits(values, rows.to_owned()).beside(tokens, reading)?.map(|beside| beside.off());
            Ok::<_, Failure>(beside.unwrap_or_default())
        };
        let off_said = if tokens.len() > all.nrows() { off(&tokens, all.view())? } else { Vec::new() };
        let least = off_said.iter().copied().fold(1.0, f64::min);
        let decoded = all_of(&Read::Likeliest.of(&fed[0], &self.likeliest[0]));
        let off_decoded = off(&decoded, all.view())?.last().copied().unwrap_or(f64::INFINITY);
        if off_decoded <= NEARER * least {
            return Ok(Some(Read::Likeliest));
        }
        let rows: Vec<Vec<f64>> = all.rows().into_iter().map(|row| row.to_vec()).collect();
        let said = unread(&rows, &tokens);
        let is_alone = fed.len() == 1 && !self.has_caches;
        if is_alone && (self.is_one || said.is_some()) {
            return Ok(None);
        }
        if let [.., off_unread, off_read] = off_said[..] {
            let nearer = Some(usize::from(off_unread < off_read)).filter(|_| off_unread.min(off_read) <= NEARER);
            if let Some(unread) = nearer.or(said) {
                return Ok(Some(Read::AllBut(unread)));
            }
        }
        let off_first = off(&tokens, all.slice(s![..1, ..]))?.last().copied().unwrap_or(0.0);
        let is_alike = off_decoded <= ALIKE * off_first;
        Ok((is_alike || off_first > NEARER).then_some(Read::Likeliest))
    }

    /// The calls of requests of which all is known, if rows are theirs.
    fn calls(&self, fed: &[Fed], sizes: &[Size]) -> Option<Vec<Call>> {
        if !self.is_one && !self.is_of_last {
            return inferred::calls(fed, sizes).ok();
        }
        let mut sizes = sizes.to_vec();
        sizes[0] = Size::default();
        let steps = self.rows.nrows();
        let of_first = |one: &Fed| {
            let decoded = Fed::new(&one.decoded, &[]).slots;
            let mut slots = [one.slots.clone(), decoded].concat();
            let decoded = slots.split_off(slots.len() - if self.is_one { 0 } else { steps - 1 });
            Fed { slots, decoded: decoded.into_iter().flatten().map(|slot| slot.token).collect(), ..one.clone() }
        };
        let fed: Vec<Fed> = fed.iter().map(of_first).collect();
        let mut calls = inferred::calls(&fed, &sizes).ok()?;
        if self.is_one {
            calls[0].kept = Some((calls[0].width - steps..calls[0].width).collect());
        }
        Some(calls)
    }
}
