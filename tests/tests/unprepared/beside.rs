//! What stands behind names that are known: which side of a module it is, and what people note of its values.

use super::{Named, Values, holds};

const NAMES: [&str; 6] =
    ["model.embed_tokens", "model.layers.0", "model.layers.1.self_attn", "model.layers.1", "model.norm", "logits"];

/// What goes into a module and what comes out, by a word behind a bar.
#[test]
fn sides_may_stand_behind_a_bar() {
    let written = |values: Named| -> Named {
        let embedded = values["model.embed_tokens"].clone();
        let out = values.into_iter().map(|(name, of)| (format!("{name}|out"), of));
        out.chain([("model.layers.0.input_layernorm|in".to_owned(), embedded)]).collect()
    };
    holds(&NAMES, written, "model.layers.1.self_attn", 8);
}

/// Numbers to look at, beside what they are of: fewer of the names are values than are not.
#[test]
fn statistics_may_stand_beside_values() {
    let written = |values: Named| -> Named {
        let mean = |of: &Values| of.rows(1, |_, row| vec![row.iter().sum::<f64>() / row.len() as f64]);
        let most = |of: &Values| of.of.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let beside = |(name, of): (&String, &Values)| {
            let one = |number: f64| Values::new(&[1], vec![number]);
            [
                (format!("{name}.mean"), mean(of)),
                (format!("{name}.absmax"), one(most(of))),
                (format!("{name}.std"), one(0.5)),
            ]
        };
        let more: Vec<(String, Values)> = values.iter().flat_map(beside).collect();
        values.into_iter().chain(more).collect()
    };
    holds(&NAMES, written, "model.layers.1", 8);
}
