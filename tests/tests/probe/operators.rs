//! Norms, softmax and attention: sums of terms of one sign, and where they round.

use ndarray::{Array2, ArrayD, Axis, s};
use reference::contract::ORDERS;
use reference::order::Order;
use reference::{RoundingContract, Storage};
use tools::probe::found::Found;
use tools::probe::function::Kind;
use tools::probe::tree::Tree;

use super::{field, found, matrix, said};

/// How a norm of the tests' own is written.
#[derive(Debug, Clone, Copy)]
struct Norm {
    /// What inputs and outputs are stored in.
    storage: Storage,
    /// Whether it rounds before the weight.
    twice: bool,
    /// What the weight is, before it is multiplied by.
    factor: fn(f64) -> f64,
    /// How f32 squares are added.
    sum: fn(&[f32]) -> f64,
}

impl Norm {
    fn of(&self, x: &[f64], w: &[f64]) -> Vec<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "they are f32's")]
        let squares: Vec<f32> = x.iter().map(|&x| x as f32 * x as f32).collect();
        let mean = (self.sum)(&squares) / x.len() as f64;
        let r = Storage::F32.nearest(Storage::F32.nearest(mean + 1e-6).sqrt().recip());
        let between = |x: f64| if self.twice { self.storage.nearest(x) } else { Storage::F32.nearest(x) };
        x.iter().zip(w).map(|(&x, &w)| Storage::F32.nearest((self.factor)(w) * between(x * r))).collect()
    }

    fn found(self, kind: Kind, size: usize, stores: bool) -> Found {
        found((kind, self.storage, size), self.storage, |inputs| {
            let (mut x, w) = (matrix(&inputs[0]), inputs.last().expect("a weight"));
            if kind == Kind::AddNorm {
                x += &matrix(&inputs[1]);
                x.mapv_inplace(|x| if stores { self.storage.nearest(x) } else { Storage::F32.nearest(x) });
            }
            let w: Vec<f64> = w.iter().copied().collect();
            for mut row in x.rows_mut() {
                let normed = self.of(&row.to_vec(), &w);
                row.iter_mut().zip(normed).for_each(|(x, y)| *x = y);
            }
            x.into_dyn()
        })
    }
}

fn one_by_one(squares: &[f32]) -> f64 {
    f64::from(squares.iter().fold(0.0, |sum, x| sum + x))
}

fn in_lanes(squares: &[f32]) -> f64 {
    f64::from(Order::Lanes(ORDERS.row).sum(squares.len(), |sum: f32, i| sum + squares[i]))
}

/// The norm rounds it to f32.
fn exactly(squares: &[f32]) -> f64 {
    squares.iter().map(|&x| f64::from(x)).sum()
}

const PLAIN: Norm = Norm { storage: Storage::F32, twice: false, factor: |w| w, sum: one_by_one };

#[test]
fn a_norms_order_is_told() {
    let found = PLAIN.found(Kind::Norm, 600, true);
    let places = found.places.clone().expect("not all terms");
    assert_eq!(found.order, Tree::one_by_one(places.into_iter().map(Tree::Term)), "{found}");
    assert_eq!((found.bits, field(&found, "reduction")), (Some(24), None));

    let found = Norm { sum: in_lanes, ..PLAIN }.found(Kind::Norm, 2304, true);
    let own = Tree::of_lanes(ORDERS.row, 2304).and_then(|own| own.among(found.places.as_deref()?));
    assert_eq!(found.order.as_ref().map(Tree::sorted), own.map(|own| own.sorted()), "{found}");
    assert_eq!((found.bits, field(&found, "reduction")), (Some(24), Some("parity")));

    let found = Norm { sum: exactly, ..PLAIN }.found(Kind::Norm, 600, true);
    assert!(said(&found, "order").ends_with(": all at once, exactly or in a wider type, and rounded once"), "{found}");
}

#[test]
fn a_norms_roundings_are_told() {
    let bf16 = Norm { storage: Storage::Bf16, ..PLAIN };
    let one_plus: fn(f64) -> f64 = |w| 1.0 + w;
    let stored: fn(f64) -> f64 = |w| Storage::Bf16.nearest(1.0 + w);
    let norms = [
        (Norm { twice: false, ..bf16 }, "one", None),
        (Norm { twice: true, ..bf16 }, "two", None),
        (Norm { factor: one_plus, ..bf16 }, "one", Some("norm")),
        (Norm { factor: stored, ..bf16 }, "one", Some("weight")),
        (Norm { factor: stored, twice: true, ..bf16 }, "two", Some("weight")),
    ];
    for (norm, rms, one_plus) in norms {
        let found = norm.found(Kind::Norm, 64, true);
        assert_eq!((field(&found, "rms"), field(&found, "one_plus")), (Some(rms), one_plus), "{found}");
    }
    let odd = Norm { factor: |w| 2.0 - w, ..bf16 }.found(Kind::Norm, 64, true);
    assert!(said(&odd, "rounds").starts_with("in no known way") && field(&odd, "rms").is_none(), "{odd}");
    for (stores, norm_input) in [(true, "stored"), (false, "sum")] {
        let found = bf16.found(Kind::AddNorm, 64, stores);
        assert_eq!((field(&found, "norm_input"), field(&found, "rms")), (Some(norm_input), Some("one")), "{found}");
    }
}

/// e^(x − max x) over their sum, each step in f32 and rounded to a storage.
fn softmax(x: &ArrayD<f64>, storage: Storage, sum: fn(&[f32]) -> f64) -> ArrayD<f64> {
    let round = |x: f64| storage.nearest(Storage::F32.nearest(x));
    let mut x = matrix(x);
    for mut row in x.rows_mut() {
        let largest = row.fold(f64::NEG_INFINITY, |largest, &x| largest.max(x));
        row.mapv_inplace(|x| round(round(x - largest).exp()));
        #[expect(clippy::cast_possible_truncation, reason = "they are f32's")]
        let weights: Vec<f32> = row.iter().map(|&x| x as f32).collect();
        let all = round(sum(&weights));
        row.mapv_inplace(|x| Storage::F32.nearest(x / all));
    }
    x.into_dyn()
}

#[test]
fn a_softmax_is_told() {
    let ask = |storage, output, rounds, sum: fn(&[f32]) -> f64| {
        found((Kind::Softmax, storage, 600), output, |inputs| softmax(&inputs[0], rounds, sum))
    };
    let of_f32 = ask(Storage::F32, Storage::F32, Storage::F32, one_by_one);
    let places = of_f32.places.clone().expect("not all terms");
    assert_eq!(of_f32.order, Tree::one_by_one(places.into_iter().map(Tree::Term)), "{of_f32}");
    assert_eq!(of_f32.bits, Some(24));
    let once = ask(Storage::Bf16, Storage::Bf16, Storage::F32, one_by_one);
    assert!(said(&once, "rounds").starts_with("once, at the end ("), "{once}");
    let each = ask(Storage::Bf16, Storage::Bf16, Storage::Bf16, one_by_one);
    assert!(said(&each, "rounds").starts_with("after each step ("), "{each}");
}

/// Where attention of the tests' own rounds to bf16.
#[derive(Debug, Clone, Copy)]
struct Rounds {
    scores: bool,
    before_division: bool,
    after_division: bool,
}

/// o of q \[H, 1, d\], k and v \[H, s, d\].
fn attention(inputs: &[ArrayD<f64>], rounds: Rounds) -> ArrayD<f64> {
    let to = |does: bool, x: f64| if does { Storage::Bf16.nearest(x) } else { x };
    let (heads, d) = (inputs[0].len_of(Axis(0)), inputs[0].len_of(Axis(2)));
    let mut o = ArrayD::zeros(vec![heads, 1, d]);
    for head in 0..heads {
        let [q, k, v] = [0, 1, 2].map(|i| matrix(&inputs[i].index_axis(Axis(0), head).to_owned()));
        let scale = (d as f64).sqrt().recip();
        let scores: Vec<f64> =
            k.rows().into_iter().map(|k| to(rounds.scores, scale * to(rounds.scores, k.dot(&q.row(0))))).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let all: f64 = weights.iter().sum();
        let p = |w: f64| {
            if rounds.after_division { Storage::Bf16.nearest(w / all) } else { to(rounds.before_division, w) / all }
        };
        let p = Array2::from_shape_fn((1, weights.len()), |(_, j)| p(weights[j]));
        o.slice_mut(s![head, .., ..]).assign(&p.dot(&v));
    }
    o
}

#[test]
fn where_attention_rounds_is_told() {
    let none = Rounds { scores: false, before_division: false, after_division: false };
    let eager = Rounds { scores: true, after_division: true, ..none };
    let ways = [
        (eager, None, "eager_bf16"),
        (Rounds { before_division: true, ..none }, Some("flash"), "eager_bf16,attention=flash"),
        (Rounds { after_division: true, ..none }, Some("operands"), "eager_bf16,attention=operands"),
        (none, None, "eager_bf16"),
    ];
    for (rounds, attention_round, precision) in ways {
        let size = (Kind::Attention, Storage::Bf16, 32);
        let found = found(size, Storage::Bf16, |inputs| attention(inputs, rounds));
        let told = field(&found, "attention");
        assert_eq!(told, if rounds.scores { Some("eager") } else { attention_round }, "{found}");
        assert_eq!(found.precision, precision.parse::<RoundingContract>().expect("a precision"), "{found}");
    }
}
