//! The devices of `reference/src/accumulator.rs`: right sums on each stay inside its bound, and come near it.

use half::bf16;
use ndarray::{Array2, ArrayView1};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::accumulator::{Accumulator, DEVICES, Factors, TensorCore};
use reference::ops::linear::{Linear, linear};
use reference::{Real, RoundingContract, Storage, Tracked, matrix};
use tests::judge::{reached, within};
use tests::simulated::{Order, rounded};
use tests::tensor_core;

use super::{exact, slack};

/// Columns of the widest weight: M3's dense networks.
const WIDEST: usize = 12288;

/// Factors from `least` to 1, as a device takes them: bf16, of which 8-bit types have four bits.
fn factors(count: usize, least: f64, seed: u64, of: Factors) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let coarse = |x: f32| f32::from_bits(x.to_bits() & 0xfff0_0000);
    let mut draw = || f32::of(Storage::Bf16.nearest(rng.random_range(least..1.0)));
    (0..count).map(|_| if of == Factors::Eight { coarse(draw()) } else { draw() }).collect()
}

/// How far a sum is off, as a share of what the bound allows.
fn share(order: Order, accumulator: Accumulator, a: &[f32], b: &[f32]) -> f64 {
    let (sum, absolute) = exact(a, b);
    let limit = accumulator.certain(a.len()) * absolute + slack(a.len(), absolute);
    (order.dot(a, b).wide() - sum).abs() / limit
}

/// Of either sign, and all of one: the longest sums of the models. What multiplies bf16 or f32 is inside the bound of the
/// device that nobody named, too.
#[test]
fn right_sums_stay_inside() {
    for device in DEVICES {
        for (least, seed) in (0..12).flat_map(|seed| [(-1.0, seed), (0.0, seed), (0.5, seed)]) {
            let [a, b] = [0, 1].map(|which| factors(WIDEST, least, 2 * seed + which, device.factors));
            let in_use = matches!(device.factors, Factors::Any | Factors::Sixteen | Factors::Bf16);
            for accumulator in [Some(device.accumulator), in_use.then_some(Accumulator::Unknown)].into_iter().flatten()
            {
                for order in Order::of(device.accumulator) {
                    let share = share(order, accumulator, &a, &b);
                    assert!(share <= 1.0, "{} {order:?} from {least}, seed {seed}: {share}", device.name);
                }
            }
        }
    }
}

/// Sums that begin with 1, chunk by chunk, and go on with what lies just below the last bit that is kept beside it: a step
/// loses k of its p·2^F = k + 1 + 2^(F − f) possible losses.
#[test]
fn the_bound_is_nearly_reached() {
    let mut worst = 0.0_f64;
    for device in DEVICES {
        let Accumulator::TensorCore(core) = device.accumulator else { continue };
        let TensorCore { k, fraction, result, promote } = core;
        // So few of 8-bit products that errors of errors are small.
        let terms = if fraction < 20 { 128 } else { WIDEST };
        let lost = f32::of(2.0_f64.powi(-fraction) * (1.0 - 2.0_f64.powi(-7)));
        let chunk = promote.map_or(terms, |promote| promote as usize);
        let a: Vec<f32> = (0..terms).map(|i| if i % chunk == 0 { 1.0 } else { lost }).collect();
        let b = vec![1.0; terms];
        let possible = f64::from(k + 1) + 2.0_f64.powi(fraction - result);
        let reached = share(Order::TensorCore(core), device.accumulator, &a, &b);
        assert!((0.9 * f64::from(k) / possible..=1.0).contains(&reached), "{}: {reached} of {possible}", device.name);
        if device.factors == Factors::Sixteen {
            worst = worst.max(share(Order::TensorCore(core), Accumulator::Unknown, &a, &b));
        }
    }
    assert!((0.7..=1.0).contains(&worst), "of the device that nobody named: {worst}");
}

/// A Hopper that never promotes is outside the bound of our kernels, which do, on data of one sign: in f32 always, after a
/// rounding to bf16 here and there. Its own bound holds it, and that of fused kernels of which nothing is known.
#[test]
fn sums_without_a_promotion_are_no_faults() {
    let [x, w] = [(2, 1), (400, 2)].map(|(rows, seed)| {
        let values = factors(rows * WIDEST, 0.5, seed, Factors::Sixteen).into_iter().map(f64::from).collect();
        Array2::from_shape_vec((rows, WIDEST), values).expect("as many values")
    });
    let narrow = |row: ArrayView1<'_, f64>| row.iter().map(|&x| bf16::from_f64(x)).collect::<Vec<_>>();
    let sum = |(i, j)| tensor_core::chain(&narrow(x.row(i)), &narrow(w.row(j)));
    let sums = Array2::from_shape_fn((x.nrows(), w.nrows()), sum);
    let stored = matrix::Matrix::stored(w.view(), Storage::Bf16);
    let ideal = Linear::under(&RoundingContract::IDEAL);
    let want = linear(&ideal, x.view(), &stored).expect("equally wide");
    let faults = |activations, accumulator| {
        let p = Linear::under(&RoundingContract { activations, accumulator, ..RoundingContract::FUSED });
        let bound = p.bound(&Tracked::exact(x.clone()), &stored, &want);
        let got = rounded(&sums, p.output);
        (within(&got, &want, &bound).is_err(), reached(&got, &want, &bound))
    };
    for accumulator in [Accumulator::HOPPER, Accumulator::Unknown] {
        for activations in [Storage::F32, Storage::Bf16] {
            let (fault, reached) = faults(activations, accumulator);
            assert!(!fault, "{accumulator} {activations}: {reached}");
        }
    }
    assert!(faults(Storage::F32, Accumulator::HOPPER_512).0);
    assert!(faults(Storage::Bf16, Accumulator::HOPPER_512).0);
    assert_eq!(RoundingContract::FUSED.accumulator, Accumulator::Unknown);
}

/// Nobody knows how an unknown device rounds on average, so that nothing of it is improbable.
#[test]
fn an_unknown_device_has_no_probable_part() {
    assert_eq!(Accumulator::Unknown.variance(100), None);
    for (name, preset) in RoundingContract::PRESETS.into_iter().filter(|(name, _)| !["ideal", "parity"].contains(name))
    {
        assert_eq!(
            (preset.accumulator, preset.scalar_accumulator()),
            (Accumulator::Unknown, Accumulator::Unknown),
            "{name}"
        );
    }
}

/// 2⁻¹³⁰ is below the normal numbers of bf16, and counts as zero: of 2⁻¹³⁰·2¹⁰⁰ nothing is left.
#[test]
fn subnormal_factors_may_count_as_zero() {
    let (x, w) = (Array2::from_elem((1, 1), 2.0_f64.powi(-130)), Array2::from_elem((1, 1), 2.0_f64.powi(100)));
    let got = Order::DotProductInstruction.product(x.mapv(f32::of).view(), w.mapv(f32::of).view()).mapv(f64::from);
    assert_eq!(got, Array2::<f64>::zeros((1, 1)));
    for (x, w) in [(&x, &w), (&w, &x)] {
        let stored = matrix::Matrix::stored(w.view(), Storage::F32);
        let want = linear(&Linear::under(&RoundingContract::IDEAL), x.view(), &stored).expect("equally wide");
        let bound = |accumulator| {
            let p = Linear { accumulator, ..Linear::under(&RoundingContract::IDEAL) };
            p.bound(&Tracked::exact(x.clone()), &stored, &want)
        };
        for accumulator in [Accumulator::F32Flushed, Accumulator::Unknown] {
            assert!(within(&got, &want, &bound(accumulator)).is_ok());
        }
        assert!(within(&got, &want, &bound(Accumulator::F32)).is_err());
    }
}

#[test]
fn names_are_known_again() {
    for device in DEVICES {
        assert_eq!(device.name.parse(), Ok(device.accumulator));
        assert_eq!(device.accumulator.to_string().parse(), Ok(device.accumulator));
        assert!(!device.description.is_empty());
    }
    for accumulator in [Accumulator::F64, Accumulator::Unknown] {
        assert_eq!(accumulator.to_string().parse(), Ok(accumulator));
    }
}
