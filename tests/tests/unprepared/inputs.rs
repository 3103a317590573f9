//! What goes into modules, where names do not say so.

use super::{Named, holds};

/// A module, what goes into it, and what comes out.
const MODULES: [[&str; 3]; 6] = [
    ["model.layers.0.self_attn", "model.layers.0.input_layernorm", "model.layers.0.self_attn"],
    ["model.layers.0.self_attn.q_norm", "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_norm"],
    ["model.layers.0.mlp", "model.layers.0.post_attention_layernorm", "model.layers.0.mlp"],
    ["model.layers.1", "model.layers.0", "model.layers.1"],
    ["model.layers.1.mlp", "model.layers.1.post_attention_layernorm", "model.layers.1.mlp"],
    ["lm_head", "model.norm", "lm_head"],
];

fn values() -> Vec<&'static str> {
    MODULES.into_iter().flat_map(|[_, from, to]| [from, to]).collect()
}

fn written(inside: fn(&str) -> String, out: Option<fn(&str) -> String>) -> impl Fn(Named) -> Named {
    move |values| {
        let both = MODULES
            .into_iter()
            .flat_map(|[module, from, to]| [Some((inside(module), from)), out.map(|out| (out(module), to))]);
        both.flatten().map(|(name, of)| (name, values[of].clone())).collect()
    }
}

/// A tuple of both, or of the arguments and what comes out, under each name.
#[test]
fn pairs_are_what_goes_in_and_what_comes_out() {
    for [inside, out] in [
        [|module: &str| format!("{module}.0"), |module: &str| format!("{module}.1")],
        [|module: &str| format!("{module}.0.0"), |module: &str| format!("{module}.1")],
        [|module: &str| format!("{module}.input"), |module: &str| format!("{module}.output")],
    ] {
        holds(&values(), written(inside, Some(out)), "model.layers.1.mlp", 12);
        holds(&values(), written(inside, Some(out)), "model.layers.0.self_attn.q_proj", 12);
    }
}

#[test]
fn plain_names_may_be_those_of_what_goes_in() {
    holds(&values(), written(str::to_owned, None), "model.layers.0.post_attention_layernorm", 6);
}
