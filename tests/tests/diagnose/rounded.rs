//! Weights that were rounded to fewer bits than the checkpoint has are told, with what they were rounded to.

use fixtures::quantize::quantize;
use ndarray::Array2;
use reference::config::Quantization;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{Real, Storage};

use super::altered::{diagnoses, expert, map, setting, told};

/// 8-bit integers, a scale a row.
#[test]
fn rounded_tensors_are_named() {
    let v_proj = Weight::Layer(1, LayerWeight::VProj);
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, v_proj, |mut w| {
            for mut row in w.rows_mut() {
                let scale = in_f32(largest(&row) / 127.0);
                row.mapv_inplace(|w| scale * in_f32(w / scale).round_ties_even());
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

/// What f32 computes.
fn in_f32(x: f64) -> f64 {
    Storage::F32.nearest(x)
}

/// The largest size.
fn largest<'w>(of: impl IntoIterator<Item = &'w f64>) -> f64 {
    of.into_iter().fold(0.0, |most, w| most.max(w.abs()))
}

/// E4M3 by one scale, times another.
fn e4m3(w: Array2<f64>, by: f64, times: f64) -> Array2<f64> {
    let [by, times] = [by, times].map(|scale| in_f32(scale / Storage::E4m3.largest()));
    w.mapv_into(|w| times * Storage::E4m3.nearest(in_f32(w / by)))
}

/// What is done to a group of input channels.
type Round = fn(&mut [f64]);

/// What is done to a tensor.
type Rounded<'a> = &'a dyn Fn(Array2<f64>) -> Array2<f64>;

/// Of either kind, by groups of input channels.
#[test]
fn to_four_bits() {
    let v_proj = Weight::Layer(1, LayerWeight::VProj);
    let symmetric = |group: &mut [f64]| {
        let scale = in_f32(largest(&*group) / 7.0);
        for w in group {
            *w = scale * in_f32(*w / scale).round_ties_even();
        }
    };
    let from_zero = |group: &mut [f64]| {
        let (least, most) = group.iter().fold((0.0, 0.0), |(a, b), w| (f64::min(a, *w), f64::max(b, *w)));
        let scale = in_f32(in_f32(most - least) / 15.0);
        let zero = in_f32(-least / scale).round_ties_even();
        let round = |w: f64| (in_f32(w / scale).round_ties_even() + zero).clamp(0.0, 15.0) - zero;
        for w in group {
            *w = scale * round(*w);
        }
    };
    for (round, said) in [(symmetric as Round, "up to 7"), (from_zero, "from 0 to 15")] {
        let [all, _] = diagnoses(&setting(false), |weights| {
            map(weights, v_proj, |mut w| {
                w.as_slice_mut().expect("a dense matrix").chunks_mut(16).for_each(round);
                w
            });
        });
        let way = format!("v_proj in layer 1 is rounded to 4-bit integers {said} by groups of 16");
        told(&all, "weight_rounded", &way);
    }
}

#[test]
fn by_one_scale_of_all_experts() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        let all = (0..8).flat_map(|e| [Projection::Gate, Projection::Up].map(|projection| expert(0, e, projection)));
        let all: Vec<Weight> = all.collect();
        let of = |weight: &Weight| largest(&weights.get(*weight).expect("it is there").dense());
        let most = all.iter().map(of).fold(0.0, f64::max);
        for weight in all {
            map(weights, weight, |w| e4m3(w, most, most));
        }
    }) {
        let way = "gate_proj and up_proj of every expert in layer 0 are rounded to E4M3 with one scale for all experts";
        told(&diagnosis, "weight_rounded", way);
    }
}

/// Fused with others, and multiplied by one scale of theirs.
#[test]
fn by_the_scale_of_another() {
    let [k_proj, v_proj] = [LayerWeight::KProj, LayerWeight::VProj].map(|weight| Weight::Layer(1, weight));
    for diagnosis in diagnoses(&setting(false), |weights| {
        let times = largest(&weights.get(v_proj).expect("it is there").dense());
        map(weights, k_proj, |w| {
            let by = largest(&w);
            e4m3(w, by, times)
        });
    }) {
        let way = "k_proj in layer 1 is rounded to E4M3 and multiplied by the scale of v_proj";
        told(&diagnosis, "weight_rounded", way);
    }
}

/// In all layers by the same.
#[test]
fn and_multiplied_by_a_factor() {
    let [all, _] = diagnoses(&setting(false), |weights| {
        for layer in 0..2 {
            map(weights, Weight::Layer(layer, LayerWeight::VProj), |w| {
                let most = largest(&w);
                e4m3(w, most, 1.4 * most)
            });
        }
    });
    assert!(all.unexplained.is_none(), "{all:#?}");
    let ways: Vec<&str> = all.explained.iter().map(|one| &one.way[..]).collect();
    let [rounded, scaled] = ways[..] else { panic!("{ways:?}") };
    // The tensor is no larger than a block.
    let said = "v_proj is rounded to E4M3 with one scale";
    let equal = || all.explained[0].equivalent.iter().any(|other| other.contains(said));
    assert!(rounded == said || equal(), "{all:#?}");
    assert!(scaled.starts_with("v_proj is 1.4000"), "{scaled}");
}

/// Each expert's output by its own scale, and multiplied by the next one's.
#[test]
fn by_the_scale_of_the_next_expert() {
    let [all, _] = diagnoses(&setting(false), |weights| {
        let down = |e: usize| expert(0, e, Projection::Down);
        let scales: Vec<f64> = (0..8).map(|e| largest(&weights.get(down(e)).expect("it is there").dense())).collect();
        for e in 0..8 {
            map(weights, down(e), |w| e4m3(w, scales[e], scales[(e + 1) % 8]));
        }
    });
    let way = "down_proj of every expert in layer 0 is rounded to E4M3 with a scale for each expert, and multiplied by that of the \
               expert 1 further";
    told(&all, "weight_rounded", way);
}

/// The norms' weights alone, as where all that is no matrix is stored in eight bits: it is said once.
#[test]
fn norms_without_a_scale() {
    let [all, _] = diagnoses(&setting(false), |weights| {
        let of_layer = [LayerWeight::InputNorm, LayerWeight::PostAttentionNorm, LayerWeight::QNorm, LayerWeight::KNorm];
        let of_layers = (0..2).flat_map(|layer| of_layer.map(|of| Weight::Layer(layer, of)));
        for norm in of_layers.chain([Weight::FinalNorm]) {
            map(weights, norm, |w| w.mapv(|w| Storage::E4m3.nearest(w)));
        }
    });
    told(&all, "weight_rounded", "every norm's weight is rounded to E4M3 without a scale");
}

/// Two bits of mantissa, to nearest even; below the least normal number, steps of 2⁻¹⁶.
fn e5m2(w: f64) -> f64 {
    const LEAST: f64 = 6.103_515_625e-5;
    if w.abs() < LEAST {
        return (w * 65_536.0).round_ties_even() / 65_536.0;
    }
    let bits = w.to_bits();
    let even = bits >> 50 & 1;
    f64::from_bits((bits + (1 << 49) - 1 + even) >> 50 << 50)
}

#[test]
fn to_two_bits_of_mantissa() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, Weight::Layer(1, LayerWeight::VProj), |w| w.mapv(e5m2));
    }) {
        told(&diagnosis, "weight_rounded", "v_proj in layer 1 is rounded to E5M2 without a scale");
    }
}

/// E2M1 by a scale.
fn to_e2m1(group: &mut [f64], scale: f64) {
    let all = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let near =
        |x: f64| all.into_iter().min_by(|a, b| (a - x).abs().total_cmp(&(b - x).abs())).expect("there are eight");
    for w in group {
        *w = in_f32((scale * near(w.abs() / scale)).copysign(*w));
    }
}

/// What serving engines read: MXFP4, NVFP4, integers by columns, and E4M3 by small blocks.
#[test]
fn by_groups_by_columns_and_by_small_blocks() {
    let mxfp4 = |mut w: Array2<f64>| {
        let groups = w.as_slice_mut().expect("a dense matrix").chunks_mut(32);
        groups.for_each(|group| to_e2m1(group, (largest(&*group).log2().floor() - 2.0).exp2()));
        w
    };
    let of_eight = |mut w: Array2<f64>| {
        let groups = w.as_slice_mut().expect("a dense matrix").chunks_mut(8);
        groups.for_each(|group| to_e2m1(group, (largest(&*group) / 6.0).log2().ceil().exp2()));
        w
    };
    let nvfp4 = |mut w: Array2<f64>| {
        let whole = in_f32(largest(&w) / (448.0 * 6.0));
        for group in w.as_slice_mut().expect("a dense matrix").chunks_mut(16) {
            let scale = Storage::E4m3.nearest(in_f32(in_f32(largest(&*group) / 6.0) / whole));
            to_e2m1(group, in_f32(scale * whole));
        }
        w
    };
    let by_columns = |mut w: Array2<f64>| {
        for mut column in w.columns_mut() {
            let scale = in_f32(largest(&column) / 127.0);
            column.mapv_inplace(|w| in_f32(scale * in_f32(w / scale).round_ties_even()));
        }
        w
    };
    let by_blocks = |mut w: Array2<f64>| {
        for mut block in w.exact_chunks_mut((32, 32)) {
            let scale = in_f32(largest(&block) / 448.0);
            block.mapv_inplace(|w| in_f32(Storage::E4m3.nearest(in_f32(w / scale)) * scale));
        }
        w
    };
    let all: [(Rounded<'_>, &str); 5] = [
        (&mxfp4, "E2M1 by groups of 32 with powers of two"),
        (&of_eight, "E2M1 by groups of 8 with powers of two"),
        (&nvfp4, "E2M1 by groups of 16 with scales in E4M3"),
        (&by_columns, "8-bit integers by columns"),
        (&by_blocks, "E4M3 by blocks of 32 × 32"),
    ];
    for (round, grid) in all {
        let v_proj = Weight::Layer(1, LayerWeight::VProj);
        let [diagnosis, _] = diagnoses(&setting(false), |weights| map(weights, v_proj, round));
        told(&diagnosis, "weight_rounded", &format!("v_proj in layer 1 is rounded to {grid}"));
    }
}
