//! Rows of some tokens, and more rows than tokens, of which no embedding says whose they are.

use std::ops::Range;

use tools::session::dumped::Prefix;

use super::{Named, Values, dumped, holds, judged_of, model, of_names, off, try_judged};

const LAYERS: [&str; 3] = ["model.layers.0", "model.layers.1", "model.norm"];

fn some(tokens: Range<usize>) -> impl Fn(Named) -> Named {
    move |values| values.into_iter().map(|(name, of)| (name, of.tokens(tokens.clone()))).collect()
}

/// As of `h[:, 1:]`, `h[:, :8]`, `h[:, 10:21]`, `h[:, -5:]`.
#[test]
fn rows_of_layers_are_those_that_the_reference_has() {
    for tokens in [1..40, 0..8, 10..21, 35..40] {
        holds(&LAYERS, some(tokens), "model.layers.1", 5);
    }
}

/// Beside choices of experts each operator is judged by itself, as behind a cache that nobody has. Of attention this says nothing: it is
/// judged once more, with all tokens.
#[test]
fn beside_choices_attention_is_judged_with_all_tokens() {
    let choices = ["model.layers.1.mlp.gate.1", "model.layers.1.mlp.gate.2"];
    let names = [&["model.embed_tokens", "model.layers.0.self_attn"], &choices[..]].concat();
    let by_itself = |values: Named| dumped(&some(35..40)(values), &model()).expect("it is read").remove(0);
    let wrong = by_itself(off(of_names(&names), "model.layers.0.self_attn"));
    assert_eq!((wrong.prefix, judged_of(&[wrong], &model()).expect("it fits").0), (Prefix::Beside, 0));
    holds(&names, some(35..40), "model.layers.0.self_attn", 4);
    let all = ["model.layers.0.mlp.gate.2", "model.layers.1.self_attn.q_norm", "model.layers.1.mlp.gate"];
    holds(&[&names[..], &LAYERS, &all].concat(), some(35..40), choices[0], 10);
    // What is chosen behind an attention that is not judged is not, either.
    let chosen = [0, 1].map(|layer| format!("model.layers.{layer}.mlp.gate.2"));
    holds(&[&LAYERS[..], &chosen.each_ref().map(|name| &name[..])].concat(), some(35..40), "model.layers.0", 5);
}

/// The same of the last token, whose probabilities have a column for each key that it sees.
#[test]
fn beside_probabilities_and_choices_attention_is_judged_with_all_tokens() {
    const PROBABILITIES: &str = "model.layers.0.self_attn.1";
    let last = |values: Named| -> Named {
        let row = |of: &Values| of.of.chunks(40 * 40).flat_map(|head| head[39 * 40..].to_vec()).collect();
        let of_last = |(name, of): (String, Values)| {
            let of = if name == PROBABILITIES { Values::new(&[1, 6, 1, 40], row(&of)) } else { of.tokens(39..40) };
            (name, of)
        };
        values.into_iter().map(of_last).collect()
    };
    for embedding in [&["model.embed_tokens"][..], &[]] {
        let names = [embedding, &[PROBABILITIES, "model.layers.0.self_attn", "model.layers.1.mlp.gate.2"]].concat();
        holds(&names, last, "model.layers.0.self_attn", 2);
    }
}

/// What `generate` returns of the last hidden state has no row of the last token.
#[test]
fn rows_of_the_last_norm_may_be_any_tokens() {
    for tokens in [0..39, 0..8, 20..28, 32..40] {
        holds(&["model.norm"], some(tokens), "model.norm", 1);
    }
}

/// As of `h[:, ::2]`.
#[test]
fn rows_of_tokens_here_and_there_are_refused() {
    let every_second = |of: &Values| {
        let each: Vec<Vec<f64>> = (0..40).step_by(2).map(|token| of.tokens(token..token + 1).of).collect();
        Values::new(&[1, each.len(), each[0].len()], each.concat())
    };
    for name in ["model.norm", "logits"] {
        let values = of_names(&[name]).into_iter().map(|(name, of)| (name, every_second(&of))).collect();
        let refused = try_judged(&values).expect_err("what they attended to is not in a row");
        assert!(refused.contains("are by their values those of the tokens 0, 2, 4, "), "{refused}");
    }
}

/// What an engine computes that fills its batches up: rows of whatever was there, with or without the embeddings of some tokens.
#[test]
fn rows_behind_the_tokens_are_padding() {
    let filled = |is_token: bool| {
        move |values: Named| -> Named {
            let fill = |(name, of): (String, Values)| {
                let times = if name != "model.embed_tokens" {
                    -0.7
                } else if is_token {
                    1.0
                } else {
                    0.0
                };
                let more: Vec<f64> = of.tokens(2..5).of.iter().map(|x| times * x).collect();
                let width = more.len() / 3;
                (name, Values::new(&[1, 43, width], [of.of, more].concat()))
            };
            values.into_iter().map(fill).collect()
        }
    };
    holds(&LAYERS, filled(true), "model.layers.1", 5);
    let shown = [&["model.embed_tokens"], &LAYERS[..]].concat();
    for is_token in [true, false] {
        holds(&shown, filled(is_token), "model.layers.1", 6);
    }
}
