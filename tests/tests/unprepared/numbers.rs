//! Lists in which nobody says what is counted.

use fixtures::Dtype;
use reference::Storage;

use super::{Named, Values, dumped_as, holds, judged_of, model, of_names, try_judged};

const OF_LAYERS: [&str; 4] =
    ["model.layers.0", "model.layers.0.self_attn", "model.layers.1", "model.layers.1.self_attn"];

/// A tuple for each layer, of its output and attention's.
#[test]
fn a_tuple_of_each_layer_is_told_by_values() {
    let written = |values: Named| {
        let numbered =
            OF_LAYERS.iter().enumerate().map(|(i, name)| (format!("{}.{}", i / 2, i % 2), values[*name].clone()));
        numbered.collect()
    };
    holds(&OF_LAYERS, written, "model.layers.1.self_attn", 4);
}

/// What a dictionary has of `hidden_states`, by their numbers there: the last is what the norm makes.
#[test]
fn some_of_a_list_may_be_those_of_hidden_states() {
    let names = ["model.embed_tokens", "model.norm"];
    let written = |values: Named| {
        names.iter().zip(["0", "2"]).map(|(name, own)| (own.to_owned(), values[*name].clone())).collect()
    };
    holds(&names, written, "model.norm", 1);
}

#[test]
fn a_list_may_be_of_routers() {
    let names = ["model.layers.0.mlp.gate", "model.layers.1.mlp.gate"];
    let written = |values: Named| (0..2).map(|layer| (layer.to_string(), values[names[layer]].clone())).collect();
    holds(&names, written, "model.layers.1.mlp.gate", 2);
}

/// Of `generate` people keep the last of each step's `hidden_states`, under that name: the last token was never read.
#[test]
fn hidden_states_alone_are_told_by_values() {
    for read in [40, 39] {
        let written = |values: Named| Named::from([("hidden_states".to_owned(), values["model.norm"].tokens(0..read))]);
        holds(&["model.norm"], written, "model.norm", 1);
    }
}

const CHOICES: [&str; 2] = ["model.layers.0.mlp.gate.2", "model.layers.1.mlp.gate.2"];

/// \[T, L, k\], \[1, T, L, k\] or \[L, T, k\], of choices to which some number is added, from a token on.
fn chosen(name: &str, before: Option<&[usize]>, add: (f64, usize)) -> Named {
    let values = of_names(&CHOICES);
    let experts = 1.0 + CHOICES.iter().flat_map(|name| &values[*name].of).fold(0.0_f64, |most, id| most.max(*id));
    let each = CHOICES.map(|name| &values[name]);
    let (k, all) = (*each[0].shape.last().expect("it has an axis"), each[0].of.len());
    let tokens = all / k;
    let row = |token: usize, layer: usize| {
        let ids = each[layer].of[token * k..][..k].iter();
        ids.map(|id| if token < add.1 { *id } else { (id + add.0) % experts }).collect::<Vec<f64>>()
    };
    let stacked = match before {
        Some(before) => Values::new(
            &[before, &[tokens, 2, k]].concat(),
            (0..tokens).flat_map(|token| [row(token, 0), row(token, 1)].concat()).collect(),
        ),
        None => Values::new(
            &[2, tokens, k],
            (0..2 * tokens).flat_map(|place| row(place % tokens, place / tokens)).collect(),
        ),
    };
    Named::from([(name.to_owned(), stacked)])
}

/// In f32, which choices do not say: whoever shows nothing else says it.
#[test]
fn the_experts_that_were_chosen_may_be_all_that_is_shown() {
    let model = model();
    let judged = |values: &Named| {
        let requests = dumped_as(values, (Storage::F32, Dtype::F32), Some("f32"), &model).expect("it is read");
        judged_of(&requests, &model).expect("it can be put next to the reference")
    };
    for (name, before) in [("routed_experts", Some(&[][..])), ("topk_ids", Some(&[1])), ("topk_ids", None)] {
        assert_eq!(judged(&chosen(name, before, (0.0, 0))), (0, 2), "{name} {before:?}");
        assert_eq!(judged(&chosen(name, before, (1.0, 20))).0, 2, "{name} {before:?}");
    }
    let refused = try_judged(&chosen("topk_ids", None, (0.0, 0))).expect_err("nobody says its precision");
    assert!(refused.contains("has a type that would tell its precision"), "{refused}");
}
