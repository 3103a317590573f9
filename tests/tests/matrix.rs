//! `reference/src/matrix.rs`.

use ndarray::{Array2, array, s};
use proptest::prelude::*;
use reference::matrix::{Encoding, Matrix, Scales};
use reference::{Real, Storage};
use tests::strategy::matrix;

/// All 65,536 values of each type, through bytes and back, in both arithmetics.
#[test]
fn every_value_survives() {
    for encoding in [Encoding::F16, Encoding::Bf16] {
        let storage = encoding.storage();
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let all = Matrix::new((256, 256), encoding, bytes).expect("two bytes each");
        let (wide, narrow) = (all.dense::<f64>(), all.dense::<f32>());
        for (i, (wide, narrow)) in wide.iter().zip(&narrow).enumerate() {
            let bits = u16::try_from(i).expect("sixteen bits");
            let want = if storage == Storage::F16 {
                half::f16::from_bits(bits).to_f64()
            } else {
                half::bf16::from_bits(bits).to_f64()
            };
            assert!(wide.to_bits() == want.to_bits() || wide.is_nan() && want.is_nan(), "{storage} {bits:#x}");
            assert!(narrow.wide().to_bits() == want.to_bits() || narrow.is_nan() && want.is_nan());
        }
        let again = Matrix::stored(wide.view(), storage);
        for (i, (was, is)) in all.bytes().chunks(2).zip(again.bytes().chunks(2)).enumerate() {
            assert!(
                was == is || wide[[i / 256, i % 256]].is_nan() && again.dense::<f64>()[[i / 256, i % 256]].is_nan()
            );
        }
    }
}

/// What a byte is as an E4M3, by its definition (spec A30).
fn e4m3(bits: u8) -> f64 {
    let (sign, exponent, significand) = (bits >> 7, i32::from(bits >> 3 & 15), f64::from(bits & 7) / 8.0);
    let size = match exponent {
        0 => significand * 2.0_f64.powi(-6),
        _ => (1.0 + significand) * 2.0_f64.powi(exponent - 7),
    };
    if bits & 0x7f == 0x7f { f64::NAN } else { size * (1.0 - 2.0 * f64::from(sign)) }
}

#[test]
fn every_number_of_eight_bits() {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let dense = |encoding| Matrix::new((1, 256), encoding, bytes.clone()).expect("a byte each").dense::<f64>();
    for (bits, &value) in bytes.iter().zip(&dense(Encoding::E4m3)) {
        let want = e4m3(*bits);
        assert!(value.to_bits() == want.to_bits() || value.is_nan() && want.is_nan(), "{bits:#x}: {value}");
        assert!(value.is_nan() || Encoding::E4m3.narrow([value]) == [*bits], "{bits:#x}");
        assert!(value.is_nan() || Encoding::E4m3.storage().holds(value), "{bits:#x}");
    }
    assert_eq!(e4m3(0x7e), 448.0);
    for (bits, &value) in bytes.iter().zip(&dense(Encoding::E8m0)) {
        assert!(if *bits == 255 { value.is_nan() } else { value == 2.0_f64.powi(i32::from(*bits) - 127) });
        assert!(value.is_nan() || Encoding::E8m0.narrow([value]) == [*bits], "{bits:#x}");
    }
}

/// By looking at all of them: the nearest, of two that are as near the one whose last bit is 0.
#[test]
fn e4m3_rounds_to_the_nearest() {
    let nearest = |x: f64| {
        let finite = (0..0x7f_u8).map(|bits| (bits, e4m3(bits)));
        let far = |value: f64| (value - x.abs()).abs();
        let best = finite.min_by(|a, b| far(a.1).total_cmp(&far(b.1)).then((a.0 & 1).cmp(&(b.0 & 1))));
        best.expect("there are some").0 | if x < 0.0 { 0x80 } else { 0 }
    };
    let mut x = 1e-4;
    while x < 1000.0 {
        for x in [x, -x] {
            assert_eq!(Encoding::E4m3.narrow([x]), [nearest(x)], "{x}");
        }
        x *= 1.003;
    }
    for (low, high) in (0..0x7e_u8).map(|bits| (e4m3(bits), e4m3(bits + 1))) {
        let middle = f64::midpoint(low, high);
        assert_eq!(Encoding::E4m3.narrow([middle]), [nearest(middle)], "{middle}");
    }
    for (x, want) in [(f64::NAN, 0x7f), (f64::INFINITY, 0x7e), (-1e300, 0xfe), (0.0, 0), (-0.0, 0x80)] {
        assert_eq!(Encoding::E4m3.narrow([x]), [want], "{x}");
    }
}

#[test]
fn e8m0_rounds_up() {
    for (x, want) in [(1.0, 127), (1.0 + f64::EPSILON, 128), (0.75, 127), (0.0, 0), (1e300, 254), (f64::NAN, 255)] {
        assert_eq!(Encoding::E8m0.narrow([x]), [want], "{x}");
    }
}

/// A quantized matrix of a part of a larger one, with blocks that lie in it in part, element by element.
#[test]
fn blocks_are_multiplied_by_their_scales() {
    let (rows, columns, block, above) = (7, 10, (3, 4), 2);
    let elements: Vec<u8> = (0..70_u8).map(|i| i.wrapping_mul(37) & 0xf7).collect();
    let scales = array![[0.1, 3.0, -0.7], [1.0, 1e-3, 0.3], [2.5, 7.0, 11.0]].mapv(|x: f64| f32::of(x).wide());
    let quantized = |values: Matrix<'static>| {
        let matrix = Matrix::new((rows, columns), Encoding::E4m3, elements.clone()).expect("a byte each");
        matrix.scaled(Scales { block, above, values })
    };
    let matrix = quantized(Matrix::stored(scales.view(), Storage::F32)).expect("a scale for each block");
    let (wide, held) = (matrix.dense::<f64>(), matrix.view().held_in(Storage::Bf16).dense::<f64>());
    for ((i, j), &value) in wide.indexed_iter() {
        let exact = e4m3(elements[i * columns + j]) * scales[[(i + above) / block.0, j / block.1]];
        assert_eq!(value, exact, "what is scaled is exact in f64");
        assert_eq!(matrix.dense::<f32>()[[i, j]], f32::of(exact), "and rounded once in f32");
        assert_eq!(held[[i, j]], Storage::Bf16.nearest(f32::of(exact).wide()), "everyone scales in f32");
    }
    assert_eq!(matrix.clone().into_owned().dense::<f64>(), wide);
    assert!(quantized(Matrix::stored(scales.slice(ndarray::s![..2, ..]), Storage::F32)).is_none(), "too few scales");
}

proptest! {
    #[test]
    fn storing_rounds_to_nearest(x in matrix((3, 5), Storage::F32), storage in proptest::sample::select(vec![Storage::F32, Storage::F16, Storage::Bf16])) {
        let stored = Matrix::stored(x.view(), storage);
        prop_assert_eq!((stored.dim(), stored.storage(), stored.bytes().len()), ((3, 5), storage, if storage == Storage::F32 { 60 } else { 30 }));
        prop_assert_eq!(stored.dense::<f64>(), x.mapv(|x| storage.nearest(x)));
        prop_assert_eq!(stored.dense::<f32>(), x.mapv(|x| f32::of(storage.nearest(x))));
    }

    #[test]
    fn panels_and_rows_are_parts_of_the_whole(x in matrix((6, 4), Storage::Bf16), first in 0..6_usize, count in 0..6_usize) {
        let (stored, count) = (x.stored(), count.min(6 - first));
        prop_assert_eq!(stored.panel::<f64>(first, count), x.slice(ndarray::s![first..first + count, ..]));
        let mut row = [0.0; 4];
        stored.row_into(first, &mut row);
        prop_assert_eq!(row.to_vec(), x.row(first).to_vec());
    }
}

#[test]
fn reals_are_stored_as_f32() {
    let stored = Matrix::stored(array![[0.1]].view(), Storage::Real);
    assert_eq!((stored.storage(), stored.dense()), (Storage::F32, array![[f64::from(0.1_f32)]]));
}

#[test]
fn bytes_that_do_not_fit() {
    assert!(Matrix::new((2, 3), Encoding::Bf16, vec![0; 11]).is_none());
    assert!(Matrix::new((2, 3), Encoding::Bf16, vec![0; 12]).is_some());
    assert!(Matrix::new((2, 3), Encoding::F32, vec![0; 12]).is_none());
    assert!(Matrix::new((usize::MAX, 2), Encoding::F32, vec![0; 8]).is_none());
}

/// Over other bytes, the same matrix.
#[test]
fn views_and_copies_are_the_same_matrix() {
    let stored = Matrix::stored(array![[0.5, -2.0], [1.0, 3.0]].view(), Storage::Bf16);
    for other in [stored.view(), stored.clone().into_owned()] {
        assert_eq!((other.dim(), other.encoding(), other.bytes()), (stored.dim(), Encoding::Bf16, stored.bytes()));
    }
    assert_eq!(stored.view().bytes().as_ptr(), stored.bytes().as_ptr(), "a view copies nothing");
}

/// Rows and columns have the values that the whole has there, of a quantized matrix with scales for blocks of which the first lies
/// above it in part; and so have parts of parts.
#[test]
fn parts_have_the_values_of_the_whole() {
    let (rows, columns, block, above) = (13, 24, (4, 8), 3);
    let values = Array2::from_shape_fn((rows, columns), |(i, j)| ((i * 7 + j * 3) % 29) as f64 - 14.0);
    let scales = Array2::from_shape_fn((4, 3), |(i, j)| 0.25 + (i * 3 + j) as f64);
    let plain = Matrix::stored(values.view(), Storage::Bf16);
    let scales = Scales { block, above, values: Matrix::stored(scales.view(), Storage::F32) };
    let quantized = Matrix::stored(values.view(), Storage::E4m3).scaled(scales).expect("a scale for each block");
    for matrix in [plain.clone(), quantized.clone(), quantized.clone().held_in(Storage::Bf16)] {
        let whole = matrix.dense::<f64>();
        for (first, last) in [(0, 13), (0, 1), (1, 6), (4, 13), (12, 13)] {
            let part = matrix.rows(first..last);
            assert_eq!(
                (part.dense::<f64>(), part.storage()),
                (whole.slice(s![first..last, ..]).to_owned(), matrix.storage())
            );
            let of_part = part.rows(0..1).columns(8..16).expect("a block");
            assert_eq!(of_part.dense::<f64>(), whole.slice(s![first..=first, 8..16]));
        }
        for (first, last) in [(0, 24), (0, 8), (8, 24), (16, 24)] {
            let part = matrix.columns(first..last).expect("whole blocks");
            assert_eq!(
                (part.dense::<f64>(), part.encoding()),
                (whole.slice(s![.., first..last]).to_owned(), matrix.encoding())
            );
        }
    }
    assert_eq!(plain.columns(3..5).expect("no blocks").dense::<f64>(), plain.dense::<f64>().slice(s![.., 3..5]));
    assert!(quantized.columns(4..8).is_none() && quantized.columns(8..12).is_none(), "blocks are not cut through");
}
