//! What was done to weights is found in the values of a model that computed with them.

use fixtures::checkpoint::memory::MemoryWeights;
use ndarray::{Array2, Axis, s};
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tests::seen::{Seen, modules};

use super::altered::{diagnoses, exchange, expert, map, setting, told};

/// 1.0100 ± 0.0003 of the end of a sentence.
fn factor(way: &str) -> (f64, f64) {
    let number = way.split(" is ").nth(1).and_then(|rest| rest.split(" times ").next()).expect("a factor is told");
    let (value, error) = number.split_once(" ± ").expect("with its error");
    (value.parse().expect("a number"), error.parse().expect("a number"))
}

#[test]
fn exchanged_experts_are_named() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        for projection in [Projection::Gate, Projection::Up, Projection::Down] {
            exchange(weights, expert(1, 3, projection), expert(1, 7, projection));
        }
    }) {
        let explained = told(&diagnosis, "experts_permuted", "experts 3 and 7 in layer 1 are exchanged");
        assert_eq!(explained.layers, [1]);
    }
}

#[test]
fn a_permutation_of_experts_is_named() {
    for bf16 in [false, true] {
        for diagnosis in diagnoses(&setting(bf16), |weights| {
            for projection in [Projection::Gate, Projection::Up, Projection::Down] {
                exchange(weights, expert(0, 1, projection), expert(0, 2, projection));
                exchange(weights, expert(0, 2, projection), expert(0, 4, projection));
            }
        }) {
            let way =
                "experts in layer 0 have each other's weights: 1 has those of 2, 2 has those of 4, 4 has those of 1";
            told(&diagnosis, "experts_permuted", way);
        }
    }
}

/// In bf16, where modules are shown, no value is beyond its bound.
#[test]
fn a_scaled_expert_is_named_with_its_factor() {
    for bf16 in [false, true] {
        for diagnosis in diagnoses(&setting(bf16), |weights| {
            map(weights, expert(1, 5, Projection::Down), |w| 1.01 * w);
        }) {
            let explained = told(&diagnosis, "weight_scaled", "down_proj of expert 5 in layer 1 is ");
            let (value, error) = factor(&explained.way);
            assert!((value - 1.01).abs() <= error && error < 0.005, "{}", explained.way);
        }
    }
}

#[test]
fn a_scaled_gate_is_told_from_a_scaled_product() {
    let [all, _] = diagnoses(&setting(false), |weights| map(weights, expert(1, 3, Projection::Gate), |w| 1.5 * w));
    let (value, error) = factor(&told(&all, "weight_scaled", "gate_proj of expert 3 in layer 1 is ").way);
    assert!((value - 1.5).abs() <= error && error < 1e-5, "{value} ± {error}");
}

#[test]
fn scaled_heads_and_rows_are_named() {
    let k_proj = Weight::Layer(0, LayerWeight::KProj);
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, k_proj, |mut w| {
            w.slice_mut(s![16.., ..]).mapv_inplace(|w| 0.9 * w);
            w
        });
    }) {
        told(&diagnosis, "weight_scaled", "head 1 of k_proj in layer 0 is 0.9000");
    }
    let o_proj = Weight::Layer(1, LayerWeight::OProj);
    for diagnosis in diagnoses(&setting(true), |weights| {
        map(weights, o_proj, |mut w| {
            w.row_mut(17).mapv_inplace(|w| 1.01 * w);
            w
        });
    }) {
        told(&diagnosis, "weight_scaled", "row 17 of o_proj in layer 1 is 1.010");
    }
}

#[test]
fn a_zero_expert_is_named() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, expert(1, 3, Projection::Down), |w| 0.0 * w);
    }) {
        told(&diagnosis, "weight_zero", "down_proj of expert 3 in layer 1 is 0");
    }
}

#[test]
fn permuted_heads_and_rows_are_named() {
    let permute = |of, order: fn(usize) -> usize| {
        move |weights: &mut MemoryWeights| {
            map(weights, of, |w| w.select(Axis(0), &(0..w.nrows()).map(order).collect::<Vec<usize>>()));
        }
    };
    let q_proj = Weight::Layer(0, LayerWeight::QProj);
    for diagnosis in diagnoses(&setting(false), permute(q_proj, |row| if row < 32 { row ^ 16 } else { row })) {
        told(&diagnosis, "rows_permuted", "heads 0 and 1 of q_proj in layer 0 are exchanged");
    }
    let o_proj = Weight::Layer(1, LayerWeight::OProj);
    for diagnosis in diagnoses(&setting(false), permute(o_proj, |row| if row / 2 == 8 { row ^ 1 } else { row })) {
        told(&diagnosis, "rows_permuted", "rows 16 and 17 of o_proj in layer 1 are exchanged");
    }
}

#[test]
fn tensors_in_the_wrong_place_are_named() {
    let [k_proj, other] = [0, 1].map(|layer| Weight::Layer(layer, LayerWeight::KProj));
    for diagnosis in diagnoses(&setting(false), |weights| {
        let of_other = weights.get(other).expect("it is there").dense();
        map(weights, k_proj, |_| of_other);
    }) {
        told(&diagnosis, "weight_of_another_layer", "k_proj in layer 0 is that of layer 1");
    }
    let o_proj = Weight::Layer(0, LayerWeight::OProj);
    for diagnosis in diagnoses(&setting(false), |weights| map(weights, o_proj, Array2::reversed_axes)) {
        told(&diagnosis, "weight_transposed", "o_proj in layer 0 is transposed");
    }
}

/// Behind values that nothing explains, too.
#[test]
fn a_change_in_another_operator_is_found_behind_what_nothing_explains() {
    let setting = setting(false);
    let live = setting.changed(|_, weights| {
        map(weights, Weight::LmHead, |mut w| {
            w.slice_mut(s![-8.., ..]).fill(0.0);
            w
        });
    });
    let at = Site::Layer(0, LayerSite::OProj);
    let value = |site, value: Array2<f64>| if site == at { value.mapv(|x| x * x) } else { value };
    let shows = |site| site != Site::Layer(0, LayerSite::Attention);
    let diagnosis = setting.diagnose(&Seen { live: &live, shows, value });
    let names: Vec<&str> = diagnosis.explained.iter().map(|one| one.name).collect();
    assert_eq!(names, ["weight_zero"], "{diagnosis:#?}");
    assert_eq!(diagnosis.unexplained.map(|fault| fault.site), Some(at));
}

/// Values that no change of weights or parameters makes: nothing is named.
#[test]
fn what_nothing_explains_is_not_explained() {
    let setting = setting(false);
    let live = setting.with(&[]);
    for (site, off) in [(LayerSite::OProj, 1e-2), (LayerSite::ExpertOutput, 1e-3), (LayerSite::InputNorm, 1e-3)] {
        let at = Site::Layer(1, site);
        // A scatter without a direction, by the golden ratio.
        let value = |site, mut value: Array2<f64>| {
            if site == at {
                value
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, x)| *x *= 1.0 + off * ((i as f64 * 0.618_034).fract() - 0.5));
            }
            value
        };
        let shows = |site| site != Site::Layer(1, LayerSite::Attention);
        let diagnosis = setting.diagnose(&Seen { live: &live, shows, value });
        assert!(diagnosis.explained.is_empty(), "{diagnosis:#?}");
        assert_eq!(diagnosis.unexplained.map(|fault| fault.site), Some(at));
    }
}

/// A mean square that is divided by d − 1 is as if the weight were multiplied by √((d − 1)/d), but has no number to fit.
#[test]
fn an_unbiased_mean_square_is_no_factor() {
    let setting = setting(false);
    let weight = Weight::Layer(1, LayerWeight::PostAttentionNorm);
    let of =
        |factor: fn(f64) -> f64| diagnoses(&setting, |weights| map(weights, weight, |w| &w * factor(w.len() as f64)));
    for diagnosis in of(|d| ((d - 1.0) / d).sqrt()) {
        assert!(diagnosis.explained.is_empty(), "{diagnosis:#?}");
        let told = "the mean square has all 96 channels, divided by 95";
        assert!(diagnosis.solved.iter().any(|said| said.contains(told)), "{diagnosis:#?}");
    }
    for diagnosis in of(|d| ((d - 1.5) / d).sqrt()) {
        told(&diagnosis, "weight_scaled", "post_attention_layernorm in layer 1");
    }
}

/// Rounded to the type that the checkpoint has, in which alone the values are the candidate's; of one norm, not of all.
#[test]
fn a_norm_without_its_one_is_named_alone() {
    let setting = Setting::of("m3-sharded-bf16", RoundingContract::EAGER_BF16);
    let live = setting.changed(|_, weights| map(weights, Weight::Layer(2, LayerWeight::QNorm), |w| w - 1.0));
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: modules, value: |_, value| value });
    let way = "q_norm in layer 2 multiplies by w instead of 1 + w";
    told(&diagnosis, "norm_weight_off_by_one", way);
}
