//! `reference/src/rounding/quantized.rs`: inputs of products with quantized matrices.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::bound::ErrorBound;
use reference::matrix::{Encoding, Matrix, Scales};
use reference::ops::linear::Linear;
use reference::probe::NoProbe;
use reference::rounding::Inputs;
use reference::run::Run;
use reference::storage::Mode;
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::strategy::matrix;

const BOTH: [Inputs; 2] = [Inputs::Fp8, Inputs::Fp8Powers];

/// By hand: of 448 the scale is 1, of 3.5 it is 2⁻⁷, of 3 it is 3/448 or the power of two above.
#[test]
fn codes_and_scales_by_hand() {
    let x: Array2<f64> = array![[448.0, 1.1, 3.5, 0.01], [0.0, 0.0, 3.0, -1.0]];
    let fp8 = Inputs::Fp8.quantized(&x, 2, Mode::Nearest);
    assert_eq!(fp8.row(0).to_vec(), [448.0, 1.125, 3.5, 1.25 / 128.0]);
    let scale = f64::from(3.0_f32 / 448.0);
    assert_eq!(fp8.row(1).to_vec(), [0.0, 0.0, 448.0 * scale, -144.0 * scale]);
    let powers = Inputs::Fp8Powers.quantized(&x, 2, Mode::Nearest);
    assert_eq!(powers.row(1).to_vec(), [0.0, 0.0, 3.0, -1.0], "both are E4M3 times 2⁻⁷");
}

/// As kernels do it that multiply by the reciprocal of 448, and by that of the scale, in f32.
fn by_reciprocals(inputs: Inputs, x: &Array2<f64>, group: usize) -> Array2<f64> {
    let mut quantized = x.clone();
    for mut row in quantized.rows_mut() {
        for channels in row.as_slice_mut().expect("its own").chunks_mut(group) {
            let largest = channels.iter().fold(0.0_f32, |most, x| most.max(f32::of(x.abs()))).max(1e-10);
            let scale = largest * (1.0_f32 / 448.0);
            let scale = if inputs == Inputs::Fp8Powers { scale.log2().ceil().exp2() } else { scale };
            let inverse = 1.0 / scale;
            for x in channels {
                let code = Storage::E4m3.nearest(f64::from(f32::of(*x) * inverse));
                *x = code * f64::from(scale);
            }
        }
    }
    quantized
}

fn is_within(a: &Array2<f64>, b: &Array2<f64>, error: &ErrorBound) -> bool {
    a.iter().zip(b).zip(&error.certain).all(|((a, b), e)| (a - b).abs() <= *e)
}

proptest! {
    /// Another way to the same codes stays within the bound of what is known, which is far below a step for most values.
    #[test]
    fn what_is_known_is_known_but_for_its_last_bit(x in matrix((3, 16), Storage::Bf16), group in 1..17_usize) {
        let x: Array2<f64> = x.mapv(|x| x.clamp(-1e6, 1e6));
        let known = Inputs::Fp8.known(&Tracked::exact(x.clone()), group);
        let error = known.error.expect("it is kept");
        prop_assert!(is_within(&known.value, &by_reciprocals(Inputs::Fp8, &x, group), &error));
        // Six roundings in f32 are all where no other code is near.
        let close = error.certain.iter().zip(&x).filter(|(e, x)| **e <= 6.0 * 2f64.powi(-24) * x.abs());
        prop_assert!(2 * close.count() >= x.iter().filter(|x| **x != 0.0).count());
    }

    /// A candidate whose input is off by δ, and quantizes that, is within the bound of what is not known.
    #[test]
    fn what_is_not_known_is_bounded(
        x in matrix((3, 16), Storage::Bf16), off in matrix((3, 16), Storage::F32), group in 1..17_usize, which in 0..2_usize,
    ) {
        let x: Array2<f64> = x.mapv(|x| x.clamp(-1e6, 1e6));
        let delta = off.mapv(|x| x.clamp(-1.0, 1.0));
        let mut error = ErrorBound::exact(x.dim());
        error.certain = delta.mapv(f64::abs);
        let bounded = BOTH[which].bounded(&Tracked { value: x.clone(), error: Some(error) }, group);
        prop_assert_eq!(&bounded.value, &x);
        let candidate = by_reciprocals(BOTH[which], &(&x + &delta), group);
        prop_assert!(is_within(&x, &candidate, &bounded.error.expect("it is kept")));
    }

    /// Σ over blocks of (Σ codes·codes)·sₐ·s_w in f32, as on a GPU, is within the bound; nothing near a step of E4M3 is.
    #[test]
    fn products_of_both_quantized(
        x in matrix((2, 12), Storage::Bf16), elements in prop::collection::vec(0..0x7f_u8, 36),
        scales in prop::collection::vec(0.001..1.0_f32, 6),
    ) {
        let x: Array2<f64> = x.mapv(|x| x.clamp(-1e3, 1e3));
        let values = Array2::from_shape_vec((2, 3), scales.iter().map(|x| f64::from(*x)).collect()).expect("six");
        let scaled = Scales { block: (2, 4), above: 0, values: Matrix::stored(values.view(), Storage::F32) };
        let codes = Matrix::new((3, 12), Encoding::E4m3, elements).expect("a byte each");
        let w = codes.view().scaled(scaled.clone()).expect("one a block");
        let contract = RoundingContract { inputs: Inputs::Fp8, ..RoundingContract::EAGER_F32 };
        let mut silent = NoProbe;
        let run = Run::bounding(contract, &mut silent);
        let y = run.linear(Linear::under, &Tracked::exact(x.clone()), &w).expect("it fits");
        let error = y.error.expect("it is kept");
        let (codes, quantized): (Array2<f64>, _) = (codes.dense(), Inputs::Fp8.quantized(&x, 4, Mode::Nearest));
        for ((i, j), &value) in y.value.indexed_iter() {
            let mut sum = 0.0_f32;
            for block in 0..3 {
                let k = 4 * block..4 * block + 4;
                let largest = k.clone().fold(0.0_f32, |most, k| most.max(f32::of(x[[i, k]].abs()))).max(1e-10);
                let scale = largest / 448.0;
                let partial = k.fold(0.0_f32, |sum, k| {
                    let code = f32::of(quantized[[i, k]] / f64::from(scale));
                    f32::of(Storage::E4m3.nearest(f64::from(code))).mul_add(f32::of(codes[[j, k]]), sum)
                });
                sum += partial * scale * scaled.values.dense::<f32>()[[j / 2, block]];
            }
            prop_assert!((value - f64::from(sum)).abs() <= error.certain[[i, j]], "{value} {sum} {}", error.certain[[i, j]]);
        }
    }
}

/// Without a quantized matrix nothing is quantized, and a candidate that quantizes no input is held to what it has.
#[test]
fn only_what_meets_a_quantized_matrix_is_quantized() {
    let x = array![[1.1, -0.3, 7.0, 0.9]];
    let plain = Matrix::stored(array![[1.0, 1.0, 1.0, 1.0]].view(), Storage::F32);
    let mut silent = NoProbe;
    let contract = RoundingContract { inputs: Inputs::Fp8, ..RoundingContract::IDEAL };
    let run: Run<'_, f64> = Run::new(contract, &mut silent);
    let y = run.linear(Linear::under, &Tracked::plain(x.clone()), &plain).expect("it fits");
    assert!((y.value[[0, 0]] - 8.7).abs() < 1e-12);
    let values = Matrix::stored(array![[1.0]].view(), Storage::F32);
    let ones = Matrix::new((1, 4), Encoding::E4m3, Encoding::E4m3.narrow([1.0; 4])).expect("four");
    let w = ones.scaled(Scales { block: (1, 4), above: 0, values }).expect("one");
    let of_codes = run.linear(Linear::under, &Tracked::plain(x.clone()), &w).expect("it fits");
    assert_eq!(of_codes.value[[0, 0]], Inputs::Fp8.quantized(&x, 4, Mode::Nearest).sum());
}
