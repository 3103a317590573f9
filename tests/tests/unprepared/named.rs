//! Names of ports of one's own and of graphs, and what people save beside what is computed.

use super::{Named, Values, computed, dumped, faults, holds, judged_of, model, of_case, of_names, off, opened};

/// A case that has three layers, and in the first one no router.
const M3: &str = "m3-gqa4-f32";

/// Some values of each of both layers, beside the ends.
const SHOWN: [&str; 15] = [
    "model.embed_tokens",
    "model.layers.0.input_layernorm",
    "model.layers.0.self_attn.q_proj",
    "model.layers.0.self_attn",
    "model.layers.0.post_attention_layernorm",
    "model.layers.0.mlp",
    "model.layers.0",
    "model.layers.1.input_layernorm",
    "model.layers.1.self_attn.q_proj",
    "model.layers.1.self_attn",
    "model.layers.1.post_attention_layernorm",
    "model.layers.1.mlp",
    "model.layers.1",
    "model.norm",
    "logits",
];

/// What is behind `model.layers.N` in a name, and the number; the whole name of what is in no layer.
fn part(name: &str) -> (Option<usize>, &str) {
    match name.strip_prefix("model.layers.").map(|rest| rest.split_at(1)) {
        Some((layer, part)) => (layer.parse().ok(), part.trim_start_matches('.')),
        None => (None, name),
    }
}

/// Under others' names.
fn renamed(values: Named, name: impl Fn(Option<usize>, &str) -> String) -> Named {
    let of = |(own, of): (String, Values)| {
        let (layer, part) = part(&own);
        (name(layer, part), of)
    };
    values.into_iter().map(of).collect()
}

/// The values of both layers in one tensor, \[L, 1, T, …\].
fn stacked(values: Named, name: impl Fn(&str) -> String) -> Named {
    let mut all = Named::new();
    for (own, of) in values {
        match part(&own) {
            (Some(_), part) => {
                let stack =
                    all.entry(name(part)).or_insert_with(|| Values::new(&[&[0], &of.shape[..]].concat(), vec![]));
                stack.shape[0] += 1;
                stack.of.extend(of.of);
            }
            (None, path) => drop(all.insert(name(path), of)),
        }
    }
    all
}

/// What each of [`SHOWN`] is called, outside of layers and in them, whose own output has no word.
const PARTS: [&str; 8] = [
    "model.embed_tokens",
    "model.norm",
    "logits",
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn",
    "post_attention_layernorm",
    "mlp",
];

/// Names of words, one for each of [`PARTS`], behind what `at` makes of a layer.
fn by_words(words: [&str; 8], at: impl Fn(Option<usize>) -> String) -> impl Fn(Option<usize>, &str) -> String {
    move |layer, part| {
        let word = PARTS.iter().position(|own| *own == part).map_or("", |i| words[i]);
        format!("{}.{word}", at(layer)).trim_end_matches('.').to_owned()
    }
}

/// As JAX prints the path of a leaf in a tree.
#[test]
fn paths_that_begin_with_a_dot() {
    let words = ["embed", "norm", "lm_head", "ln1", "attention.query_proj", "attention.output_proj", "ln2", "moe"];
    let at = |layer: Option<usize>| layer.map_or_else(String::new, |layer| format!(".layers[{layer}]"));
    holds(&SHOWN, |values| renamed(values, by_words(words, at)), "model.layers.1.mlp", 15);
}

/// As tensors of a GGUF file are called.
#[test]
fn weights_of_a_file_name_what_they_give() {
    let words = ["token_embd", "output_norm", "output", "attn_norm", "attn_q", "attn_output", "ffn_norm", "ffn_out"];
    let at = |layer: Option<usize>| layer.map_or_else(String::new, |layer| format!("blk.{layer}"));
    let name = by_words(words, at);
    let written = |values| renamed(values, |layer, part| name(layer, part).trim_start_matches('.').to_owned());
    holds(&SHOWN, written, "model.layers.1.mlp", 15);
}

/// As `jax.lax.scan` returns what each layer gives, one tensor of all; the stream between both blocks as `h`, which others call what
/// comes out of the layer.
#[test]
fn stacks_of_all_layers() {
    let scanned = |part: &str| match part {
        "self_attn" => "layers/attn_out".to_owned(),
        "mlp" => "layers/mlp_out".to_owned(),
        "" => "layers/resid".to_owned(),
        other => other.replace('.', "/"),
    };
    let names = ["model.layers.0.self_attn", "model.layers.0.mlp", "model.layers.0"];
    let names: Vec<&str> = names.into_iter().chain(["model.layers.1.self_attn", "model.layers.1.mlp"]).collect();
    let names = [&names[..], &["model.layers.1", "model.norm", "logits"]].concat();
    holds(&names, |values| stacked(values, scanned), "model.layers.1.self_attn", 8);
    let of_llama = |part: &str| match part {
        "post_attention_layernorm.in" => "h".to_owned(),
        "input_layernorm" => "x_norm".to_owned(),
        "mlp" => "moe_out".to_owned(),
        "" => "out".to_owned(),
        other => other.rsplit('.').next().unwrap_or(other).to_owned(),
    };
    let of_layer = ["input_layernorm", "post_attention_layernorm.in", "mlp"];
    let mut names: Vec<String> = (0..2).flat_map(|n| of_layer.map(|part| format!("model.layers.{n}.{part}"))).collect();
    names.extend((0..2).map(|n| format!("model.layers.{n}")));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    holds(&names, |values| stacked(values, of_llama), "model.layers.1.post_attention_layernorm.in", 8);
}

/// What is wrong in a layer moves all behind it far away; what comes before still tells names.
#[test]
fn the_first_layer_tells_names() {
    let name = |layer: Option<usize>, part: &str| match (layer, part) {
        (Some(layer), "self_attn") => format!("mixer_{layer}"),
        (Some(layer), "mlp") => format!("ffn_{layer}"),
        (Some(layer), _) => format!("stage_{layer}"),
        (None, part) => part.to_owned(),
    };
    let parts = |layer: usize| ["self_attn", "mlp", ""].map(|part| format!("model.layers.{layer}.{part}"));
    let names: Vec<String> = (0..3).flat_map(parts).map(|name| name.trim_end_matches('.').to_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut values = of_case(M3, &names);
    for name in &names[3..] {
        values.get_mut(*name).expect("it is there").of.iter_mut().for_each(|x| *x = -*x);
    }
    let model = opened(M3);
    let found = dumped(&renamed(values, name), &model).expect("its names are told");
    assert_eq!(found[0].values.sites().count(), names.len(), "all are read");
    assert!(judged_of(&found, &model).expect("they are compared").0 > 0, "two layers are wrong");
}

/// As an exported graph numbers its operations, the first of a kind without a number and the others from 1 on; a softmax there is
/// attention's.
#[test]
fn operations_of_a_graph() {
    let name = |layer: Option<usize>, part: &str| {
        let (kind, number) = match (layer, part) {
            (Some(layer), "input_layernorm") => ("mul", 2 * layer),
            (Some(layer), "post_attention_layernorm") => ("mul", 2 * layer + 1),
            (Some(layer), "self_attn.q_proj") => ("linear", 2 * layer),
            (Some(layer), "self_attn") => ("linear", 2 * layer + 1),
            (Some(layer), "self_attn.1") => ("softmax", layer),
            (Some(layer), "mlp") => ("add", 2 * layer),
            (Some(layer), _) => ("add", 2 * layer + 1),
            (None, "model.norm") => ("mul", 4),
            (None, "logits") => ("linear", 4),
            (None, _) => ("embedding", 0),
        };
        if number == 0 { kind.to_owned() } else { format!("{kind}_{number}") }
    };
    let names = [&SHOWN[..], &["model.layers.0.self_attn.1", "model.layers.1.self_attn.1"]].concat();
    holds(&names, |values| renamed(values, name), "model.layers.1.mlp", 15);
}

/// One layer by itself, of which words say nothing but what is around it: its output is not the model's, and its norm not the last.
#[test]
fn one_layer_under_words_alone() {
    let words: [(&str, &str); 5] = [
        ("model.layers.0", "input"),
        ("model.layers.1.input_layernorm", "norm"),
        ("model.layers.1.self_attn", "attn"),
        ("model.layers.1.mlp", "mlp"),
        ("model.layers.1", "output"),
    ];
    let written = |values: Named| -> Named {
        let word = |name: &str| words.iter().find(|(own, _)| *own == name).expect("it is one of them").1.to_owned();
        values.into_iter().map(|(name, of)| (word(&name), of)).collect()
    };
    holds(&words.map(|(name, _)| name), written, "model.layers.1.mlp", 5);
}

/// As JAX's modules are called, with what the head gives beside them.
#[test]
fn heads_of_projections_beside_logits() {
    let name = |layer: Option<usize>, part: &str| match (layer, part.strip_prefix("self_attn.")) {
        (Some(layer), Some(part)) => {
            let word = [("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")];
            let word = word.iter().find(|(own, _)| *own == part).expect("it is one of them").1;
            format!("decoder/layers_{layer}/self_attention/{word}")
        }
        (Some(layer), None) => format!("decoder/layers_{layer}"),
        (None, _) => format!("decoder/{part}"),
    };
    let of_layer = |layer: usize| {
        ["", ".self_attn.q_proj", ".self_attn.k_proj", ".self_attn.v_proj"]
            .map(|part| format!("model.layers.{layer}{part}"))
    };
    let names: Vec<String> = (0..2).flat_map(of_layer).chain(["logits".to_owned()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    holds(&names, |values| renamed(values, name), "logits", 9);
}

/// Rows as experts were sent them, each as often as it chose, are no tokens' in order, though some of them are.
#[test]
fn rows_by_their_experts_beside_those_of_tokens() {
    let written = |values: Named| {
        let sent = |of: &Values| {
            let (width, tokens) = (of.shape[2], of.shape[1]);
            // But for one token, they are those of all in order, twice.
            let token = |row: usize| (row + usize::from(row % tokens == 3)) % tokens;
            let rows = (0..2 * tokens).flat_map(|row| &of.of[token(row) * width..][..width]);
            Values::new(&[2 * tokens, width], rows.copied().collect())
        };
        let norms = (0..2).map(|layer| format!("model.layers.{layer}.post_attention_layernorm"));
        let beside: Vec<(String, Values)> =
            norms.enumerate().map(|(layer, name)| (format!("stage{layer}.fed.sent"), sent(&values[&name]))).collect();
        let mut named = renamed(values, |layer, part| match (layer, part) {
            (Some(layer), "") => format!("stage{layer}"),
            (Some(layer), part) => format!("stage{layer}.{}", part.replace("self_attn", "mixer").replace("mlp", "fed")),
            (None, part) => part.to_owned(),
        });
        named.retain(|name, _| !name.ends_with("layernorm"));
        named.extend(beside);
        named
    };
    let shown: Vec<&str> = SHOWN.into_iter().filter(|name| !name.ends_with("q_proj")).collect();
    holds(&shown, written, "model.layers.1.mlp", 9);
}

/// As a model's output is called whatever it is.
#[test]
fn an_output_as_wide_as_the_vocabulary_is_logits() {
    let name = |_: Option<usize>, part: &str| match part {
        "logits" => "output".to_owned(),
        _ => "model.norm".to_owned(),
    };
    holds(&["model.norm", "logits"], |values| renamed(values, name), "logits", 2);
}

/// What goes into each layer is what came out of the one before.
#[test]
fn inputs_beside_outputs() {
    let name = |layer: Option<usize>, part: &str| match (layer, part) {
        (Some(layer), "self_attn") => format!("l{layer}_mixed"),
        (Some(layer), "mlp") => format!("l{layer}_fed"),
        (Some(layer), "") => format!("l{layer}_after"),
        (Some(layer), "self_attn.q_proj") => format!("l{layer}_query"),
        (Some(layer), _) => format!("l{layer}_normed"),
        (None, _) => "embedded".to_owned(),
    };
    let written = |values: Named| {
        let before = [values["model.embed_tokens"].clone(), values["model.layers.0"].clone()];
        let mut named = renamed(values, name);
        named.extend(before.into_iter().enumerate().map(|(layer, of)| (format!("l{layer}_into"), of)));
        named
    };
    let shown: Vec<&str> = SHOWN.into_iter().filter(|name| !name.contains("norm") && *name != "logits").collect();
    holds(&shown, written, "model.layers.1.mlp", 9);
    let model = model();
    let all = dumped(&written(of_names(&shown)), &model).expect("it is read");
    assert!(all[0].values.reading().unknown.is_empty(), "{:?}", all[0].values.reading().unknown);
}

/// A model's `state_dict` beside some of what it computes.
#[test]
fn parameters_are_not_what_is_computed() {
    let beside = |mut values: Named| {
        for module in ["self_attn.q_proj", "self_attn.o_proj", "mlp.gate", "input_layernorm", "self_attn.q_norm"] {
            let rows = Values::new(&[96, 96], (0..96 * 96).map(|i| f64::from(i).sin()).collect());
            values.extend((0..2).map(|layer| (format!("model.layers.{layer}.{module}.weight"), rows.clone())));
        }
        values
    };
    holds(&["model.layers.0", "model.layers.1"], beside, "model.layers.1", 2);
    let found = dumped(&beside(of_names(&["model.layers.1"])), &model()).expect("it is read");
    let remarks = found[0].values.remarks();
    let is_said = |said: &String| said.starts_with("10 of the names are those of the model's parameters");
    assert!(remarks.iter().any(is_said), "{remarks:?}");
}

/// Under a word of their own, beside what they were computed with.
#[test]
fn words_that_most_names_begin_with() {
    let beside = |values: Named| {
        let mut named: Named = values.into_iter().map(|(name, of)| (format!("activations.{name}"), of)).collect();
        named.insert("config.hidden_size".to_owned(), Values::new(&[1], vec![96.0]));
        named.insert("seconds".to_owned(), Values::new(&[1], vec![1.5]));
        named
    };
    holds(&SHOWN, beside, "model.layers.1.mlp", 15);
}

/// What a router makes of its logits may be called as what a head does.
#[test]
fn probabilities_of_experts_are_not_those_of_tokens() {
    let written = |mut values: Named| {
        let scores = |of: &Values| Values::new(&of.shape, of.of.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect());
        let each: Vec<Values> =
            (0..2).filter_map(|layer| values.remove(&format!("model.layers.{layer}.mlp.gate"))).collect();
        let [tokens, experts] = each[0].shape[..] else { panic!("a router's") };
        let all = each.iter().flat_map(|of| scores(of).of).collect();
        values.insert("probs".to_owned(), Values::new(&[2, 1, tokens, experts], all));
        renamed(values, |layer, part| match (layer, part) {
            (Some(layer), "") => format!("stage{layer}"),
            (Some(layer), part) => format!("stage{layer}.{}", part.replace("self_attn", "mixer").replace("mlp", "fed")),
            (None, part) => part.to_owned(),
        })
    };
    let names = ["model.layers.0", "model.layers.0.mlp", "model.layers.0.mlp.gate", "model.layers.1"];
    let names = [&names[..], &["model.layers.1.mlp", "model.layers.1.mlp.gate"]].concat();
    holds(&names, written, "model.layers.1.mlp.gate", 6);
}

/// The hidden state of the last token behind each layer, one row each.
#[test]
fn the_last_token_behind_each_layer() {
    let last = |values: Named| {
        let states = ["model.embed_tokens", "model.layers.0", "model.norm"].map(|name| values[name].last());
        let width = states[0].of.len();
        let all = states.into_iter().flat_map(|of| of.of).collect();
        Named::from([("h".to_owned(), Values::new(&[3, width], all))])
    };
    holds(&["model.embed_tokens", "model.layers.0", "model.norm"], last, "model.layers.0", 3);
}

/// The same where a row of keys is as wide as its only head, which could stand for all tokens.
#[test]
fn the_last_token_of_one_key_head() {
    const CASE: &str = "m2-mqa-top8-long-f32";
    let names = ["model.layers.0", "model.layers.0.self_attn.k_proj", "model.layers.0.self_attn.v_proj", "model.norm"];
    let rows = |before: &[usize]| -> Named {
        let last = |of: Values| Values::new(&[before, &of.last().shape].concat(), of.last().of);
        of_case(CASE, &names).into_iter().map(|(name, of)| (name, last(of))).collect()
    };
    for before in [&[][..], &[1]] {
        assert_eq!(faults(CASE, &rows(before)), 0, "{before:?}");
        assert!(faults(CASE, &off(rows(before), names[2])) > 0, "{before:?}, 5 % off");
    }
}

/// Choices by the numbers of the layers that have a router, of which the first ones have none.
#[test]
fn choices_by_their_layers_numbers() {
    let all = computed(M3);
    let chosen: Vec<usize> =
        (0..9).filter(|layer| all.contains_key(&format!("model.layers.{layer}.mlp.gate.2"))).collect();
    assert!(chosen.first() > Some(&0), "a layer before has no router: {chosen:?}");
    let names: Vec<String> = chosen
        .iter()
        .flat_map(|n| ["mlp.gate.2", "mlp.gate", "mlp"].map(|part| format!("model.layers.{n}.{part}")))
        .chain(["model.embed_tokens".to_owned(), "model.norm".to_owned()])
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let named = renamed(of_case(M3, &names), |layer, part| match (layer, part) {
        (Some(layer), "mlp.gate.2") => format!("expert_ids.{layer}"),
        (Some(layer), part) => format!("model.layers.{layer}.{part}"),
        (None, part) => part.to_owned(),
    });
    assert_eq!(faults(M3, &named), 0);
}

/// `to_tuple()`, of which places alone are known: logits, what goes into each layer and what the head reads, and probabilities.
#[test]
fn what_a_model_returns_by_its_places() {
    const PLACES: [(&str, &str); 6] = [
        ("logits", "0"),
        ("model.embed_tokens", "1.0"),
        ("model.layers.0", "1.1"),
        ("model.norm", "1.2"),
        ("model.layers.0.self_attn.1", "2.0"),
        ("model.layers.1.self_attn.1", "2.1"),
    ];
    let place = |name: &str| PLACES.iter().find(|(own, _)| *own == name).map(|(_, place)| (*place).to_owned());
    let written = |values: Named| -> Named {
        values.into_iter().map(|(name, of)| (place(&name).expect("it has a place"), of)).collect()
    };
    let names = PLACES.map(|(name, _)| name);
    for wrong in ["model.layers.0.self_attn.1", "model.norm"] {
        holds(&names, written, wrong, 4);
    }
}
