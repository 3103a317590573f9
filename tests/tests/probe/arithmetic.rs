//! In what arithmetic.

use reference::Storage;
use reference::accumulator::Accumulator;
use tools::probe::found::{Direction, Found, Subnormal};

use super::{field, found_of_dots, said};

const SIZE: usize = 24;

/// Below this, f32 arithmetic is subnormal.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;

/// What is found of sums of products, one after another, each rounded so, and the terms before.
fn found_of_chain(
    storage: Storage,
    output: Storage,
    term: impl Fn(f64, f64) -> f64,
    add: impl Fn(f64, f64) -> f64,
) -> Found {
    found_of_dots(storage, SIZE, output, |a, b| {
        a.iter().zip(b).map(|(&a, &b)| term(a, b)).reduce(&add).expect("there are terms")
    })
}

fn product(a: f64, b: f64) -> f64 {
    a * b
}

/// f32's, whose products with one are exact in f64.
fn in_f32(a: f64, b: f64) -> f64 {
    Storage::F32.nearest(a + b)
}

/// A sum cut off to 24 bits, of values that f64 adds without an error that matters.
fn cut_off(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let nearest = Storage::F32.nearest(sum);
    if nearest.abs() <= sum.abs() { nearest } else { nearest - (Storage::F32.spacing(sum) * sum.signum()) }
}

#[test]
fn widths_are_told() {
    for (storage, bits) in [(Storage::Bf16, 8), (Storage::F16, 11), (Storage::F32, 24), (Storage::Real, 53)] {
        let own = if storage == Storage::F16 { Storage::F16 } else { Storage::F32 };
        let found = found_of_chain(own, own, product, |a, b| storage.nearest(a + b));
        let adder = found.adder.expect("an order");
        assert_eq!((adder.bits, adder.direction), (Some(bits), Some(Direction::NearestEven)), "{found}");
        let accumulator = match bits {
            24 => Some("f32"),
            53 => Some("f64"),
            _ => None,
        };
        assert_eq!(field(&found, "accumulator"), accumulator, "{found}");
        assert_eq!(found.foretold, Some((64, 64)), "{found}");
    }
}

#[test]
fn roundings_are_told() {
    let found = found_of_chain(Storage::Bf16, Storage::F32, product, cut_off);
    let adder = found.adder.expect("an order");
    assert_eq!((adder.bits, adder.direction), (Some(24), Some(Direction::Zero)));
    assert_eq!((found.foretold, field(&found, "accumulator")), (Some((64, 64)), None), "{found}");
    assert_eq!(said(&found, "sums"), "f32, rounded toward zero");

    // In units of the last place, which of bf16 is wide enough to be counted in f64.
    let away = |a: f64, b: f64| {
        let last = Storage::Bf16.spacing(a + b);
        ((a + b) / last).round() * last
    };
    let found = found_of_chain(Storage::F32, Storage::F32, product, away);
    assert_eq!(found.adder.expect("an order").direction, Some(Direction::NearestAway), "{found}");
}

#[test]
fn subnormal_numbers_are_told() {
    let zero = |x: f64| if x.abs() < SMALLEST { 0.0 } else { x };
    for (terms, sums) in [(true, true), (false, true), (true, false), (false, false)] {
        let found = found_of_chain(
            Storage::Bf16,
            Storage::Bf16,
            |a, b| if terms { a * b } else { zero(a * b) },
            |a, b| if sums { in_f32(a, b) } else { zero(in_f32(a, b)) },
        );
        assert_eq!(found.subnormal, Some(Subnormal { terms, sums }), "{found}");
        let told: Accumulator = field(&found, "accumulator").expect("it is told").parse().expect("one");
        let want = if terms && sums { Accumulator::F32 } else { Accumulator::F32Flushed };
        assert_eq!(told, want, "{found}");
    }
}

#[test]
fn products_that_are_rounded_before_they_are_added_are_told() {
    #[expect(clippy::cast_possible_truncation, reason = "they are f32's")]
    let fused = |a: &[f64], b: &[f64]| {
        f64::from(a.iter().zip(b).fold(0.0_f32, |sum, (&a, &b)| (a as f32).mul_add(b as f32, sum)))
    };
    let found = found_of_dots(Storage::F32, SIZE, Storage::F32, fused);
    assert_eq!(said(&found, "products"), "are added before they are rounded");
    let found = found_of_chain(Storage::F32, Storage::F32, |a, b| Storage::F32.nearest(a * b), in_f32);
    assert_eq!(said(&found, "products"), "are rounded before they are added");
}

/// As where f32 is multiplied in TF32, or in bf16.
#[test]
fn inputs_that_are_narrowed_are_told() {
    let found = found_of_chain(Storage::F32, Storage::F32, |a, b| in_tf32(a) * b, in_f32);
    assert_eq!(said(&found, "inputs"), "f32, of which 11 significant bits are kept: f16 or tf32 (11 bits)");
    assert_eq!((field(&found, "operands"), field(&found, "accumulator")), (None, Some("f32")), "{found}");
    let found = found_of_chain(Storage::F32, Storage::F32, |a, b| Storage::Bf16.nearest(a) * b, in_f32);
    assert_eq!((field(&found, "operands"), field(&found, "accumulator")), (Some("bf16"), Some("f32")), "{found}");
}

/// Eleven bits of f32's range.
fn in_tf32(a: f64) -> f64 {
    let last = Storage::F32.spacing(a) * f64::from(1 << 13);
    (a / last).round_ties_even() * last
}

/// Of a bf16 result nothing narrower than the sum is read off.
#[test]
fn a_narrow_output_hides_no_order() {
    let found = found_of_dots(Storage::Bf16, 600, Storage::Bf16, |a, b| {
        a.iter().zip(b).map(|(a, b)| a * b).reduce(in_f32).expect("there are terms")
    });
    assert_eq!(said(&found, "order"), "600 one after another");
    assert_eq!(said(&found, "output"), "bf16, rounded once from the sum");
    assert_eq!((field(&found, "accumulator"), found.foretold), (Some("f32"), Some((64, 64))), "{found}");
}
