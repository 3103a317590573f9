//! Rotations in numbers that can be checked by hand: tables, rounding points, witnesses of the bounds, constraints.

use super::*;

/// θ^(−2i/2h) in exact powers of two.
#[test]
fn frequencies_by_hand() {
    assert_eq!(inverse_frequencies(16.0, 8, 8), [1.0, 0.5, 0.25, 0.125]);
    assert_eq!(inverse_frequencies(5e6, 64, 64).len(), 32);
    // The f32 steps show: 1 / 5·10⁶^(62/64) is 3.2386…·10⁻⁷; the last digits are those of transformers.
    let exact = 5e6_f64.powf(-62.0 / 64.0);
    let last = f64::from(inverse_frequencies(5e6, 64, 64)[31]);
    assert!((last - exact).abs() <= 20.0 * f32::UNIT_ROUNDOFF * exact && last != exact);
}

/// Of transformers 5.23's `ROPE_INIT_FUNCTIONS`, whose last digits are those of f32: every fourth frequency, and the factor of c and s.
#[test]
fn frequencies_that_are_scaled_are_those_of_transformers() {
    for (scaling, theta, dim, scale, expected) in [
        (
            "yarn:4/4096",
            5e6,
            64,
            1.138_629_436_111_989,
            vec![
                1.0,
                0.145_421_55,
                0.017_182_283_1,
                0.001_345_439_81,
                1.118_034_05e-4,
                1.625_862_21e-5,
                2.364_354_03e-6,
                3.438_280_2e-7,
            ],
        ),
        ("yarn:8/128", 1e6, 32, 1.207_944_154_167_983_6, vec![1.0, 3.952_847_33e-3, 1.250_000_06e-4, 3.952_846_78e-6]),
        (
            "llama3:8/8192",
            5e6,
            64,
            1.0,
            vec![
                1.0,
                0.145_421_55,
                0.021_147_426_2,
                0.003_075_291_17,
                5.590_170_26e-5,
                8.129_311_03e-6,
                1.182_177_02e-6,
                1.719_140_1e-7,
            ],
        ),
    ] {
        let scaling: RopeScaling = scaling.parse().expect("it is one");
        let found = scaling.of(&inverse_frequencies(theta, dim, dim), dim, theta);
        for (found, expected) in found.iter().step_by(4).zip(&expected) {
            assert!((found - expected).abs() <= 1e-6 * expected, "{scaling}: {found}, expected {expected}");
        }
        assert_eq!(found.len(), 4 * expected.len());
        assert!((scaling.scale() - scale).abs() <= 1e-15, "{scaling}: {}", scaling.scale());
        let table = |scaling| {
            rope_table::<f64>(&Rope { head_dim: dim, rotary_dim: dim, theta, scaling, ..Rope::default() }, 7, 1)
        };
        let cos = scale * (7.0 * found[4]).cos();
        // Angles are f32.
        assert!((table(Some(scaling)).cos.value[[0, 4]] - cos).abs() <= 1e-6, "{scaling}");
    }
}

/// Angles are f32 products: at position 3 a frequency of 0.1 gives 0.3 + 1.2·10⁻⁸, whose cosine is taken exactly.
#[test]
fn the_angle_is_an_f32() {
    let p = Rope { head_dim: 4, rotary_dim: 4, theta: 100.0, ..Rope::default() };
    let table = rope_table::<f64>(&p, 3, 2);
    assert_eq!(table.cos.value[[0, 1]], f64::from(3.0_f32 * 0.1).cos());
    assert_eq!(table.sin.value[[1, 3]], f64::from(4.0_f32 * 0.1).sin());
    assert_eq!(table.cos.value[[1, 0]], 4.0_f64.cos());
}

/// cos 1 = 0.54030…, in bf16 0.5390625.
#[test]
fn r1_rounds_the_table() {
    let p = Rope { head_dim: 2, rotary_dim: 2, ..Rope::default() }.under(&RoundingContract::EAGER_BF16);
    assert_eq!(rope_table::<f64>(&p, 1, 1).cos.value[[0, 0]], 0.539_062_5);
    let once = Rope { head_dim: 2, rotary_dim: 2, ..Rope::default() }.under(&RoundingContract::FUSED);
    assert_eq!(rope_table::<f64>(&once, 1, 1).cos.value[[0, 0]], 1.0_f64.cos());
}

fn by_hand(contract: &RoundingContract, x: [f64; 2], c: f64, s: f64) -> [f64; 2] {
    let p = Rope { head_dim: 2, rotary_dim: 2, ..Rope::default() }.under(contract);
    let y = rope(&p, array![x].view(), array![[c, c]].view(), array![[s, s]].view()).expect("good");
    [y[[0, 0]], y[[0, 1]]]
}

/// 1.0234375² = 1.04742…, in bf16 1.046875, less 1 is 0.046875; without R2, as fused kernels have it, eight bits of the
/// difference stay: 0.047363….
#[test]
fn r2_rounds_the_products() {
    let x = 1.023_437_5;
    assert_eq!(by_hand(&RoundingContract::EAGER_BF16, [x, 1.0], x, 1.0)[0], 0.046_875);
    assert_eq!(by_hand(&RoundingContract::FUSED, [x, 1.0], x, 1.0)[0], 0.047_363_281_25);
}

/// 256·1 + 1.5·1 is between 256 and 258.
#[test]
fn r3_rounds_the_sum() {
    assert_eq!(by_hand(&RoundingContract::FUSED, [256.0, 1.5], 1.0, -1.0)[0], 258.0);
}

/// A channel that does not rotate goes unrounded where it was stored before, and is stored here where it was not.
#[test]
fn r4_rounds_what_passes() {
    let x = array![[0.0, 0.0, 1.001]];
    let table = (array![[1.0, 1.0]], array![[0.0, 0.0]]);
    let passed = |contract: &RoundingContract| {
        let p = Rope { head_dim: 3, rotary_dim: 2, ..Rope::default() }.under(contract);
        rope(&p, x.view(), table.0.view(), table.1.view()).expect("good")[[0, 2]]
    };
    assert_eq!(passed(&RoundingContract::EAGER_BF16), 1.001);
    assert_eq!(passed(&RoundingContract::FUSED), 1.0);
    assert_eq!(passed(&RoundingContract { qk_norm: Chain::Each, ..RoundingContract::FUSED }), 1.001);
}

/// 1.03906·1.09375 = 1.13647… rounds down to 1.132…, 1.0625² = 1.1289… to 1.125, and their sum once more.
#[test]
fn the_bound_is_reached() {
    let p = Rope { head_dim: 2, rotary_dim: 2, ..Rope::default() }.under(&RoundingContract::EAGER_BF16);
    let ideal = Rope { head_dim: 2, rotary_dim: 2, ..Rope::default() };
    let table = |x: f64| Tracked::exact(array![[x, x]]);
    let (x, cos, sin) = (array![[1.039_062_5, -1.0625]], table(1.093_75), table(1.0625));
    let want = rope(&ideal, x.view(), cos.view(), sin.view()).expect("good");
    let got = rope(&p, x.view(), cos.view(), sin.view()).expect("good");
    let ratio = reached(&got, &want, &p.bound(&Tracked::exact(x), &RopeTable { cos, sin }, &want));
    assert!((0.86..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_bound_of_input_errors_is_reached() {
    let p = Rope { head_dim: 2, rotary_dim: 2, ..Rope::default() };
    let with = |x: Array2<f64>, e: f64| {
        let mut tracked = Tracked::exact(x);
        tracked.error.as_mut().expect("exact is tracked").certain.fill(e);
        tracked
    };
    let table = RopeTable { cos: with(array![[0.6, 0.6]], 0.125), sin: with(array![[0.8, 0.8]], 0.125) };
    let x = with(array![[1.0, -1.0]], 0.25);
    let want = oracle(&p, &x.value, &table);
    let moved = RopeTable { cos: with(array![[0.725, 0.725]], 0.0), sin: with(array![[0.925, 0.925]], 0.0) };
    let got = oracle(&p, &array![[1.25, -1.25]], &moved);
    assert!(reached(&got, &want, &p.bound(&x, &table, &want)) > 0.999);
}

/// The angle's error grows with the position; the cosine's is all of it where the cosine is steepest.
#[test]
fn the_tables_bound_is_reached_by_two_ulps_of_frequency() {
    let p = Rope { head_dim: 64, rotary_dim: 64, theta: 5e6, ..Rope::default() };
    let (first, rows) = (150_000, 64);
    let ideal = rope_table::<f64>(&p, first, rows).cos.value;
    let frequencies: Vec<f32> = inverse_frequencies(5e6, 64, 64).into_iter().map(|f| f.next_up().next_up()).collect();
    let got =
        Array2::from_shape_fn(ideal.dim(), |(i, j)| f64::from(f32::of((first + i) as f64) * frequencies[j % 32]).cos());
    let ratio = reached(&got, &ideal, &p.table_bound(first, &ideal));
    assert!((0.5..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn c1_no_whole_number_of_heads() {
    let p = Rope { head_dim: 4, ..Rope::default() };
    let empty = Array2::<f64>::zeros((1, 0));
    let err = rope(&p, Array2::zeros((1, 6)).view(), empty.view(), empty.view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "rope C1: columns of x = 6, expected a multiple of d = 4");
}

#[test]
fn c2_odd_or_too_many_rotated_channels() {
    for rotary_dim in [3, 6] {
        let p = Rope { head_dim: 4, rotary_dim, ..Rope::default() };
        let table = Array2::<f64>::zeros((1, rotary_dim));
        let err = rope(&p, Array2::zeros((1, 4)).view(), table.view(), table.view()).expect_err("against the contract");
        assert_eq!(err.to_string(), format!("rope C2: 2h = {rotary_dim}, expected an even number up to d = 4"));
    }
}

#[test]
fn c3_a_table_of_another_shape() {
    let p = Rope { head_dim: 4, rotary_dim: 2, ..Rope::default() };
    let (x, good, bad) = (Array2::<f64>::zeros((2, 4)), Array2::zeros((2, 2)), Array2::zeros((1, 2)));
    let err = rope(&p, x.view(), bad.view(), good.view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "rope C3: shape of c = (1, 2), expected (2, 2)");
    let err = rope(&p, x.view(), good.view(), bad.view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "rope C3: shape of s = (1, 2), expected (2, 2)");
}

/// Nothing rotates, nothing is looked up.
#[test]
fn no_rotated_channels() {
    let p = Rope { head_dim: 2, rotary_dim: 0, ..Rope::default() };
    let table = rope_table::<f64>(&p, 7, 1);
    let x = array![[1.0, 2.0]];
    assert_eq!(oracle(&p, &x, &table), x);
    assert_eq!(Array1::from_vec(inverse_frequencies(1e4, 0, 0)).len(), 0);
}
