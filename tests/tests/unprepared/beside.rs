//! What stands behind names that are known: which side of a module it is, and what people note of its values.

use fixtures::Tensor;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::names::families::Taken;
use reference::Storage;
use tests::repository;

use super::{CASE, Named, Values, dumped, holds, model, of_names, off};
use crate::cli::{Ran, assert_refused, parity};

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
    let both = written(mlps.iter().fold(of_names(&names), |values, name| off(values, name)));
    let found = dumped(&both, &model()).expect("it is read");
    let [told] = found[0].values.told() else { panic!("{:?}", found[0].values.told()) };
    assert_eq!((told.taken, told.meant.to_string().as_str()), (Taken::Not, "model.layers.{layer}.mlp"));
    assert!(found[0].values.sites().all(|at| !mlps.contains(&at.site.to_string())));
    let ran = verified(&both);
    let said = "model.layers.{layer}.moe_y is of no name that is known, and nearer to model.layers.{layer}.mlp";
    assert!(ran.code == Some(0) && ran.stdout.contains("INCONCLUSIVE"), "{ran}");
    assert!(ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{ran}");
}

/// What the program says of values, with the case's tokens.
fn verified(values: &Named) -> Ran {
    let folder = tempfile::tempdir().expect("writable");
    let mut writer = DumpWriter::create(&folder.path().join("dump.safetensors")).expect("writable");
    for (name, Values { shape, of }) in values {
        let stored = Tensor::stored(Storage::F32, shape.as_slice(), of.iter().copied()).expect("as many");
        writer.write(name, &stored).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
    let tokens = repository::golden().case(CASE).expect("it is one of them").tokens;
    let tokens = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    parity(folder.path(), &["verify", CASE, "dump.safetensors", "--tokens", &tokens])
}

/// What a generation drew says nothing of values: what to keep instead is told.
#[test]
fn tokens_alone_are_refused_with_what_to_keep() {
    let folder = tempfile::tempdir().expect("writable");
    std::fs::write(folder.path().join("dump.json"), "{\"sequences\": [[3, 1, 4, 1, 5]]}").expect("writable");
    let ran = parity(folder.path(), &["verify", CASE, "dump.json"]);
    assert_refused(&ran, &["no name is a site's", "keep the logits"]);
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
