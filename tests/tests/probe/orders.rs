//! In what order.

use ndarray::{Array1, ArrayD};
use reference::Storage;
use reference::accumulator::{Accumulator, DEVICES};
use reference::contract::ORDERS;
use reference::order::{Lanes, Order};
use tools::probe::found::Found;
use tools::probe::function::Kind;
use tools::probe::tree::Tree;

use super::{field, found, found_of_dots, matrix, said};

/// What is found of sums in f32 that are taken so.
fn found_of_sums(size: usize, sum: impl Fn(&[f32]) -> f32) -> Found {
    found((Kind::Sum, Storage::F32, size), Storage::F32, |inputs| sums(&inputs[0], &sum))
}

#[expect(clippy::cast_possible_truncation, reason = "the terms are f32's")]
fn sums(x: &ArrayD<f64>, sum: &impl Fn(&[f32]) -> f32) -> ArrayD<f64> {
    let of = |row: ndarray::ArrayView1<'_, f64>| f64::from(sum(&row.iter().map(|&x| x as f32).collect::<Vec<_>>()));
    matrix(x).rows().into_iter().map(of).collect::<Array1<f64>>().into_dyn()
}

fn in_pairs(terms: &[f32]) -> f32 {
    match terms {
        [] => 0.0,
        [term] => *term,
        _ => {
            let (low, high) = terms.split_at(terms.len() / 2);
            in_pairs(low) + in_pairs(high)
        }
    }
}

#[test]
fn one_after_another_and_in_pairs() {
    let found = found_of_sums(100, |terms| terms.iter().fold(0.0, |sum, x| sum + x));
    assert_eq!(said(&found, "order"), "100 one after another");
    assert_eq!(found.order, Tree::one_by_one((0..100).map(Tree::Term)));
    assert_eq!((found.foretold, field(&found, "reduction")), (Some((64, 64)), None));

    let found = found_of_sums(64, in_pairs);
    assert_eq!((said(&found, "order"), found.foretold), ("64 in pairs", Some((64, 64))));
    assert_eq!(found.order.expect("a tree").depth(), 6);
}

#[test]
fn lanes_and_blocks() {
    // Eight lanes, as NumPy adds, then these in pairs.
    let found = found_of_sums(128, |terms| {
        let lane = |own: usize| terms[own..].iter().step_by(8).fold(0.0, |sum, x| sum + x);
        in_pairs(&[0, 1, 2, 3, 4, 5, 6, 7].map(lane))
    });
    assert_eq!(said(&found, "order"), "8 in pairs, each 16 one after another, 8 apart");
    assert_eq!((found.foretold, field(&found, "reduction")), (Some((64, 64)), Some("torch")));

    // Blocks of 24, one after another, each in pairs but for its last eight.
    let found = found_of_sums(96, |terms| terms.chunks(24).fold(0.0, |sum, block| sum + in_pairs(block)));
    assert_eq!(found.foretold, Some((64, 64)));
    assert!(said(&found, "order").starts_with("4 one after another, each 8 in pairs, each "), "{found}");
}

/// That of our kernels' rows, and of other lanes.
#[test]
fn the_references_lanes() {
    let own = ORDERS.row;
    for (lanes, reduction) in [(own, Some("parity")), (Lanes { count: 64, vector: 2 }, Some("torch"))] {
        let found = found_of_sums(300, |terms| Order::Lanes(lanes).sum(terms.len(), |sum, i| sum + terms[i]));
        let want = Tree::of_lanes(lanes, 300).expect("there are terms").sorted();
        assert_eq!(found.order.as_ref().map(Tree::sorted), Some(want), "{lanes:?}");
        assert_eq!((found.foretold, field(&found, "reduction")), (Some((64, 64)), reduction), "{lanes:?}");
    }
}

/// Every tensor core that is known is told from what the reference has of it: its steps, bits and promotion.
#[test]
fn tensor_cores_are_told_apart() {
    for device in DEVICES {
        let Accumulator::TensorCore(core) = device.accumulator else { continue };
        let size = core.promote.map_or(64, |promote| promote as usize + 48);
        let found =
            found_of_dots(Storage::Bf16, size, Storage::F32, |a, b| core.dot(a.iter().copied().zip(b.iter().copied())));
        let told: Accumulator = field(&found, "accumulator").unwrap_or_else(|| panic!("{found}")).parse().expect("one");
        assert_eq!(told, device.accumulator, "{}: {found}", device.name);
        assert_eq!(found.precision.accumulator, device.accumulator);
        assert_eq!(found.foretold, Some((64, 64)), "{}: {found}", device.name);
    }
}

/// As a library's tiles have it: then the first row's order is told, and the others' are not mixed with it.
#[test]
fn rows_of_several_orders_are_said() {
    let row = std::cell::Cell::new(0);
    let found = found_of_sums(32, |terms| {
        row.set(row.get() + 1);
        if row.get() % 2 == 1 { in_pairs(terms) } else { terms.iter().fold(0.0, |sum, x| sum + x) }
    });
    assert_eq!(said(&found, "rows"), "are added in several orders: what follows is the first's");
    assert_eq!((said(&found, "order"), found.foretold), ("32 in pairs", Some((64, 64))), "{found}");
}

/// What is rounded once has no order, and what is compensated none that is a tree's; nor has what changes its order.
#[test]
fn what_is_no_tree_is_said() {
    let exact = |terms: &[f64]| {
        // Two huge terms take each other away, and the others are few and small.
        let mut sorted = terms.to_vec();
        sorted.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
        let (huge, small): (Vec<f64>, Vec<f64>) = sorted.into_iter().partition(|x| x.abs() > 1e20);
        huge.iter().sum::<f64>() + small.iter().sum::<f64>()
    };
    let found = found_of_dots(Storage::F32, 40, Storage::F32, |a, _| exact(a));
    assert!(said(&found, "order").starts_with("no tree"), "{found}");
    assert_eq!((found.order, found.fields), (None, Vec::new()));

    let calls = std::cell::Cell::new(0);
    let found = found_of_sums(40, |terms| {
        calls.set(calls.get() + 1);
        if calls.get() % 3 == 0 { in_pairs(terms) } else { terms.iter().fold(0.0, |sum, x| sum + x) }
    });
    assert_ne!(found.foretold, Some((64, 64)), "{found}");
    assert_eq!(found.fields, Vec::new(), "{found}");
}
