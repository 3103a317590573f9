//! Weights that were rounded to fewer bits than the checkpoint has are told, with what they were rounded to.

use fixtures::quantize::quantize;
use ndarray::Array2;
use reference::config::Quantization;
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{Real, Storage};

use super::altered::{diagnoses, expert, map, setting, told};

/// 8-bit integers, a scale a row.
#[test]
fn rounded_tensors_are_named() {
    let v_proj = Weight::Layer(1, LayerWeight::VProj);
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, v_proj, |mut w| {
            for mut row in w.rows_mut() {
                let scale = row.iter().fold(0.0, |most: f64, w| most.max(w.abs())) / 127.0;
                row.mapv_inplace(|w| scale * (w / scale).round());
            }
            w
        });
    }) {
        told(&diagnosis, "weight_rounded", "v_proj in layer 1 is rounded to 8-bit integers by rows");
    }
}

#[test]
fn to_floats_of_16_bits() {
    let down = expert(1, 3, Projection::Down);
    for (storage, said) in [(Storage::Bf16, "bf16"), (Storage::F16, "f16")] {
        for diagnosis in diagnoses(&setting(false), |weights| map(weights, down, |w| w.mapv(|w| storage.nearest(w)))) {
            told(&diagnosis, "weight_rounded", &format!("down_proj of expert 3 in layer 1 is rounded to {said}"));
        }
    }
}

/// In one layer, every expert's.
#[test]
fn to_blocks_with_powers_of_two() {
    let how = Quantization::released("mxfp8").expect("it is known");
    let rounded =
        |w: Array2<f64>| -> Array2<f64> { quantize(w.mapv(f32::of).view(), &how).matrix(w.dim(), &how).dense() };
    for diagnosis in diagnoses(&setting(false), |weights| {
        for e in 0..8 {
            map(weights, expert(0, e, Projection::Gate), rounded);
            map(weights, expert(0, e, Projection::Up), rounded);
        }
    }) {
        let way = "gate_proj and up_proj of every expert in layer 0 are rounded to E4M3 by blocks of 1 × 32";
        told(&diagnosis, "weight_rounded", way);
    }
}
