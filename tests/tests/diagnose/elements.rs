//! One element of a weight that is another, or one value.

use reference::weights::{LayerWeight, Projection, Weight};

use super::altered::{diagnoses, expert, map, setting, told};

#[test]
fn of_a_projection_behind_what_is_not_shown() {
    for (bf16, times) in [(false, -1.0), (true, -4.0)] {
        for diagnosis in diagnoses(&setting(bf16), |weights| {
            map(weights, Weight::Layer(1, LayerWeight::OProj), |mut w| {
                w[[17, 40]] *= times;
                w
            });
        }) {
            let way = format!("element [17, 40] of o_proj in layer 1 is {times}");
            told(&diagnosis, "weight_scaled", &way);
        }
    }
}

#[test]
fn of_an_expert() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, expert(0, 3, Projection::Down), |mut w| {
            w[[9, 21]] *= 256.0;
            w
        });
    }) {
        told(&diagnosis, "weight_scaled", "element [9, 21] of down_proj of expert 3 in layer 0 is 256");
    }
}

#[test]
fn of_a_token_s_embedding() {
    let setting = setting(false);
    let token = setting.case.tokens[7] as usize;
    for diagnosis in diagnoses(&setting, |weights| {
        map(weights, Weight::Embedding, |mut w| {
            w[[token, 5]] *= -1.0;
            w
        });
    }) {
        told(&diagnosis, "weight_scaled", &format!("element [{token}, 5] of embed_tokens is -1"));
    }
}
