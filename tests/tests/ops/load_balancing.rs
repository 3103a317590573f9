//! `reference/src/ops/load_balancing.rs`.

use ndarray::{Array2, array};
use reference::ops::load_balancing::{self, AuxiliaryLoss, auxiliary_loss, updated_bias};
use reference::{Real, Storage};
use tests::strategy::{Fill, Matrix};

const SWITCH: AuxiliaryLoss = AuxiliaryLoss::HfSwitch { top_k: 2 };

fn loss(kind: AuxiliaryLoss, z: &Array2<f64>) -> f64 {
    auxiliary_loss(kind, z.view(), None).expect("the case keeps the contract")
}

/// Experts that are alike have P = 1/E: the loss is Σ fₑ = k, or 1.
#[test]
fn alike_experts_cost_k_or_1() {
    let z = Array2::zeros((6, 4));
    assert!((loss(SWITCH, &z) - 2.0).abs() < 1e-15 && (loss(AuxiliaryLoss::Doc003, &z) - 1.0).abs() < 1e-15);
}

/// All tokens at one expert: f and P̄ are 1 there, and the loss is E, or with the second of k, whose P̄ is 0, the same.
#[test]
fn one_expert_for_all_costs_the_number_of_experts() {
    let z = Array2::from_shape_fn((5, 4), |(_, expert)| if expert == 2 { 800.0 } else { 0.0 });
    assert_eq!([loss(SWITCH, &z), loss(AuxiliaryLoss::Doc003, &z)], [4.0, 4.0]);
}

#[test]
fn masked_rows_do_not_count() {
    let z = array![[1.0, 0.5, -1.0], [9.0, 2.0, 8.0], [0.0, 0.25, 3.0]];
    let kept = array![[1.0, 0.5, -1.0], [0.0, 0.25, 3.0]];
    let masked = auxiliary_loss(SWITCH, z.view(), Some(&[true, false, true])).expect("good");
    assert_eq!(masked, loss(SWITCH, &kept));
    let bound = |z: &Array2<f64>, marks| load_balancing::bound(SWITCH, z.view(), marks, masked, f32::UNIT_ROUNDOFF);
    assert_eq!(bound(&z, Some(&[true, false, true][..])), bound(&kept, None));
    let short = auxiliary_loss(SWITCH, z.view(), Some(&[true, false])).expect_err("of three rows");
    assert_eq!(short.to_string(), "load_balancing C4: len(m) = 2, expected N = 3");
    let none = auxiliary_loss(SWITCH, z.view(), Some(&[false; 3])).expect_err("no row counts");
    assert!(none.to_string().starts_with("load_balancing C1"), "{none}");
    let more = auxiliary_loss(AuxiliaryLoss::HfSwitch { top_k: 4 }, z.view(), None).expect_err("of three experts");
    assert!(more.to_string().starts_with("load_balancing C2: k = 4"), "{more}");
    let nothing = AuxiliaryLoss::HfSwitch { top_k: 0 };
    let refused = load_balancing::bound(nothing, z.view(), None, 0.0, f32::UNIT_ROUNDOFF).expect_err("of none");
    assert_eq!(refused.to_string(), "load_balancing C2: k = 0, expected 1 to E = 3");
}

#[test]
fn f32_stays_within_the_bound_of_the_loss() {
    for seed in 0..40 {
        let any = Matrix::new((9, 7), Fill::Activation, Storage::F32, seed);
        // Where no probability vanishes, and no choice can be open because none is made, the bound is narrow.
        let z = if seed % 2 == 0 { any.mapv(|z| z.clamp(-9.0, 9.0)) } else { (*any).clone() };
        for kind in [SWITCH, AuxiliaryLoss::Doc003] {
            let want = loss(kind, &z);
            let got = auxiliary_loss(kind, z.mapv(f32::of).view(), None).expect("good").wide();
            let bound = load_balancing::bound(kind, z.view(), None, want, f32::UNIT_ROUNDOFF).expect("good");
            let is_narrow = seed % 2 == 1 || kind == SWITCH || bound < 1e-4 * want;
            assert!((got - want).abs() <= bound && is_narrow, "{seed}: {got} {want} {bound}");
        }
    }
}

/// Of loads 5, 1 and 3 the mean is 3.
#[test]
fn a_bias_moves_towards_the_mean_load() {
    let b = updated_bias(0.25, array![1.0, 1.0, 1.0].view(), &[5, 1, 3]).expect("good");
    assert_eq!(b, array![0.75, 1.25, 1.0]);
    assert!(updated_bias(0.25, array![1.0].view(), &[5, 1]).is_err());
}

#[test]
fn f32_stays_within_the_bound_of_a_bias() {
    let b = array![0.1, -3.0, 1e-30, 7.25];
    let loads = [9, 1, 2, 4];
    let want = updated_bias(1e-3, b.view(), &loads).expect("good");
    let got = updated_bias(1e-3, b.mapv(f32::of).view(), &loads).expect("good").mapv(Real::wide);
    let bound = load_balancing::bound_bias(1e-3, b.mapv(|b| f32::of(b).wide()).view(), want.view(), f32::UNIT_ROUNDOFF);
    let exact = updated_bias(1e-3, b.mapv(|b| f32::of(b).wide()).view(), &loads).expect("good");
    for i in 0..4 {
        assert!((got[i] - exact[i]).abs() <= bound[i], "{got} {exact} {bound}");
        assert!(bound[i] < 3.0 * f32::UNIT_ROUNDOFF * (want[i].abs() + 1e-3), "{bound}");
    }
    assert_eq!(load_balancing::bound_bias(1e-3, b.view(), b.view(), f32::UNIT_ROUNDOFF), array![0.0, 0.0, 0.0, 0.0]);
}
