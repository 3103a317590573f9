//! `reference/src/matrix.rs`.

use ndarray::array;
use proptest::prelude::*;
use reference::matrix::{Encoding, Matrix};
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
