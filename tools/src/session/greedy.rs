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
use ndarray::{Array2, ArrayView1, ArrayView2, s};
use reference::{Semantics, Site};

use super::generated::unread;
use super::inferred::{Inferred, all_of, is_unpadded, misfit};
use super::model::Model;
use super::window::{NEARER, Shown};
use crate::failure::Failure;

/// Which tokens were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Those that are said, but so many at the end.
    AllBut(usize),
    /// Those, and behind them the likeliest of each row but the last.
    Likeliest,
}

impl Read {
    /// What is known of a request then, of which so much is said, and such rows are shown.
    fn of(self, one: &Fed, rows: &Array2<f64>) -> Fed {
        let mut one = one.clone();
        match self {
            Read::AllBut(unread) => one.slots.truncate(one.slots.len() - unread),
            Read::Likeliest => one.decoded = rows.rows().into_iter().take(rows.nrows() - 1).map(likeliest).collect(),
        }
        one
    }
}

/// The likeliest token of a row, of equals the first.
fn likeliest(row: ArrayView1<'_, f64>) -> u32 {
    let best = |best: usize, token: usize| if row[token] > row[best] { token } else { best };
    u32::try_from((0..row.len()).fold(0, best)).expect("a vocabulary has fewer tokens")
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
    let fed: Vec<Fed> = fed.iter().zip(&logits.lists).map(|(one, rows)| read.of(one, rows)).collect();
    let (likeliest, unread) = match read {
        Read::AllBut(unread) => (0, unread),
        Read::Likeliest => (fed.len() * (logits.steps() - 1), 0),
    };
    let calls = logits.calls(&fed, sizes)?;
    Ok(Some(Inferred { calls, known: Some(fed), likeliest, unread, ..Inferred::default() }))
}

/// A prompt behind as much padding as it is shorter than others.
fn to_width(one: &Fed, width: usize) -> Fed {
    let padding = vec![None; width - one.slots.len()];
    Fed { slots: [padding, one.slots.clone()].concat(), ..one.clone() }
}

/// The logits of each list's last rows, one behind the other.
struct Logits {
    /// \[K, V\] of each list.
    lists: Vec<Array2<f64>>,
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
        let mut of_lists = vec![Vec::new(); lists];
        let mut first = 0;
        for step in 0..sizes.len() {
            let mut places = [Site::LmHead, Site::Logits].into_iter().map(|site| At { step, site });
            let Some(place) = places.find_map(|at| values.reading().values.get(&at)) else { return Ok(None) };
            let tensor = values.dump().tensor(&place.tensor)?;
            let shape = tensor.shape();
            let rows = tensor.len() / vocabulary;
            let (each, rest) = (rows / lists, rows % lists);
            let is_row = is_one || each == 1 || step == 0 && each == slots;
            if shape.last() != Some(&vocabulary) || rest > 0 || each == 0 || !is_row {
                return Ok(None);
            }
            let is_across = shape.len() == 3 && shape[..2] == [each, lists] && each != lists;
            for (list, values) in of_lists.iter_mut().enumerate() {
                let own = if is_one { 0..each } else { each - 1..each };
                for row in own.map(|i| if is_across { i * lists + list } else { list * each + i }) {
                    let mut logits = vec![0.0_f64; vocabulary];
                    tensor.values_into(row * vocabulary, &mut logits);
                    values.extend(logits);
                }
            }
            first = if step == 0 { each } else { first };
        }
        // Final caches have slots of all that was read.
        let is_beside = |(at, place): (&At, &Place)| {
            at.step > 0 || matches!(at.site, Site::LmHead | Site::Logits) || place.form.is_cache()
        };
        let has_caches = values.reading().values.values().any(|place| place.form.is_cache());
        let are_alone = values.reading().values.iter().all(is_beside);
        let steps = of_lists[0].len() / vocabulary;
        if is_one && !are_alone || steps < 2 || of_lists.iter().flatten().any(|z| z.is_nan()) {
            return Ok(None);
        }
        let list = |values| Array2::from_shape_vec((steps, vocabulary), values).expect("rows of one width");
        let lists = of_lists.into_iter().map(list).collect();
        Ok(Some(Logits { lists, is_one, is_of_last: are_alone && first == 1, has_caches }))
    }

    fn steps(&self) -> usize {
        self.lists[0].nrows()
    }

    /// Which tokens were read, those of the first list for all: those that rows choose or draw, or else behind which the reference's
    /// logits are near. Where already the prompt's own row is far, any are as good. Of logits alone of one prompt, all but the likeliest
    /// is asked elsewhere.
    fn read(&self, values: &Sited, fed: &[Fed], reading: (&Model, &Semantics)) -> Result<Option<Read>, Failure> {
        let (tokens, all) = (fed[0].tokens(), &self.lists[0]);
        let off = |tokens: &[u32], rows: ArrayView2<'_, f64>| {
            let beside = Shown::of_logits(values, rows.to_owned()).beside(tokens, reading)?.map(|beside| beside.off());
            Ok::<_, Failure>(beside.unwrap_or_default())
        };
        let off_said = if tokens.len() > self.steps() { off(&tokens, all.view())? } else { Vec::new() };
        let is_near = |off: Vec<f64>, least: f64| off.last().is_none_or(|off| *off <= NEARER * least);
        let decoded = all_of(&Read::Likeliest.of(&fed[0], all));
        if is_near(off(&decoded, all.view())?, off_said.iter().copied().fold(1.0, f64::min)) {
            return Ok(Some(Read::Likeliest));
        }
        let rows: Vec<Vec<f64>> = all.rows().into_iter().map(|row| row.to_vec()).collect();
        let said = unread(&rows, &tokens);
        let is_alone = fed.len() == 1 && !self.has_caches;
        if let [.., off_unread, off_read] = off_said[..]
            && !is_alone
        {
            let nearer = Some(usize::from(off_unread < off_read)).filter(|_| off_unread.min(off_read) <= NEARER);
            if let Some(unread) = nearer.or(said) {
                return Ok(Some(Read::AllBut(unread)));
            }
        }
        let is_asked_elsewhere = is_alone && (self.is_one || said.is_some());
        let is_far = || Ok::<_, Failure>(!is_near(off(&tokens, all.slice(s![..1, ..]))?, 1.0));
        Ok(if is_asked_elsewhere || !is_far()? { None } else { Some(Read::Likeliest) })
    }

    /// The calls of requests of which all is known.
    fn calls(&self, fed: &[Fed], sizes: &[Size]) -> Result<Vec<Call>, Failure> {
        if !self.is_one && !self.is_of_last {
            return inferred::calls(fed, sizes).map_err(misfit);
        }
        let mut sizes = sizes.to_vec();
        sizes[0] = Size::default();
        let later = self.steps() - 1;
        let of_first = |one: &Fed| {
            let decoded = Fed::new(&one.decoded, &[]).slots;
            let mut slots = [one.slots.clone(), decoded].concat();
            let decoded = slots.split_off(slots.len() - if self.is_one { 0 } else { later });
            Fed { slots, decoded: decoded.into_iter().flatten().map(|slot| slot.token).collect(), ..one.clone() }
        };
        let fed: Vec<Fed> = fed.iter().map(of_first).collect();
        let mut calls = inferred::calls(&fed, &sizes).map_err(misfit)?;
        if self.is_one {
            calls[0].kept = Some((calls[0].width - self.steps()..calls[0].width).collect());
        }
        Ok(calls)
    }
}
