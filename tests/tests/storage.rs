//! `reference/src/storage.rs`.

use half::{bf16, f16};
use proptest::prelude::*;
use reference::storage::{Mode, Tf32};
use reference::{Real, Rounding, Storage};

const ALL: [Storage; 5] = [Storage::Real, Storage::F32, Storage::Tf32(Tf32::Rn), Storage::F16, Storage::Bf16];

/// The value of sixteen bits.
fn of_bits(storage: Storage, bits: u16) -> f64 {
    match storage {
        Storage::F16 => f16::from_bits(bits).to_f64(),
        _ => bf16::from_bits(bits).to_f64(),
    }
}

/// Any finite f64, all exponents alike.
fn any_f64() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |x| x.is_finite())
}

/// An f64 whose exponent is near those of the small types.
fn any_near() -> impl Strategy<Value = f64> {
    (any::<f64>(), -160..140).prop_map(|(x, e)| {
        let mantissa = f64::from_bits(x.to_bits() & 0x800f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
        mantissa * 2.0_f64.powi(e)
    })
}

/// All 65,536 values of each: a value rounds to itself, signs of zero and NaN included.
#[test]
fn values_round_to_themselves() {
    for storage in [Storage::F16, Storage::Bf16] {
        for bits in 0..=u16::MAX {
            let x = of_bits(storage, bits);
            let rounded = storage.nearest(x);
            assert!(storage.holds(x));
            assert!(
                if x.is_nan() { rounded.is_nan() } else { rounded.to_bits() == x.to_bits() },
                "{storage} {bits:#x}"
            );
        }
    }
}

/// All pairs of neighbours: the middle goes to the even one, what is above it up, what is below it down, however little
/// above or below. Subnormal numbers are among them, and the middle between the largest number and infinity.
#[test]
fn middles_round_to_even() {
    for storage in [Storage::F16, Storage::Bf16] {
        let infinity = if storage == Storage::F16 { f16::INFINITY.to_bits() } else { bf16::INFINITY.to_bits() };
        for bits in 0..infinity {
            let (low, high) = (of_bits(storage, bits), of_bits(storage, bits + 1));
            let even = if bits % 2 == 0 { low } else { high };
            // Infinity stands for the next power of two.
            let middle = if high.is_finite() { low + (high - low) / 2.0 } else { low + storage.spacing(low) / 2.0 };
            for sign in [1.0, -1.0] {
                let round = |x: f64| storage.nearest(sign * x) * sign;
                assert_eq!(round(middle), even, "{storage} {bits:#x}");
                assert_eq!(round(middle.next_up()), high, "{storage} {bits:#x}");
                assert_eq!(round(middle.next_down()), low, "{storage} {bits:#x}");
                assert!(!storage.holds(middle));
            }
        }
    }
}

/// By way of f32, 1 + 2⁻⁸ + 2⁻⁴⁰ would lose its last bit, be a middle and go to 1.
#[test]
fn nothing_rounds_twice() {
    assert_eq!(Storage::Bf16.nearest(1.0 + 2.0_f64.powi(-8) + 2.0_f64.powi(-40)), 1.0 + 2.0_f64.powi(-7));
    assert_eq!(Storage::F16.nearest(1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40)), 1.0 + 2.0_f64.powi(-10));
    // And the middle itself, from below and above an odd number.
    assert_eq!(Storage::Bf16.nearest(1.0 + 2.0_f64.powi(-8)), 1.0);
    assert_eq!(Storage::Bf16.nearest(1.0 + 3.0 * 2.0_f64.powi(-8)), 1.0 + 2.0_f64.powi(-6));
}

#[test]
fn beyond_the_largest_is_infinite() {
    for (storage, largest) in
        [(Storage::F16, 65_504.0), (Storage::Bf16, bf16::MAX.to_f64()), (Storage::F32, f32::MAX.wide())]
    {
        assert_eq!(storage.nearest(largest), largest);
        assert_eq!(storage.nearest(f64::MAX), f64::INFINITY);
        assert_eq!(storage.nearest(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(storage.nearest(-largest * 1.01), f64::NEG_INFINITY);
        assert!(storage.nearest(f64::NAN).is_nan());
    }
    assert_eq!(Storage::Real.nearest(f64::MAX), f64::MAX);
}

#[test]
fn zeros_keep_their_signs_and_the_smallest_go_there() {
    for storage in ALL {
        assert!(storage.nearest(-0.0).is_sign_negative() && storage.nearest(0.0).is_sign_positive());
    }
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        let half = storage.spacing(0.0) / 2.0;
        assert_eq!(storage.nearest(half), 0.0);
        assert_eq!(storage.nearest(half.next_up()), 2.0 * half);
        assert!(storage.nearest(-half).is_sign_negative());
        assert_eq!(storage.nearest(f64::MIN_POSITIVE), 0.0);
    }
}

#[test]
fn parameters_by_hand() {
    let of = |s: Storage| (s.unit_roundoff(), s.smallest_normal(), s.underflow(), s.spacing(1.0), s.spacing(0.0));
    let two = |e: i32| 2.0_f64.powi(e);
    let real = Storage::Real;
    assert_eq!((real.unit_roundoff(), real.smallest_normal(), real.underflow()), (0.0, 0.0, 0.0));
    for x in [0.0, f64::from_bits(1), f64::MIN_POSITIVE, 1e-300, 1.0, f64::MAX / 2.0] {
        assert_eq!(real.spacing(x), x.next_up() - x, "{x:e}");
    }
    assert_eq!(of(Storage::F32), (two(-24), two(-126), two(-126), two(-23), two(-149)));
    assert_eq!(of(Storage::Tf32(Tf32::Rn)), (two(-11), two(-126), two(-126), two(-10), two(-136)));
    assert_eq!(of(Storage::Tf32(Tf32::Rna)), of(Storage::Tf32(Tf32::Rn)));
    assert_eq!(of(Storage::Tf32(Tf32::Rz)), (two(-10), two(-126), two(-126), two(-10), two(-136)));
    assert_eq!(of(Storage::F16), (two(-11), two(-14), two(-25), two(-10), two(-24)));
    assert_eq!(of(Storage::Bf16), (two(-8), two(-126), two(-126), two(-7), two(-133)));
    assert_eq!(Storage::Bf16.spacing(-3.0), two(-6));
    assert_eq!(Storage::Bf16.rounding_error(-2.0), two(-7) + two(-126));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// The processor's own conversion.
    #[test]
    fn f32_is_rounded_as_the_processor_does(x in prop_oneof![any_f64(), any_near()]) {
        prop_assert_eq!(Storage::F32.nearest(x).to_bits(), f32::of(x).wide().to_bits());
    }

    /// By the bits that PTX drops of an f32.
    #[test]
    fn tf32_is_an_f32_of_which_bits_are_dropped(x in any::<u32>().prop_map(f32::from_bits)) {
        prop_assume!(x.is_finite());
        for x in [x, f32::from_bits(x.to_bits() & !0xfff)] {
            let dropped = |bits: u32| f32::from_bits(bits & !0x1fff).wide().to_bits();
            let (bits, even) = (x.to_bits(), 0xfff + (x.to_bits() >> 13 & 1));
            for (way, want) in [(Tf32::Rn, bits + even), (Tf32::Rna, bits + 0x1000), (Tf32::Rz, bits)] {
                prop_assert_eq!(Storage::Tf32(way).nearest(x.wide()).to_bits(), dropped(want), "{:?} of {}", way, x);
                let error = (Storage::Tf32(way).nearest(x.wide()) - x.wide()).abs();
                prop_assert!(error <= Storage::Tf32(way).rounding_error(x.wide()) || want >> 23 & 0xff == 0xff);
            }
        }
    }

    /// And therefore within `rounding_error`, nearer than any other, and not twice.
    #[test]
    fn nearest_is_nearest(x in any_near(), storage in proptest::sample::select(&ALL[..])) {
        let rounded = storage.nearest(x);
        prop_assert_eq!(storage.nearest(rounded), rounded);
        prop_assert_eq!(storage.nearest(-x), -rounded);
        prop_assert!(rounded.is_infinite() || (rounded - x).abs() <= storage.rounding_error(x));
        prop_assert!(rounded.is_infinite() || (rounded - x).abs() <= storage.spacing(x) / 2.0);
        prop_assert_eq!(storage.holds(x), rounded == x);
    }

    /// A larger number never rounds to a smaller one.
    #[test]
    fn rounding_is_monotone(x in any_near(), y in any_near(), storage in proptest::sample::select(&ALL[..])) {
        let (low, high) = (x.min(y), x.max(y));
        prop_assert!(storage.nearest(low) <= storage.nearest(high));
    }

    /// What an error does to a rounded number.
    #[test]
    fn apart_is_how_far_a_neighbour_rounds(x in any_near(), part in -1.0..1.0, storage in proptest::sample::select(&ALL[..])) {
        let error = storage.spacing(x);
        let (rounded, moved) = (storage.nearest(x), storage.nearest(x + part * error));
        prop_assert!(moved == rounded || (moved - rounded).abs() <= storage.apart(x, error));
        prop_assert_eq!(storage.apart(rounded, 0.0).max(0.0), 0.0);
    }

    #[test]
    fn stochastic_rounding_takes_a_neighbour(x in any_near(), seed in any::<u64>(), storage in proptest::sample::select(&ALL[..])) {
        let p = Rounding { storage, mode: Mode::Stochastic(seed) };
        let rounded = p.round(x);
        prop_assert_eq!(rounded.to_bits(), p.round(x).to_bits());
        if storage.holds(x) {
            prop_assert_eq!(rounded, x);
        } else {
            let spacing = storage.spacing(x);
            let below = (x / spacing).floor() * spacing;
            let neighbours = [below, below + spacing].map(|n| storage.nearest(n));
            prop_assert!(neighbours.contains(&rounded), "{} of {:?}", rounded, neighbours);
        }
    }

    /// Many are rounded as each is.
    #[test]
    fn many_are_rounded_as_each(x in prop::collection::vec(any_near(), 0..20), seed in any::<u64>()) {
        for storage in ALL.into_iter().chain([Storage::E4m3, Storage::E5m2]) {
            for mode in [Mode::Nearest, Mode::Stochastic(seed)] {
                let p = Rounding { storage, mode };
                let mut all = x.clone();
                p.round_all(&mut all);
                let bits = |x: &f64| x.to_bits();
                let each: Vec<u64> = x.iter().map(|x| p.round(*x)).map(|x| bits(&x)).collect();
                prop_assert_eq!(all.iter().map(bits).collect::<Vec<_>>(), each);
            }
        }
    }

    /// T only says in what the value is held.
    #[test]
    fn an_f32_rounds_as_the_f64_of_its_value(x in any::<f32>(), seed in any::<u64>(), storage in proptest::sample::select(&ALL[..])) {
        for mode in [Mode::Nearest, Mode::Stochastic(seed)] {
            let p = Rounding { storage, mode };
            prop_assert_eq!(p.round(x).wide().to_bits(), p.round(x.wide()).to_bits());
        }
    }
}

#[test]
fn stochastic_rounding_leaves_special_values() {
    for storage in ALL {
        let p = Rounding { storage, mode: Mode::Stochastic(3) };
        assert!(p.round(f64::NAN).is_nan() && p.round(-0.0_f64).is_sign_negative());
        assert_eq!((p.round(f64::INFINITY), p.round(f64::NEG_INFINITY)), (f64::INFINITY, f64::NEG_INFINITY));
    }
}

/// The mean over many seeds is the value: a number is rounded up with a probability p, so a mean of n draws is off by
/// more than six times spacing·√(p(1 − p)/n) once in 500 million times, and the seeds are fixed.
#[test]
fn stochastic_rounding_is_unbiased() {
    const SEEDS: u64 = 10_000;
    for storage in [Storage::F16, Storage::Bf16] {
        let below = 1.0 + storage.spacing(1.0);
        for (sixteenths, scale) in
            (1..16).flat_map(|share| [1.0, -1.0, storage.smallest_normal() / 4.0].map(|s| (share, s)))
        {
            let p = f64::from(sixteenths) / 16.0;
            let spacing = storage.spacing(scale);
            let x = below * scale + scale.signum() * p * spacing;
            let x = if scale.abs() < 1.0 { (x / spacing).floor() * spacing + p * spacing } else { x };
            let sum: f64 = (0..SEEDS).map(|seed| Rounding { storage, mode: Mode::Stochastic(seed) }.round(x) - x).sum();
            let limit = 6.0 * spacing * (p * (1.0 - p) / SEEDS as f64).sqrt();
            assert!((sum / SEEDS as f64).abs() <= limit, "{storage} {x}: {} of {limit}", sum / SEEDS as f64);
        }
    }
}

/// Nor do the draws of one seed depend on one another: over many values of one seed it is unbiased, too.
#[test]
fn stochastic_rounding_is_unbiased_over_values() {
    const VALUES: u32 = 10_000;
    for seed in 0..4 {
        let p = Rounding { storage: Storage::Bf16, mode: Mode::Stochastic(seed) };
        let step = Storage::Bf16.spacing(1.0) / f64::from(VALUES);
        let sum: f64 = (0..VALUES).map(|i| 1.0 + f64::from(i) * step).map(|x| p.round(x) - x).sum();
        // The mean of p(1 − p) is 1/6.
        let limit = 6.0 * Storage::Bf16.spacing(1.0) * (1.0 / 6.0 / f64::from(VALUES)).sqrt();
        assert!((sum / f64::from(VALUES)).abs() <= limit, "seed {seed}");
    }
}

/// E5M2 is the upper half of an f16, but for its infinity.
#[test]
fn e5m2_is_half_an_f16() {
    for bits in 0..=0xffff_u16 {
        let x = f16::from_bits(bits);
        // Just under a half of the last kept bit, or a half if that bit is odd, carries where it rounds up.
        let carried = (bits & 0x7fff) + 0x7f + (bits >> 8 & 1);
        let half = f16::from_bits(carried.min(0x7b00) & 0xff00 | bits & 0x8000);
        if !x.is_nan() {
            assert_eq!(Storage::E5m2.nearest(x.to_f64()).to_bits(), half.to_f64().to_bits(), "{x}");
        }
    }
}

#[test]
fn names_parse_and_print() {
    for storage in ALL.into_iter().chain([Storage::E4m3, Storage::E5m2]).chain([Tf32::Rna, Tf32::Rz].map(Storage::Tf32))
    {
        assert_eq!(storage.to_string().parse(), Ok(storage));
    }
    let err = "fp8".parse::<Storage>().expect_err("not a storage");
    assert_eq!(
        err.to_string(),
        r#"storage = "fp8", expected real, f32, tf32, tf32_rna, tf32_rz, f16, bf16, e4m3 or e5m2"#
    );
}
