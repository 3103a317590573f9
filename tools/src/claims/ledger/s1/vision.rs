//! S1 CH2.3.7, CH4: the vision tower, the projector, and how images become tokens.

use reference::weights::{Part as Of, Stage, VisionLayerWeight as V, VisionWeight, Weight};

use super::premises::s1;
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::parameters::Part;
use crate::claims::unit::{B, M};

/// `image_size` of the configuration.
const LARGEST: usize = 2016;
/// Pixels to a side of an image of 576 tokens, one of `image_grid_pinpoints`.
const SIDE: usize = 672;

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    [tower(m), projector(m), places(m)].concat()
}

fn tower(m: &Hyperparameters) -> Vec<Claim> {
    // Of a layer, without biases.
    let weights = |chosen: &[V]| {
        m.count(|weight| {
            matches!(weight, Weight::Vision(VisionWeight::Layer(0, module, Of::Weight)) if chosen.contains(&module))
        }) as f64
    };
    let [attention, network] = [weights(&[V::Q, V::K, V::V, V::Out]), weights(&[V::Fc1, V::Fc2])];
    let layer = attention + network;
    let layers = m.config.vision.as_ref().map_or(0, |vision| vision.num_hidden_layers) as f64;
    let tower = m.part(Part::VisionTower) as f64;
    vec![
        s1("E1-13", "CH2.3.7", "a ViT layer: attention 6.55M, MLP 13.11M, 19.66M together; 32 layers 0.63B")
            .rounded("6.55", M, attention)
            .rounded("13.11", M, network)
            .rounded("19.66", M, layer)
            .rounded("0.63", B, layers * layer),
        s1("E1-14", "CH2.3.7", "with patch embedding, Pre-LN and 3D RoPE: 0.65B").rounded("0.65", B, tower).note(format!(
            "biases, norms and patch embedding add {:.1} M to the layers' matrices, not 20 M; the rotation has no weights",
            (tower - layers * layer) / 1e6
        )),
    ]
}

fn projector(m: &Hyperparameters) -> Vec<Claim> {
    let stage = |stages: [Stage; 2]| {
        m.count(|weight| {
            matches!(weight, Weight::Vision(VisionWeight::Projector(stage, Of::Weight)) if stages.contains(&stage))
        }) as f64
    };
    let (projector, all) = (m.part(Part::Projector) as f64, m.parts(&[Part::VisionTower, Part::Projector]) as f64);
    vec![
        s1("E1-15", "CH2.3.7", "stage 1: 1280 × 6144 + 6144 × 6144 ≈ 45.6M").rounded(
            "45.6",
            M,
            stage([Stage::Linear1, Stage::Linear2]),
        ),
        s1("E1-16", "CH2.3.7", "stage 2: 4 × 6144 × 6144 + 6144 × 6144 ≈ 188.7M").rounded(
            "188.7",
            M,
            stage([Stage::Merge1, Stage::Merge2]),
        ),
        s1("E1-17", "CH2.3.7", "projector: 0.23B").rounded("0.23", B, projector),
        s1("E1-18", "CH2.3.7", "vision: 0.88B")
            .rounded("0.88", B, all)
            .note("follows from the tower's 0.65 B, which is wrong"),
    ]
}

fn places(m: &Hyperparameters) -> Vec<Claim> {
    let Some(vision) = &m.config.vision else { return Vec::new() };
    let (axis, rotated) = (vision.rotary_dim() / vision.axes, vision.rotary_dim());
    let patches = |pixels: usize| (pixels / vision.patch.side).pow(2);
    let tokens = |pixels| patches(pixels) / vision.merged();
    vec![
        s1("E1-70", "CH4.3", "3D RoPE: 26 channels an axis, 13 pairs; of 80, 78 rotate and 2 pass through")
            .count("26", axis)
            .count("13", axis / 2)
            .count("78", rotated)
            .count("2", vision.head_dim() - rotated),
        s1("E1-71", "CH4.4", "(2016 / 14)² = 20,736 patches; merged 5184")
            .count("20,736", patches(LARGEST))
            .count("5184", tokens(LARGEST)),
        s1("E1-72", "CH4.4", "4 × 6144 = 24576").count("24576", vision.merged() * m.config.hidden_size),
        s1("E1-73", "CH2.2, 4.1", "576 tokens an image")
            .count("576", tokens(SIDE))
            .note(format!("of an image of {SIDE} × {SIDE} pixels; larger ones have more")),
    ]
}
