//! `reference/src/ops/rope.rs`.

use ndarray::{Array1, Array2, array};
use proptest::prelude::*;
use reference::ops::rope::{Rope, RopeTable, inverse_frequencies, rope, rope_table};
use reference::rounding::Chain;
use reference::semantics::{RopePair, RopePart, RopeScaling};
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::strategy::{Contract, Errors, Fill, Matrix, Noise, Perturbed, contract, filled, finite, noise};

mod by_hand;

/// x \[n, heads·d\] at positions from `first` on, under a contract, with errors of x and of the table.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    rope: Rope,
    first: usize,
    x: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> Rope {
        self.rope.under(&self.contract)
    }

    fn ideal(&self) -> Rope {
        self.rope.under(&RoundingContract::IDEAL)
    }

    fn table(&self) -> RopeTable<f64> {
        rope_table(&self.ideal(), self.first, self.x.nrows())
    }

    fn rotated(&self, x: &Array2<f64>) -> Array2<f64> {
        oracle(&self.ideal(), x, &self.table())
    }
}

fn variants() -> impl Strategy<Value = (RopePart, RopePair)> {
    (
        prop_oneof![Just(RopePart::First), Just(RopePart::Last)],
        prop_oneof![Just(RopePair::Half), Just(RopePair::Interleaved), Just(RopePair::HalfHead)],
    )
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let dims = (1..4_usize, 1..3_usize, 0..6_usize, 0..4_usize);
    let first = prop_oneof![0..4_usize, 0..200_000_usize];
    (contract(), variants(), noise(), dims, first).prop_flat_map(
        move |(contract, (part, pair), noise, (n, heads, h, rest), first)| {
            let head_dim = (2 * h + rest).max(1);
            let rope = Rope { head_dim, rotary_dim: 2 * h, theta: 5e6, part, pair, ..Rope::default() };
            filled((n, heads * head_dim), fill.clone(), contract.activations).prop_map(move |x| Case {
                contract,
                rope,
                first,
                x,
                noise,
            })
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn oracle(p: &Rope, x: &Array2<f64>, table: &RopeTable<f64>) -> Array2<f64> {
    rope(p, x.view(), table.cos.view(), table.sin.view()).expect("the case keeps the contract")
}

/// The channels of each pair, and the pair's frequency, by definition.
fn pairs(p: &Rope) -> Vec<(usize, usize, usize)> {
    let h = p.rotary_dim / 2;
    let first = if p.part == RopePart::First { 0 } else { p.head_dim - p.rotary_dim };
    (0..h)
        .map(|i| match p.pair {
            RopePair::Half => (first + i, first + i + h, i),
            RopePair::Interleaved => (first + 2 * i, first + 2 * i + 1, i),
            RopePair::HalfHead => (i, i + p.head_dim / 2, i),
        })
        .collect()
}

proptest! {
    /// D01, D02: multiplication by e^(iφ), pair by pair, and nothing else moves.
    #[test]
    fn d01_d02_is_a_complex_rotation_of_the_pairs(case in case()) {
        let (p, table) = (case.ideal(), case.table());
        let y = case.rotated(&case.x);
        let mut want = case.x.values();
        for ((row, head), _) in Array2::<u8>::zeros((y.nrows(), y.ncols() / p.head_dim)).indexed_iter() {
            for &(a, b, i) in &pairs(&p) {
                let (a, b) = (head * p.head_dim + a, head * p.head_dim + b);
                let (c, s) = (table.cos.value[[row, i]], table.sin.value[[row, i]]);
                let (re, im) = (case.x[[row, a]], case.x[[row, b]]);
                want[[row, a]] = re * c - im * s;
                want[[row, b]] = re * s + im * c;
            }
        }
        prop_assert_eq!(y, want);
    }

    #[test]
    fn position_0_is_the_identity_exactly(case in case()) {
        let case = Case { first: 0, ..case };
        let y = case.rotated(&case.x);
        prop_assert_eq!(y.row(0), case.x.row(0));
    }

    #[test]
    fn a_power_of_two_passes_through_exactly(case in case()) {
        prop_assert_eq!(case.rotated(&(&*case.x * -2.0)), case.rotated(&case.x) * -2.0);
    }

    /// c² + s² = 1 to 2·u in f64, and two products and a sum add 4·u.
    #[test]
    fn the_norm_of_a_pair_is_kept(case in case()) {
        let (p, y) = (case.ideal(), case.rotated(&case.x));
        for head in 0..y.ncols() / p.head_dim {
            for &(a, b, _) in &pairs(&p) {
                let (a, b) = (head * p.head_dim + a, head * p.head_dim + b);
                for (x, y) in case.x.rows().into_iter().zip(y.rows()) {
                    let (was, is) = (x[a].hypot(x[b]), y[a].hypot(y[b]));
                    prop_assert!((was - is).abs() <= 8.0 * f64::UNIT_ROUNDOFF * was, "{} {}", was, is);
                }
            }
        }
    }

    /// ⟨R(p)q, R(s)k⟩ = ⟨R(p − s)q, k⟩ where the angles are exact multiples of one frequency, as those of pair 0 are.
    #[test]
    fn products_depend_on_the_distance_only(q in filled((1, 2), Just(Fill::Activation), Storage::Bf16), t in 0..999_usize, s in 0..999_usize) {
        let p = Rope { head_dim: 2, rotary_dim: 2, theta: 1e4, ..Rope::default() };
        let at = |x: &Array2<f64>, position| oracle(&p, x, &rope_table(&p, position, 1));
        let k = array![[0.75, -1.5]];
        let dot = |a: &Array2<f64>, b: &Array2<f64>| a.row(0).dot(&b.row(0));
        let (far, near) = (t.max(s), t.min(s));
        let moved = dot(&at(&q, far), &at(&k, near));
        let limit = 16.0 * f64::UNIT_ROUNDOFF * q[[0, 0]].hypot(q[[0, 1]]) * 0.75_f64.hypot(1.5);
        prop_assert!((moved - dot(&at(&q, far - near), &k)).abs() <= limit);
    }

    /// A candidate that uses our table.
    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x, table) = (case.params(), case.noise.on(&case.x, 0), case.table());
        let table_noise = |t: &Tracked<f64>, which| Perturbed::new(&t.value, case.noise.errors, case.noise.size, 0.0, which);
        let (cos, sin) = (table_noise(&table.cos, case.first as u64), table_noise(&table.sin, 1 + case.first as u64));
        let got = rope(&p, x.f32().view(), cos.f32().view(), sin.f32().view()).expect("good").mapv(f64::from);
        // Rounding the table to f32 is an error of the table, which the noise has to say.
        let rounded = |t: Perturbed| t.tracked.with_rounding(Storage::F32);
        let want = case.rotated(&case.x);
        let bound = p.bound(&x.tracked, &RopeTable { cos: rounded(cos), sin: rounded(sin) }, &want);
        within(&got, &want, &bound)?;
        if case.noise.errors != Errors::Extreme {
            likely(&got, &want, &bound)?;
        }
    }

    /// A candidate that makes the table itself, in f32, from frequencies that are two ulps off.
    #[test]
    fn a_device_that_makes_its_table_stays_within_the_bound(case in case(), up in any::<bool>()) {
        let (p, ideal) = (case.params(), case.table());
        let table = RopeTable {
            cos: Tracked { error: Some(p.table_bound(case.first, &ideal.cos.value)), ..ideal.cos.clone() },
            sin: Tracked { error: Some(p.table_bound(case.first, &ideal.sin.value)), ..ideal.sin.clone() },
        };
        let off = |f: f32| if up { f.next_up().next_up() } else { f.next_down().next_down() };
        let frequencies: Vec<f32> = inverse_frequencies(p.theta, p.rotary_dim, p.rotary_dim).into_iter().map(off).collect();
        let made = |f: fn(f32) -> f32| Array2::from_shape_fn(ideal.cos.dim(), |(i, j)| {
            p.table.round(f(f32::of((case.first + i) as f64) * frequencies[j % frequencies.len()]))
        });
        let (cos, sin) = (made(f32::cos), made(f32::sin));
        within(&cos.mapv(f64::from), &ideal.cos.value, table.cos.error.as_ref().expect("set"))?;
        within(&sin.mapv(f64::from), &ideal.sin.value, table.sin.error.as_ref().expect("set"))?;
        let want = case.rotated(&case.x);
        let got = rope(&p, case.x.f32().view(), cos.view(), sin.view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound(&case.x.exact(), &table, &want))?;
    }

    #[test]
    fn nan_and_infinity_stay_in_their_pair(case in case(), at in any::<prop::sample::Index>()) {
        let p = case.params();
        let j = at.index(case.x.ncols());
        for bad in [f64::NAN, f64::INFINITY] {
            let mut x = case.x.values();
            x[[0, j]] = bad;
            let y = oracle(&p, &x, &case.table());
            let own = pairs(&p).into_iter().find(|&(a, b, _)| j % p.head_dim == a || j % p.head_dim == b);
            let touched = own.map_or(vec![j % p.head_dim], |(a, b, _)| vec![a, b]);
            for (column, y) in y.row(0).iter().enumerate() {
                let same_head = column / p.head_dim == j / p.head_dim;
                prop_assert_eq!(!y.is_finite(), same_head && touched.contains(&(column % p.head_dim)), "{}", column);
            }
        }
    }
}
