//! Layers that names count from 1.

use super::{Named, holds};

const OF_LAYERS: [&str; 6] = [
    "model.layers.0",
    "model.layers.0.self_attn",
    "model.layers.0.mlp",
    "model.layers.1",
    "model.layers.1.self_attn",
    "model.layers.1.mlp",
];

/// The same values by names that are made of a layer's number, from 1 on, and what is behind it.
fn renamed(values: &Named, name: impl Fn(usize, &str) -> String) -> Named {
    let of = |path: &String| {
        let (layer, part) = path.strip_prefix("model.layers.")?.split_at(1);
        Some(name(layer.parse::<usize>().ok()? + 1, part.trim_start_matches('.')))
    };
    values.iter().filter_map(|(path, own)| Some((of(path)?, own.clone()))).collect()
}

#[test]
fn modules_blocks_and_parts_from_one_on() {
    let of = |part: &str, whole: &str| if part.is_empty() { whole.to_owned() } else { part.to_owned() };
    let modules = |values: Named| {
        renamed(&values, |layer, part| format!("model.layers.{layer}.{part}").trim_end_matches('.').to_owned())
    };
    let blocks = |values: Named| {
        renamed(&values, |layer, part| format!("block{layer}.{}", of(part, "out").replace("self_", "")))
    };
    let parts =
        |values: Named| renamed(&values, |layer, part| format!("{}_{layer}", of(part, "layer").replace("self_", "")));
    holds(&OF_LAYERS, modules, "model.layers.1.self_attn", 6);
    holds(&OF_LAYERS, blocks, "model.layers.1.self_attn", 6);
    holds(&OF_LAYERS, parts, "model.layers.1.self_attn", 6);
}

/// Beside a list of states, which has one more than there are layers, from what goes into the first on.
#[test]
fn parts_beside_a_list_of_states() {
    let names = [&OF_LAYERS[..], &["model.embed_tokens"]].concat();
    let written = |mut values: Named| {
        let first = values.remove("model.embed_tokens").expect("it is there");
        let mut named = renamed(&values, |layer, part| match part {
            "" => format!("layer_{layer}"),
            part => format!("{}_{layer}", part.replace("self_", "")),
        });
        named.insert("layer_0".to_owned(), first);
        named
    };
    holds(&names, written, "model.layers.1.self_attn", 6);
}
