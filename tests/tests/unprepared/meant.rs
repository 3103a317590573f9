//! Names that mean another value than the module's of that name, as values tell.

use fixtures::names::reading::Instead;

use super::caches::{HEAD, ROTATED, heads_first};
use super::{Named, Values, dumped, faults, holds, judged, model, of_case, of_names, off};

/// The same under other names.
fn renamed(values: Named, new: impl Fn(&str) -> Option<String>) -> Named {
    values.into_iter().filter_map(|(name, own)| Some((new(&name)?, own))).collect()
}

/// Two values, added in f32.
fn sum(one: &Values, other: &Values) -> Values {
    #[expect(clippy::cast_possible_truncation, reason = "they are values of f32")]
    let added = |(x, y): (&f64, &f64)| f64::from(*x as f32 + *y as f32);
    Values::new(&one.shape, one.of.iter().zip(&other.of).map(added).collect())
}

/// As some engines' modules do, which return the hidden state that they were added to.
#[test]
fn modules_may_put_out_the_stream_with_what_they_add() {
    let names = [
        "model.embed_tokens",
        "model.layers.0.self_attn",
        "model.layers.0",
        "model.layers.1.self_attn",
        "model.layers.1",
        "logits",
    ];
    let written = |mut values: Named| {
        for (layer, before) in [(0, "model.embed_tokens"), (1, "model.layers.0")] {
            let attention = format!("model.layers.{layer}.self_attn");
            let residual = sum(&values[before], &values[&attention]);
            values.insert(attention, residual);
        }
        renamed(values, |name| match name {
            "model.layers.0" | "model.layers.1" => Some(format!("{name}.mlp")),
            _ => Some(name.to_owned()),
        })
    };
    for wrong in ["model.layers.0.self_attn", "model.layers.1"] {
        holds(&names, written, wrong, 6);
    }
}

/// Halves of each head by turns.
fn paired(_: usize, row: &[f64]) -> Vec<f64> {
    let of_head = |head: &[f64]| {
        let turns = (0..ROTATED).map(|i| head[i / 2 + i % 2 * (ROTATED / 2)]);
        turns.chain(head[ROTATED..].iter().copied()).collect::<Vec<f64>>()
    };
    row.chunks(HEAD).flat_map(of_head).collect()
}

/// Weights whose rows are in the order for it rotate neighbours.
#[test]
fn channels_that_rotate_together_may_be_neighbours() {
    let names = ["q_proj", "k_proj"].map(|part| [0, 1].map(|layer| format!("model.layers.{layer}.self_attn.{part}")));
    let names: Vec<&str> = ["logits"].into_iter().chain(names.iter().flatten().map(String::as_str)).collect();
    let written = |values: Named| {
        let pair = |(name, own): (String, Values)| {
            let width = *own.shape.last().expect("it has an axis");
            (name.clone(), if name == "logits" { own } else { own.rows(width, paired) })
        };
        values.into_iter().map(pair).collect()
    };
    for wrong in ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.k_proj"] {
        holds(&names, written, wrong, 7);
    }
}

/// An attention that has another order of channels than what rotates them is a fault where they are projected.
#[test]
fn neighbours_are_no_fault_only_where_attention_is_right() {
    let [q, o] = ["q_proj", "o_proj"].map(|part| format!("model.layers.0.self_attn.{part}"));
    let other = "model.layers.1.self_attn.o_proj";
    let is_read_so = |is_right: bool| {
        let mut values = of_names(&[&q, &o, other, "logits"]);
        let another = values.remove(other).expect("it is there");
        if !is_right {
            values.insert(o.clone(), another);
        }
        let own = values.get_mut(&q).expect("it is there");
        *own = own.rows(*own.shape.last().expect("it has an axis"), paired);
        let model = model();
        dumped(&values, &model).expect("it is read")[0].values.reading().instead == Some(Instead::Pairs)
    };
    assert!(is_read_so(true) && !is_read_so(false));
}

#[test]
fn a_cache_may_have_keys_before_they_are_rotated() {
    let names = ["model.layers.0.self_attn.k_norm", "model.layers.1.self_attn.k_norm", "logits"];
    let written = |values: Named| {
        let keys = |layer: usize| heads_first(&values[&format!("model.layers.{layer}.self_attn.k_norm")]);
        let cached = [0, 1].map(|layer| (format!("past_key_values.{layer}.key"), keys(layer)));
        cached.into_iter().chain([("logits".to_owned(), values["logits"].clone())]).collect()
    };
    holds(&names, written, "model.layers.1.self_attn.k_norm", 5);
}

/// By the routed scaling factor, which is 2.
#[test]
fn what_experts_add_may_be_scaled() {
    let case = "m3-gqa4-f32";
    let [norm, experts, mlp] =
        ["post_attention_layernorm", "mlp.experts", "mlp"].map(|part| format!("model.layers.2.{part}"));
    let written = |factor: f64| {
        let mut values = of_case(case, &[&norm, &experts, &mlp, "model.layers.2"]);
        values.get_mut(&experts).expect("it is there").of.iter_mut().for_each(|x| *x *= factor);
        values
    };
    for factor in [1.0, 2.0] {
        assert_eq!(faults(case, &written(factor)), 0, "times {factor}");
        assert!(faults(case, &off(written(factor), &experts)) > 0, "times {factor}, 5 % off");
    }
    assert!(faults(case, &written(4.0)) > 0, "no factor of the model");
}

const ROUTER: [&str; 5] = [
    "model.layers.1.post_attention_layernorm",
    "model.layers.1.mlp.gate",
    "model.layers.1.mlp.gate.1",
    "model.layers.1.mlp.gate.2",
    "model.layers.1.mlp",
];

#[test]
fn a_router_may_show_its_scores() {
    let written = |mut values: Named| {
        let scores = |_: usize, row: &[f64]| row.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect();
        let gate = values.get_mut("model.layers.1.mlp.gate").expect("it is there");
        *gate = gate.rows(*gate.shape.last().expect("it has an axis"), scores);
        values
    };
    holds(&ROUTER, written, "model.layers.1.mlp.gate", 5);
}

#[test]
fn a_router_may_put_out_weights_and_then_experts() {
    let written = |values: Named| {
        renamed(values, |name| match name.strip_prefix("model.layers.1.mlp.gate") {
            Some("") => None,
            Some(".1") => Some("model.layers.1.mlp.gate.0".to_owned()),
            Some(".2") => Some("model.layers.1.mlp.gate.1".to_owned()),
            _ => Some(name.to_owned()),
        })
    };
    holds(&ROUTER, written, "model.layers.1.mlp.gate.1", 4);
}

#[test]
fn routing_weights_may_have_a_column_for_each_expert() {
    let written = |mut values: Named| {
        let experts = *values["model.layers.1.mlp.gate"].shape.last().expect("it has an axis");
        let [weights, ids] = ["1", "2"].map(|part| values.remove(&format!("model.layers.1.mlp.gate.{part}")));
        let (weights, ids) = (weights.expect("it is there"), ids.expect("it is there"));
        let chosen = *ids.shape.last().expect("it has an axis");
        let dense = weights.rows(experts, |token, row| {
            let own = &ids.of[token * chosen..][..chosen];
            let weight = |expert: usize| own.iter().position(|id| *id == expert as f64).map_or(0.0, |at| row[at]);
            (0..experts).map(weight).collect()
        });
        values.insert("model.layers.1.mlp.routing_weights".to_owned(), dense);
        values
    };
    holds(&ROUTER, written, "model.layers.1.mlp.gate.1", 5);
}

/// It alone is as wide as the vocabulary.
#[test]
fn logits_may_have_any_name() {
    let names = ["model.layers.0", "model.layers.1", "logits"];
    for name in ["next_token_logits", "scores"] {
        let written =
            |values: Named| renamed(values, |own| Some(if own == "logits" { name.to_owned() } else { own.to_owned() }));
        let last = |values: Named| {
            let mut values = written(values);
            let own = values.get_mut(name).expect("it is there");
            *own = own.last();
            values
        };
        holds(&names, written, "logits", 7);
        holds(&names, last, "logits", 7);
    }
}

/// By temperature and filters: what is left out is −∞.
#[test]
fn what_generation_makes_of_logits_is_not_compared() {
    for name in ["scores", "next_token_scores"] {
        let mut values = of_names(&["model.layers.0", "model.layers.1", "logits"]);
        let filtered =
            |_: usize, row: &[f64]| row.iter().map(|z| if *z < 0.0 { f64::NEG_INFINITY } else { z / 0.7 }).collect();
        let logits = values.remove("logits").expect("it is there");
        values.insert(name.to_owned(), logits.rows(320, filtered));
        assert_eq!(judged(&values).0, 0, "{name}");
    }
}

/// A tensor for each, numbered.
#[test]
fn tokens_may_be_apart() {
    let names = ["model.embed_tokens", "model.layers.0.mlp", "model.layers.0", "model.layers.1", "logits"];
    let written = |values: Named| {
        let of_token = |token: usize| {
            let named = |(name, own): (&String, &Values)| {
                let one = own.tokens(token..token + 1);
                (format!("tok{token:02}.{name}"), Values::new(&one.shape[1..], one.of))
            };
            values.iter().map(named).collect::<Vec<(String, Values)>>()
        };
        (0..40).flat_map(of_token).collect()
    };
    holds(&names, written, "model.layers.0.mlp", 200);
}
