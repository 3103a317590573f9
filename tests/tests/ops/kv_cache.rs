//! `reference/src/ops/kv_cache.rs`.

use ndarray::{Array2, Axis, array};
use proptest::prelude::*;
use reference::Semantics;
use reference::Storage;
use reference::Tracked;
use reference::bound::ErrorBound;
use reference::ops::kv_cache::{KvCache, form};
use reference::semantics::{CacheForm, CacheGrid, CacheSeam, CacheSteps, CacheType, ScaleOf, SharedPage};
use tests::strategy::{Fill, Matrix};

fn rows(n: usize, seed: u64) -> Tracked<f64> {
    Tracked::plain(Matrix::new((n, 4), Fill::Activation, Storage::Bf16, seed).values())
}

proptest! {
    /// In pieces or at once, and whatever the other layers keep.
    #[test]
    fn keeps_what_is_appended_in_order(pieces in proptest::collection::vec(1..5_usize, 1..6)) {
        let total = pieces.iter().sum();
        let (k, v) = (rows(total, 1), rows(total, 2));
        let mut cache = KvCache::new(2);
        let mut first = 0;
        for piece in pieces {
            let part: Vec<usize> = (first..first + piece).collect();
            let kept = cache.append(1, &k.select(&part), &v.select(&part)).expect("same columns").clone();
            first += piece;
            let so_far: Vec<usize> = (0..first).collect();
            prop_assert_eq!(kept, (k.select(&so_far), v.select(&so_far)));
            prop_assert_eq!((cache.len(0), cache.len(1)), (0, first));
        }
        prop_assert_eq!(cache.layer(1), Some(&(k, v)));
        prop_assert!(cache.layer(0).is_none() && !cache.is_empty());
    }

    #[test]
    fn truncating_forgets_the_last(n in 1..9_usize, kept in 0..12_usize) {
        let mut cache = KvCache::new(1);
        let (k, v) = (rows(n, 1), rows(n, 2));
        cache.append(0, &k, &v).expect("same columns");
        cache.truncate(kept);
        let first: Vec<usize> = (0..n.min(kept)).collect();
        prop_assert_eq!(cache.len(0), first.len());
        prop_assert_eq!(cache.is_empty(), kept == 0);
        // What is appended next follows what is left.
        cache.append(0, &k, &v).expect("same columns");
        let (keys, values) = cache.layer(0).expect("something was appended");
        prop_assert_eq!(keys, &k.select(&first).stacked(&k));
        prop_assert_eq!(values, &v.select(&first).stacked(&v));
    }

    #[test]
    fn adopts_the_first_rows_of_one_layer(n in 1..9_usize, share in 0..9_usize) {
        let mut from = KvCache::new(2);
        from.append(1, &rows(n, 1), &rows(n, 2)).expect("same columns");
        let mut cache = KvCache::new(2);
        cache.append(0, &rows(1, 3), &rows(1, 4)).expect("same columns");
        let tokens = share.min(n);
        cache.adopt(1, &from, tokens);
        cache.adopt(0, &from, tokens);
        prop_assert_eq!((cache.len(0), cache.len(1), cache.is_empty()), (0, tokens, tokens == 0));
        from.truncate(tokens);
        prop_assert_eq!(cache.layer(1).filter(|_| tokens > 0), from.layer(1).filter(|_| tokens > 0));
    }
}

fn with_error(x: Tracked<f64>, e: f64, carried: u32) -> Tracked<f64> {
    let of = |e| Array2::from_elem(x.dim(), e);
    Tracked { error: Some(ErrorBound { certain: of(e), sigma: of(e / 2.0), carried }), ..x }
}

#[test]
fn errors_are_kept_row_by_row() {
    let mut cache = KvCache::new(1);
    cache.append(0, &with_error(rows(1, 1), 1.0, 2), &with_error(rows(1, 2), 2.0, 0)).expect("same columns");
    cache.append(0, &with_error(rows(2, 3), 4.0, 1), &with_error(rows(2, 4), 8.0, 3)).expect("same columns");
    let (keys, values) = cache.layer(0).expect("kept");
    let column = |x: &Tracked<f64>| x.error.as_ref().expect("kept").certain.column(0).to_vec();
    assert_eq!((column(keys), column(values)), (vec![1.0, 4.0, 4.0], vec![2.0, 8.0, 8.0]));
    let carried = |x: &Tracked<f64>| x.error.as_ref().expect("kept").carried;
    assert_eq!((carried(keys), carried(values)), (2, 3));
    assert_eq!(keys.error.as_ref().expect("kept").sigma.column(3).to_vec(), [0.5, 2.0, 2.0]);
}

/// Rows without a bound are exact; those after or before them keep theirs.
#[test]
fn errors_survive_beside_rows_that_have_none() {
    for exact_first in [false, true] {
        let mut cache = KvCache::new(1);
        for has_none in [exact_first, !exact_first] {
            let k = if has_none { rows(1, 1) } else { with_error(rows(1, 1), 1.0, 1) };
            cache.append(0, &k, &k).expect("same columns");
        }
        let (keys, _) = cache.layer(0).expect("kept");
        let error = keys.error.as_ref().expect("one row has an error");
        let want = if exact_first { [0.0, 1.0] } else { [1.0, 0.0] };
        assert_eq!(error.certain.column(0).to_vec(), want);
        assert_eq!(error.carried, 1);
    }
}

/// A thousand tokens, one at a time: what is kept moves to other memory a dozen times, not a thousand.
#[test]
fn growing_copies_seldom() {
    let mut cache = KvCache::new(1);
    let mut places = Vec::new();
    for token in 0..1000 {
        let k = with_error(rows(1, token), 1.0, 0);
        let (keys, values) = cache.append(0, &k, &k).expect("same columns");
        let of = |x: &Tracked<f64>| [x.value.as_ptr(), x.error.as_ref().expect("kept").certain.as_ptr()];
        places.push([of(keys), of(values)]);
        cache.append_index(0, &k).expect("same columns");
    }
    places.dedup();
    assert!(places.len() <= 24, "{} places", places.len());
    assert_eq!((cache.len(0), cache.index(0).map(|x| x.dim().0)), (1000, Some(1000)));
}

#[test]
fn c1_keys_and_values_of_different_shapes() {
    let mut cache = KvCache::new(1);
    let k = Tracked::plain(array![[1.0, 2.0]]);
    let err = cache.append(0, &k, &Tracked::plain(array![[1.0]])).expect_err("against the contract");
    assert_eq!(err.to_string(), "kv_cache C1: shape of v = (1, 1), expected (1, 2)");
}

/// And what was kept is still there.
#[test]
fn c2_keys_of_another_width() {
    let mut cache = KvCache::new(1);
    let k = Tracked::plain(array![[1.0, 2.0]]);
    cache.append(0, &k, &k).expect("same columns");
    let narrow = Tracked::plain(array![[1.0]]);
    let err = cache.append(0, &narrow, &narrow).expect_err("against the contract");
    assert_eq!(err.to_string(), "kv_cache C2: columns of k = 1, expected 2");
    assert_eq!(cache.layer(0), Some(&(k.clone(), k)));
}

/// Rows 1, 2 and 3, of which the last two came with a call.
#[test]
fn a_port_may_slip_between_calls() {
    let k = Tracked::plain(array![[1.0], [2.0], [3.0]]);
    let of = |cache_seam, rows| slipped(&k, &Semantics { cache_seam, ..Semantics::RELEASED }, rows);
    assert_eq!(of(CacheSeam::Overwritten, 2), Some(vec![2.0, 2.0, 3.0]));
    assert_eq!(of(CacheSeam::ZeroBefore, 2), Some(vec![0.0, 2.0, 3.0]));
    assert_eq!(of(CacheSeam::ZeroAfter, 2), Some(vec![1.0, 0.0, 3.0]));
    let halves =
        [CacheSeam::ZeroKeyBefore, CacheSeam::ZeroValueBefore, CacheSeam::ZeroKeyAfter, CacheSeam::ZeroValueAfter];
    assert_eq!(halves.map(|seam| seam.zero(3)), [[Some(2), None], [None, Some(2)], [Some(3), None], [None, Some(3)]]);
    assert_eq!((of(CacheSeam::Kept, 2), of(CacheSeam::Overwritten, 3)), (None, None));
}

/// 1.0625 becomes 1 where a later call reads it from an E4M3 cache; the call's own does not.
#[test]
fn what_is_read_in_a_narrow_type_is_of_the_calls_before() {
    let k = Tracked::plain(array![[1.0625], [1.0625], [1.0625]]);
    let reads = Semantics { cache_read: CacheType::E4m3, ..Semantics::RELEASED };
    assert_eq!(slipped(&k, &reads, 1), Some(vec![1.0, 1.0, 1.0625]));
    assert_eq!(slipped(&k, &reads, 3), None);
    let values = Semantics { cache_read: CacheType::E4m3Values, ..Semantics::RELEASED };
    let (keys, values) = KvCache::slipping((&k, &k), &values, 1).expect("values are narrowed");
    assert_eq!((keys, values.value.column(0).to_vec()), (k, vec![1.0, 1.0, 1.0625]));
}

/// Page 1 of two positions is page 2, of which one has been written.
#[test]
fn a_page_may_be_another() {
    let k = Tracked::plain(array![[1.0], [2.0], [3.0], [4.0], [5.0]]);
    let reads = Semantics { shared_page: Some(SharedPage { size: 2, page: 1, of: 2 }), ..Semantics::RELEASED };
    assert_eq!(slipped(&k, &reads, 5), Some(vec![1.0, 2.0, 5.0, 4.0, 5.0]));
}

/// E5M2 has 1, 1.25, 1.5, 1.75 and 2, 2⁻¹⁶ as its least and 57344 as its largest number; in the middle of two the even one is taken.
#[test]
fn what_is_kept_in_e5m2() {
    let x = Tracked::exact(array![[1.1, 1.125, 1.2, -1.375, 1.875, 3.2, 1e6, 1e-5, 1e-6]]);
    let form: CacheForm = "keys:e5m2".parse().expect("a form");
    let want = array![[1.0, 1.0, 1.25, -1.5, 2.0, 3.0, 57344.0, 1.0 / 65536.0, 0.0]];
    assert_eq!(form::kept(&x, form.grid, 9).value, want);
}

/// Of five rows in three slots the last of each slot is there.
#[test]
fn a_ring_has_the_last_rows() {
    let k = Tracked::plain(array![[1.0], [2.0], [3.0], [4.0], [5.0]]);
    let of = |slots| slipped(&k, &Semantics { cache_ring: Some(slots), ..Semantics::RELEASED }, 5);
    assert_eq!(of(3), Some(vec![4.0, 5.0, 3.0, 4.0, 5.0]));
    assert_eq!(of(1), Some(vec![5.0; 5]));
    assert_eq!(of(5), Some(vec![1.0, 2.0, 3.0, 4.0, 5.0]));
}

/// Keys as a port reads them that slips.
fn slipped(k: &Tracked<f64>, reads: &Semantics, rows: usize) -> Option<Vec<f64>> {
    KvCache::slipping((k, k), reads, rows).map(|(keys, _)| keys.value.column(0).to_vec())
}

/// 1.0625 is in the middle of two E4M3 values, of which the even one is 1; what is near it may be the other.
#[test]
fn what_is_kept_in_a_narrow_type_is_performed() {
    let exact = Tracked::exact(array![[1.06, 1.062_5]]).performed(Storage::E4m3);
    assert_eq!(exact, Tracked::exact(array![[1.0, 1.0]]));
    let off = with_error(Tracked::plain(array![[1.03, 1.062]]), 1e-3, 0).performed(Storage::E4m3);
    assert_eq!(off.error.expect("kept").certain, array![[0.0, 0.125]]);
}

/// A head of three channels each: steps of 0.02, of 0.01 and whole numbers, to which 0.013, 0.996 and 100.4 go.
#[test]
fn what_is_kept_on_a_grid_has_scales() {
    let x = Tracked::exact(array![[2.54, 0.013, 0.0, 1.27, 0.996, 0.0], [127.0, 100.4, 0.0, 1.27, 0.994, 0.0]]);
    let of = |grid: &str| {
        let form: CacheForm = format!("keys:{grid}").parse().expect("a form");
        form::kept(&x, form.grid, 3).value
    };
    let near = |a: Array2<f64>, b: Array2<f64>| {
        assert!((&a - &b).iter().all(|apart| apart.abs() < 1e-12), "{a} {b}");
    };
    near(of("int8/head"), array![[2.54, 0.02, 0.0, 1.27, 1.0, 0.0], [127.0, 100.0, 0.0, 1.27, 0.99, 0.0]]);
    let token = of("int8/token").row(1).to_owned().insert_axis(Axis(0));
    near(token, array![[127.0, 100.0, 0.0, 1.0, 1.0, 0.0]]);
    near(of("int8/call"), array![[3.0, 0.0, 0.0, 1.0, 1.0, 0.0], [127.0, 100.0, 0.0, 1.0, 1.0, 0.0]]);
    let channel = of("int8/channel");
    assert_eq!((channel[[1, 1]], channel[[0, 1]]), (100.4, 0.0));
    near(of("clip2"), array![[2.0, 0.013, 0.0, 1.27, 0.996, 0.0], [2.0, 2.0, 0.0, 1.27, 0.994, 0.0]]);
}

/// Two rows before a call's own are quantized together as it reads them: steps of 0.02 and of 0.01. Its own are as they are.
#[test]
fn later_calls_may_read_what_is_quantized() {
    let x: Tracked<f64> = Tracked::exact(array![[2.54, 0.013], [0.008, 1.27], [127.0, 0.996]]);
    let grid = |form: &str| form.parse::<CacheForm>().expect("a form").grid;
    let read = |form: &str, first| form::read(&x, (grid(form), 1), first, |past| past).value;
    let (got, want) = (read("keys:int8/channel", 2), array![[2.54, 0.01], [0.0, 1.27], [127.0, 0.996]]);
    assert!(got.iter().zip(&want).all(|(got, want): (&f64, &f64)| (got - want).abs() < 1e-12), "{got}");
    assert_eq!(read("keys:int8/channel", 0), x.value);
    // What is stored is stored behind the grid.
    let doubled = form::read(&x, (grid("keys:clip9"), 1), 1, |past| Tracked::exact(past.value * 2.0));
    assert_eq!(doubled.value.column(0).to_vec(), [5.08, 0.008, 127.0]);
}

/// From −1 to 14 in steps of 1.
#[test]
fn steps_may_begin_at_the_least_element() {
    let x = Tracked::exact(array![[-1.0, 14.0, 3.4]]);
    assert_eq!(
        form::kept(&x, CacheGrid::Scaled(CacheSteps::Uint4, ScaleOf::Token), 3).value,
        array![[-1.0, 14.0, 3.0]]
    );
}

/// 0.7 of a step is nearest to 1, and to 0 where it is off by a quarter.
#[test]
fn what_is_off_may_go_to_the_next_step() {
    let x = Tracked::plain(array![[127.0, 0.7]]);
    let kept = |off: f64| {
        let x = with_error(x.clone(), off, 1);
        form::kept(&x, CacheGrid::Scaled(CacheSteps::Int8, ScaleOf::Token), 2).error.expect("kept").certain[[0, 1]]
    };
    assert!(kept(0.1) < 0.01 && kept(0.25) > 1.0, "{} {}", kept(0.1), kept(0.25));
}
