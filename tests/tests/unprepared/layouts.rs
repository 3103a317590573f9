//! Axes in another order, and some rows alone.

use super::{Named, Values, holds, of_names, try_judged};

const STREAM: [&str; 3] = ["model.embed_tokens", "model.layers.0", "model.layers.1"];

fn stacked(values: &Named, before: &[usize]) -> Values {
    let each = STREAM.map(|name| &values[name]);
    let [.., tokens, width] = each[0].shape[..] else { panic!("tokens and channels") };
    let of_token = |token: usize| each.map(|one| one.of[token * width..][..width].to_vec()).concat();
    Values::new(&[before, &[tokens, each.len(), width]].concat(), (0..tokens).flat_map(of_token).collect())
}

/// What goes into each layer, and what the norm makes of what comes out of the last: here that itself, which is tried, too.
#[test]
fn layers_may_stand_behind_tokens() {
    for before in [&[][..], &[1]] {
        let written = |values: Named| Named::from([("hidden_states".to_owned(), stacked(&values, before))]);
        holds(&STREAM, written, "model.layers.1", 4);
    }
}

#[test]
fn channels_may_stand_before_tokens() {
    let names = ["model.layers.0", "model.layers.0.self_attn", "model.layers.0.mlp", "model.layers.1", "model.norm"];
    let with_batch = |values: Named| values.into_iter().map(|(name, of)| (name, of.turned())).collect();
    holds(&names, with_batch, "model.layers.0.mlp", 8);
    let without = |values: Named| {
        let turned = with_batch(values).into_iter();
        turned.map(|(name, of): (String, Values)| (name, Values::new(&of.shape[1..], of.of))).collect()
    };
    holds(&names, without, "model.layers.0.self_attn", 8);
}

/// The embedding's row says which token it is, and is the last.
#[test]
fn the_last_row_alone_is_judged_from_all_tokens() {
    let names = [&STREAM[1..], &["model.norm"]].concat();
    let last = |values: Named| values.into_iter().map(|(name, of)| (name, of.last())).collect();
    holds(&names, last, "model.layers.1", 4);
    let rows = |values: Named| {
        let last = values.into_iter().map(|(name, of)| (name, of.last()));
        last.map(|(name, of)| (name, Values::new(&[1, 1, of.of.len()], of.of))).collect()
    };
    holds(&[&STREAM[..], &["model.norm"]].concat(), rows, "model.layers.0", 4);
}

/// Which they are the embedding says; what they attended to follows from the tokens before them.
#[test]
fn some_rows_alone_are_judged_from_all_tokens() {
    let names = ["model.embed_tokens", "model.layers.0", "model.layers.1", "model.norm", "logits"];
    for tokens in [32..40, 10..21] {
        let some = |values: Named| values.into_iter().map(|(name, of)| (name, of.tokens(tokens.clone()))).collect();
        for wrong in ["model.layers.0", "model.layers.1", "logits"] {
            holds(&names, some, wrong, 8);
        }
    }
}

/// Half of the heads: what else the rank has is whole, and so it is no other engine's way to write it.
#[test]
fn one_rank_of_two_is_refused() {
    let names = ["model.layers.0.input_layernorm", "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn"];
    let mut values = of_names(&names);
    let whole = &values["model.layers.0.self_attn.q_proj"];
    let half = whole.shape[2] / 2;
    let part = whole.rows(half, |_, row| row[..half].to_vec());
    values.insert("model.layers.0.self_attn.q_proj".to_owned(), part);
    let refused = try_judged(&values).expect_err("refused");
    assert!(refused.contains("as one rank of 2 has it, expected all heads"), "{refused}");
}
