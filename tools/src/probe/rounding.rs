//! Where an operator rounds: of the ways that are known, the one that gives its values bit for bit.
//!
//! Each way is the reference under a contract, in f64 but for the roundings that the contract says. An operator that rounds so has
//! all of these values but the few where the errors of its f32 arithmetic decide a rounding.

use ndarray::{Array1, Array2, ArrayD, Axis, Ix2, Ix3, s};
use reference::ops::add_rms_norm::{AddRmsNorm, add_rms_norm};
use reference::ops::attention::{Attention, attention};
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::rounding::{AttentionRound, NormInput, OnePlus, RmsRound};
use reference::semantics::{Causal, EpsPlace, NormWeight};
use reference::{Rounding, RoundingContract, Storage};

use super::function::{CHANNELS, HEADS, Kind, Probed, ROWS, array};
use super::random::Draw;
use crate::failure::Failure;

/// The share of values that a way gives, at least, for it to be the function's.
const SHARE: f64 = 0.97;

/// Ways whose shares are no further apart are not told apart.
const APART: f64 = 0.02;

/// Calls of attention.
const CALLS: usize = 8;

/// Keys that are weighed there: as few as no implementation cuts into tiles, each of which has a largest score of its own.
const NEAR: usize = 16;

/// A precision's field, and its value.
pub(super) type Field = (&'static str, String);

/// A way to round, and what it makes of the inputs.
struct Way {
    words: String,
    fields: Vec<Field>,
    values: Vec<f64>,
}

/// In words, and the fields of a precision that say so.
pub(super) type Told = (String, Vec<Field>);

/// Where a norm, a softmax or attention rounds, whose output is as wide as its inputs.
pub(super) fn told(probed: &mut Probed<'_>) -> Result<Told, Failure> {
    let (made, ways) = match probed.kind {
        Kind::Norm | Kind::AddNorm => of_norm(probed)?,
        Kind::Softmax => of_softmax(probed)?,
        _ => of_attention(probed)?,
    };
    Ok(likeliest(&made, ways))
}

/// The way that gives most of the values.
fn likeliest(made: &[f64], ways: Vec<Way>) -> Told {
    let share = |way: &Way| {
        let equal = made.iter().zip(&way.values).filter(|(made, value)| made == value).count();
        equal as f64 / made.len() as f64
    };
    let mut ways: Vec<(f64, Way)> = ways.into_iter().map(|way| (share(&way), way)).collect();
    ways.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let best = ways[0].0;
    let percent = 100.0 * best;
    if best < SHARE {
        return (format!("in no known way: {} gives {percent:.1} % of values", ways[0].1.words), Vec::new());
    }
    ways.retain(|(share, _)| best - share < APART);
    let words: Vec<&str> = ways.iter().map(|(_, way)| &*way.words).collect();
    let words = format!("{} ({percent:.1} % of values)", words.join(", or "));
    let same = |field: &Field| ways.iter().all(|(_, way)| way.fields.contains(field));
    let fields = ways[0].1.fields.iter().filter(|field| same(field)).cloned().collect();
    (words, fields)
}

/// Activations in a storage, f32 arithmetic.
fn plain(storage: Storage) -> RoundingContract {
    RoundingContract { activations: storage, ..RoundingContract::EAGER_BF16 }
}

/// Ways to round a norm: before the weight, where 1 is added to that, and what it reads.
fn of_norm(probed: &mut Probed<'_>) -> Result<(Vec<f64>, Vec<Way>), Failure> {
    let (storage, size) = (probed.storage, probed.size);
    let mut draw = Draw::new(1);
    // Beside the squares no ε in use is seen.
    let mut rows = || draw.activations(ROWS * size, 64.0, storage);
    let (x, y) = (rows(), rows());
    let w = draw.activations(size, 1.0, storage);
    let dim = [ROWS, size];
    let mut inputs = vec![array(&dim, x), array(&[size], w)];
    if probed.kind == Kind::AddNorm {
        inputs.insert(1, array(&dim, y));
    }
    let made = probed.call(&inputs, &dim)?;
    let matrix = |input: &ArrayD<f64>| input.clone().into_dimensionality::<Ix2>().expect("it is one");
    let w = Array1::from_iter(inputs.last().expect("the weight").iter().copied());
    let mut ways = Vec::new();
    let weights = [
        (NormWeight::Plain, OnePlus::Norm, RmsRound::One, "once, after the weight"),
        (NormWeight::Plain, OnePlus::Norm, RmsRound::Two, "before the weight and after it"),
        (NormWeight::OnePlus, OnePlus::Norm, RmsRound::One, "once, after 1 + w, which is not rounded"),
        (NormWeight::OnePlus, OnePlus::Weight, RmsRound::One, "1 + w, and once after it"),
        (NormWeight::OnePlus, OnePlus::Weight, RmsRound::Two, "1 + w, before it and after it"),
    ];
    let reads: &[(NormInput, &str)] = match probed.kind {
        Kind::AddNorm => {
            &[(NormInput::Stored, "; reads the sum as it is stored"), (NormInput::Sum, "; reads the sum unrounded")]
        }
        _ => &[(NormInput::Stored, "")],
    };
    for (weight, one_plus, rms, words) in weights {
        for &(norm_input, reads) in reads {
            let contract = RoundingContract { one_plus, rms, norm_input, ..plain(storage) };
            let loaded = match one_plus {
                OnePlus::Norm => w.clone(),
                OnePlus::Weight => w.mapv(|w| storage.nearest(1.0 + w) - 1.0),
            };
            let values = if probed.kind == Kind::AddNorm {
                let own = AddRmsNorm::under(&contract, 1e-6, EpsPlace::Inside);
                let own = AddRmsNorm { norm: own.norm.weighing(weight), ..own };
                add_rms_norm(&own, matrix(&inputs[0]).view(), matrix(&inputs[1]).view(), loaded.view())?.1
            } else {
                let own = RmsNorm::under(&contract, 1e-6, EpsPlace::Inside).weighing(weight);
                rms_norm(&own, matrix(&inputs[0]).view(), loaded.view())?
            };
            let mut fields = vec![("rms", rms.to_string())];
            if weight == NormWeight::OnePlus {
                fields.push(("one_plus", one_plus.to_string()));
            }
            if probed.kind == Kind::AddNorm {
                fields.push(("norm_input", norm_input.to_string()));
            }
            ways.push(Way { words: format!("{words}{reads}"), fields, values: values.into_iter().collect() });
        }
    }
    Ok((made.into_iter().collect(), ways))
}

/// Ways to round a softmax.
fn of_softmax(probed: &mut Probed<'_>) -> Result<(Vec<f64>, Vec<Way>), Failure> {
    let (storage, size) = (probed.storage, probed.size);
    let x = Draw::new(2).activations(ROWS * size, 3.0, storage);
    let made = probed.call(&[array(&[ROWS, size], x.clone())], &[ROWS, size])?;
    let once = |x: f64| x;
    let each = |x: f64| storage.nearest(x);
    let of = |round: &dyn Fn(f64) -> f64| {
        let row = |row: &[f64]| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = row.iter().map(|x| round(round(x - largest).exp())).collect();
            let sum = round(weights.iter().sum());
            weights.into_iter().map(move |weight| storage.nearest(weight / sum)).collect::<Vec<_>>()
        };
        x.chunks(size).flat_map(row).collect()
    };
    let ways = vec![
        Way { words: "once, at the end".into(), fields: Vec::new(), values: of(&once) },
        Way { words: "after each step".into(), fields: Vec::new(), values: of(&each) },
    ];
    Ok((made.into_iter().collect(), ways))
}

/// Ways to round within attention.
fn of_attention(probed: &mut Probed<'_>) -> Result<(Vec<f64>, Vec<Way>), Failure> {
    let (storage, size) = (probed.storage, probed.size);
    let fields = |round: AttentionRound| vec![("attention", round.to_string())];
    let stored = plain(storage);
    let with = |attention, kv_cache| RoundingContract { attention, kv_cache, ..stored };
    let of = |contract: &RoundingContract| {
        let own = Attention::under(contract, (HEADS, HEADS), CHANNELS);
        Attention { causal: Causal::All, ..own }
    };
    let flash = of(&with(AttentionRound::Flash, Storage::Real));
    let known = [
        (
            "scores, scaled scores and probabilities",
            fields(AttentionRound::Eager),
            of(&with(AttentionRound::Eager, Storage::Real)),
        ),
        ("probabilities before their division", fields(AttentionRound::Flash), flash),
        (
            "probabilities after their division",
            fields(AttentionRound::Operands),
            of(&with(AttentionRound::Operands, storage)),
        ),
        ("nothing but the output", Vec::new(), Attention { probabilities: Rounding::NONE, ..flash }),
    ];
    let mut draw = Draw::new(3);
    let mut made = Vec::new();
    let mut ways: Vec<Way> = known
        .iter()
        .map(|(words, fields, _)| Way { words: (*words).into(), fields: fields.clone(), values: Vec::new() })
        .collect();
    for _ in 0..CALLS {
        let mut rows = |rows: usize, spread: f64| {
            array(&[HEADS, rows, CHANNELS], draw.activations(HEADS * rows * CHANNELS, spread, storage))
        };
        let [q, mut k, v] = [rows(1, 2.0), rows(size, 1.0), rows(size, 1.0)];
        // The others' scores are so low that their weights are zero.
        for ((head, key, channel), k) in k.view_mut().into_dimensionality::<Ix3>().expect("keys").indexed_iter_mut() {
            if key >= NEAR {
                *k = storage.nearest(-8.0 * q[[head, 0, channel]]);
            }
        }
        made.extend(probed.call(&[q.clone(), k.clone(), v.clone()], &[HEADS, 1, CHANNELS])?);
        let [q, k, v] = [q, k, v].map(side_by_side);
        for ((_, _, own), way) in known.iter().zip(&mut ways) {
            way.values.extend(attention(own, q.view(), k.view(), v.view())?);
        }
    }
    Ok((made, ways))
}

/// Heads \[H, n, d\] as the reference has them, \[n, H·d\].
fn side_by_side(heads: ArrayD<f64>) -> Array2<f64> {
    let rows = heads.len_of(Axis(1));
    let mut own = Array2::zeros((rows, HEADS * CHANNELS));
    for (head, values) in heads.outer_iter().enumerate() {
        let values = values.into_dimensionality::<Ix2>().expect("rows and channels");
        own.slice_mut(s![.., head * CHANNELS..(head + 1) * CHANNELS]).assign(&values);
    }
    own
}
