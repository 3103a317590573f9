//! `reference/src/bound.rs` and `tracked.rs`.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::bound::{ErrorBound, confidence};
use reference::{Storage, Tracked};
use tests::judge::{reached, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise};

#[derive(Debug)]
struct Case {
    contract: Contract,
    x: Matrix,
    noise: Noise,
}

fn case() -> impl Strategy<Value = Case> {
    (contract(), noise(), 1..4_usize, 1..30_usize).prop_flat_map(|(contract, noise, n, d)| {
        filled((n, d), finite(), contract.activations).prop_map(move |x| Case { contract, x, noise })
    })
}

proptest! {
    /// |ρ(y + e) − y| ≤ e + u·(|y| + e), and what underflows.
    #[test]
    fn a_rounded_value_stays_within_the_rounded_bound(case in case()) {
        let x = case.noise.on(&case.x, 0);
        let storage = case.contract.activations;
        let got = x.moved.mapv(|x| storage.nearest(x));
        let error = x.tracked.error_or_exact();
        within(&got, &case.x, &error.clone().rounded(case.x.view(), storage))?;
        prop_assert_eq!(error.clone().rounded(case.x.view(), Storage::Real), error.clone());
        prop_assert_eq!(x.tracked.clone().with_rounding(storage).error, Some(error.rounded(case.x.view(), storage)));
    }

    #[test]
    fn sigma_is_at_most_certain(case in case()) {
        let error = case.noise.on(&case.x, 0).tracked.error_or_exact();
        let error = error.plus(&error).rounded(case.x.view(), case.contract.activations);
        prop_assert!(error.sigma.iter().zip(&error.certain).all(|(sigma, certain)| sigma <= certain));
    }

    /// Errors add, deviations add as squares, depth is the deeper one's.
    #[test]
    fn a_sum_has_the_errors_of_both(case in case()) {
        let (mut a, mut b) = (case.noise.on(&case.x, 0).tracked.error_or_exact(), case.noise.on(&case.x, 1).tracked.error_or_exact());
        (a.carried, b.carried) = (2, 1);
        let sum = a.plus(&b);
        prop_assert_eq!(&sum.certain, &(&a.certain + &b.certain));
        for ((sum, a), b) in sum.sigma.iter().zip(&a.sigma).zip(&b.sigma) {
            // Either root is off by at most 2·u.
            prop_assert!((sum - a.hypot(*b)).abs() <= 2.0 * f64::EPSILON * sum, "{} of {} and {}", sum, a, b);
        }
        prop_assert_eq!((sum.carried, b.plus(&a).carried), (2, 2));
    }

    #[test]
    fn parts_of_a_value_keep_their_errors(case in case()) {
        let x = case.noise.on(&case.x, 0).tracked;
        let rows: Vec<usize> = (0..x.dim().0).rev().collect();
        let part = x.select(&rows).columns(0..1);
        for (to, &from) in rows.iter().enumerate() {
            prop_assert_eq!(part.value[[to, 0]], x.value[[from, 0]]);
            prop_assert_eq!(part.error_or_exact().certain[[to, 0]], x.error_or_exact().certain[[from, 0]]);
            prop_assert_eq!(part.error_or_exact().sigma[[to, 0]], x.error_or_exact().sigma[[from, 0]]);
        }
        prop_assert_eq!(x.select(&rows).select(&rows), x.widened());
    }
}

/// A value in the middle of two bf16, off by its whole bound before.
#[test]
fn the_rounded_bound_is_reached() {
    let (x, mut error) = (array![[1.0]], ErrorBound::exact((1, 1)));
    error.certain[[0, 0]] = 2.0_f64.powi(-8) + 2.0_f64.powi(-30);
    let got = array![[Storage::Bf16.nearest(1.0 + error.certain[[0, 0]])]];
    assert!(reached(&got, &x, &error.rounded(x.view(), Storage::Bf16)) > 0.99);
}

/// σ² = (half the neighbours' distance)²/3 for a rounding, on top of what was there.
#[test]
fn sigma_by_hand() {
    let mut error = ErrorBound::exact((1, 1));
    error.certain[[0, 0]] = 1.0;
    error.sigma[[0, 0]] = 0.5;
    let rounded = error.rounded(array![[512.0]].view(), Storage::Bf16);
    let rounding = 512.0 / 256.0 + 2.0_f64.powi(-126);
    assert_eq!(rounded.sigma[[0, 0]], 0.5_f64.hypot(rounding / 3.0_f64.sqrt()));
    assert_eq!(rounded.certain[[0, 0]], 1.0 + 512.0 / 256.0 + 2.0_f64.powi(-126));
}

#[test]
fn exactness() {
    assert!(ErrorBound::exact((2, 3)).is_exact());
    let mut error = ErrorBound::exact((2, 3));
    error.certain[[1, 2]] = f64::MIN_POSITIVE;
    assert!(!error.is_exact());
    let plain: Tracked<f64> = Tracked::plain(Array2::zeros((2, 3)));
    assert_eq!((plain.error_or_exact(), plain.error), (ErrorBound::exact((2, 3)), None));
    assert_eq!(Tracked::<f32>::exact(Array2::zeros((2, 3))).widened(), Tracked::<f64>::exact(Array2::zeros((2, 3))));
}

/// 2·count·exp(−λ²/2) = failure.
#[test]
fn confidence_solves_its_equation() {
    for (count, failure) in [(1, 0.5), (1000, 1e-6), (1_000_000_000, 1e-9)] {
        let lambda = confidence(count, failure);
        let back = 2.0 * count as f64 * (-lambda * lambda / 2.0).exp();
        // The exponent is at most 48, and each of its few roundings moves the result by 48·u.
        assert!((back / failure - 1.0).abs() <= 8.0 * 48.0 * f64::EPSILON, "{back}");
    }
    assert_eq!(confidence(0, 0.5), confidence(1, 0.5));
}

/// All kinds of values are among the cases.
#[test]
fn cases_print_on_one_line() {
    let x = Matrix::new((3, 4), Fill::OneHuge, Storage::Bf16, 7);
    assert_eq!(format!("{x:?}"), "OneHuge bf16 in bf16 3×4 seed 7");
}
