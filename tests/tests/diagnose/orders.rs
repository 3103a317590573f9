//! Parts of weights that have each other's values, whatever of the layer is shown; norms with others' weights, or none; rows that
//! were never loaded, and what an adapter left in an expert.

use ndarray::{Array2, Axis, s};
use reference::weights::{LayerWeight, Projection, Weight, Weights};

use super::altered::{diagnoses, expert, map, setting, told};

/// Channels of a head.
const D: usize = 16;

/// Numbers that have nothing to do with one another, between −1 and 1.
fn drawn(i: usize, j: usize) -> f64 {
    let k = 1 + 97 * i + j;
    ((k * k * k % 99_991) as f64).sin()
}

/// Query heads are numbered key head by key head, and were stored by turns.
#[test]
fn query_heads_by_turns() {
    let diagnoses = diagnoses(&setting(false), |weights| {
        map(weights, Weight::Layer(1, LayerWeight::QProj), |w| {
            let rows: Vec<usize> = [0, 3, 1, 4, 2, 5].into_iter().flat_map(|head| head * D..(head + 1) * D).collect();
            w.select(Axis(0), &rows)
        });
    });
    for diagnosis in &diagnoses {
        told(diagnosis, "rows_permuted", "heads of q_proj in layer 1 have each other's weights: 1 has those of 3");
    }
}

/// Each of two devices has the other's part.
#[test]
fn halves_of_a_norm() {
    let diagnoses = diagnoses(&setting(false), |weights| {
        map(weights, Weight::Layer(0, LayerWeight::QNorm), |w| {
            ndarray::concatenate![Axis(1), w.slice(s![.., 48..]), w.slice(s![.., ..48])]
        });
    });
    for diagnosis in &diagnoses {
        told(diagnosis, "columns_permuted", "48-column parts 0 and 1 of q_norm in layer 0 are exchanged");
    }
}

#[test]
fn a_norm_whose_weight_was_not_loaded() {
    let diagnoses = diagnoses(&setting(true), |weights| {
        map(weights, Weight::Layer(1, LayerWeight::QNorm), |w| Array2::ones(w.dim()));
    });
    for diagnosis in &diagnoses {
        told(diagnosis, "norm_weight_not_loaded", "q_norm in layer 1 multiplies by 1 everywhere");
    }
}

#[test]
fn the_last_norm_has_the_weight_of_a_layers() {
    let diagnoses = diagnoses(&setting(false), |weights| {
        let of_layer = weights.get(Weight::Layer(1, LayerWeight::InputNorm)).expect("it is there").dense::<f64>();
        map(weights, Weight::FinalNorm, |_| of_layer);
    });
    for diagnosis in &diagnoses {
        told(diagnosis, "weight_of_another_name", "norm has the values of input_layernorm in layer 1");
    }
}

/// What stands in memory where nothing was loaded has nothing to do with the weight.
#[test]
fn rows_that_were_not_loaded() {
    let [all, _] = diagnoses(&setting(false), |weights| {
        map(weights, Weight::Layer(0, LayerWeight::KProj), |mut w| {
            let other = |(i, j): (usize, usize)| 0.1 * drawn(i, j);
            w.slice_mut(s![8..16, ..]).assign(&Array2::from_shape_fn((8, 96), other));
            w
        });
    });
    let sentence = "output channels 8 to 15 of 32 have nothing to do with the right ones";
    assert!(all.solved.iter().any(|own| own.starts_with(sentence)), "{all:#?}");
}

#[test]
fn an_adapter_in_one_expert() {
    let [_, modules] = diagnoses(&setting(false), |weights| {
        map(weights, expert(1, 3, Projection::Down), |w| {
            let of = |dim| Array2::from_shape_fn(dim, |(i, j)| drawn(i, j));
            let (a, b): (Array2<f64>, Array2<f64>) = (of((96, 2)), of((2, 32)));
            w + 0.02 * a.dot(&b)
        });
    });
    let sentence = "what is added to the output of expert 3 lies in 2 of";
    assert!(modules.solved.iter().any(|own| own.starts_with(sentence)), "{modules:#?}");
}

/// A port that keeps the correction bias as a number without a sign.
#[test]
fn a_correction_bias_without_what_is_negative() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, Weight::Layer(1, LayerWeight::CorrectionBias), |w| w.mapv(|w| w.max(0.0)));
    }) {
        told(&diagnosis, "weight_signs", "0 stands for the negative values of the correction bias in layer 1");
    }
}
