//! What stands behind names that are known: which side of a module it is, and what people note of its values.

use fixtures::names::families::Taken;

use super::{Named, Values, dumped, holds, model, of_names, off};

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

/// A module of one's own among others that are known: told by the layer in which it is right, and where it is in none, not passed over.
#[test]
fn a_name_of_ones_own_beside_known_ones_is_told_by_values() {
    let mlps = [0, 1].map(|layer| format!("model.layers.{layer}.mlp"));
    let names = [&NAMES[..], &mlps.each_ref().map(String::as_str)].concat();
    let written = |values: Named| -> Named {
        values.into_iter().map(|(name, of)| (name.replace(".mlp", ".moe_y"), of)).collect()
    };
    holds(&names, written, &mlps[1], 10);
    let both = mlps.iter().fold(of_names(&names), |values, name| off(values, name));
    let found = dumped(&written(both), &model()).expect("it is read");
    let [told] = found[0].values.told() else { panic!("{:?}", found[0].values.told()) };
    assert_eq!((told.taken, told.meant.to_string().as_str()), (Taken::Not, "model.layers.{layer}.mlp"));
    assert!(found[0].values.sites().all(|at| !mlps.contains(&at.site.to_string())));
}

/// As transformers returns them, under a name that nobody knows.
#[test]
fn the_last_of_states_of_ones_own_is_normed() {
    let names = ["model.embed_tokens", "model.layers.0", "model.norm"];
    let written = |values: Named| -> Named {
        let number = |name: &str| names.iter().position(|own| *own == name).expect("it is one of them");
        values.into_iter().map(|(name, of)| (format!("hs_{}", number(&name)), of)).collect()
    };
    holds(&names, written, "model.layers.0", 5);
    holds(&names, written, "model.norm", 5);
}
