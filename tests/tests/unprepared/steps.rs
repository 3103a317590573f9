//! What `generate` returns beside what hooks saw: of each call, or of all of them together.

use std::ops::Range;

use fixtures::Tensor;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use ndarray::ArrayView1;
use reference::Storage;
use reference::weights::{Weight, Weights};
use tests::repository;

use super::{CASE, Named, Values, dumped, holds, model, of_names};
use crate::cli::parity;

/// Calls of 37 rows and three of one: a prompt, and three tokens behind it.
const CALLS: [Range<usize>; 4] = [0..37, 37..38, 38..39, 39..40];

const PARTS: [&str; 5] =
    ["model.layers.0.mlp", "model.layers.1.self_attn", "model.layers.1.mlp", "model.norm", "logits"];

/// Rows of each call under its number.
fn of_calls(name: &str, of: &Values) -> Named {
    CALLS.into_iter().enumerate().map(|(call, rows)| (format!("{name}.{call}"), of.tokens(rows))).collect()
}

/// The last row of each call, \[1, 4, V\].
fn last_rows(logits: &Values) -> Values {
    logits.tokens(36..40)
}

/// A tuple of \[1, V\] beside concatenated values.
#[test]
fn logits_of_each_step_beside_values_of_all_calls() {
    let written = |mut values: Named| {
        let logits = values.remove("logits").expect("it is there");
        let row = |step: usize| {
            let row = logits.tokens(36 + step..37 + step);
            (format!("logits.{step}"), Values::new(&[1, row.of.len()], row.of))
        };
        values.extend((0..4).map(row));
        values
    };
    holds(&PARTS, written, "logits", 5);
    holds(&PARTS, written, "model.layers.1.mlp", 5);
    let found = dumped(&written(of_names(&PARTS)), &model()).expect("it is read");
    let said = "tensors have one step each: read as one, of each step its rows behind the other's";
    assert!(found[0].values.remarks().contains(&said.to_owned()), "{:?}", found[0].values.remarks());
}

/// Of one module alone, too.
#[test]
fn logits_of_all_steps_beside_lists_of_calls() {
    let written = |values: Named| -> Named {
        let each = values.into_iter().flat_map(|(name, of)| match name.as_str() {
            "logits" => Named::from([(name, last_rows(&of))]),
            _ => of_calls(&name, &of),
        });
        each.collect()
    };
    holds(&PARTS, written, "logits", 20);
    for name in ["model.layers.1.mlp", "model.layers.1.self_attn"] {
        holds(&[name, "logits"], written, "logits", 8);
        holds(&[name, "logits"], written, name, 8);
    }
}

/// Of names that nobody knows, which values tell: those of the first call tell those of all.
#[test]
fn lists_of_calls_under_names_of_ones_own() {
    let written = |values: Named| -> Named {
        let own = |name: &str| match name.strip_prefix("model.layers.") {
            Some(rest) => format!("h{}", rest.replace(".self_attn", ":mix").replace(".mlp", ":ffn")),
            None => name.replace("model.norm", "last"),
        };
        let each = values.into_iter().flat_map(|(name, of)| match name.as_str() {
            "logits" => Named::from([(name, last_rows(&of))]),
            _ => of_calls(&own(&name), &of),
        });
        each.collect()
    };
    holds(&[&["model.layers.0.self_attn"], &PARTS[..]].concat(), written, "model.layers.1.mlp", 20);
}

/// Of each step a list of states, and of each module a list of calls.
#[test]
fn lists_of_states_beside_lists_of_calls() {
    const STATES: [&str; 3] = ["model.embed_tokens", "model.layers.0", "model.norm"];
    let names = [&STATES[..], &["model.layers.1.mlp", "logits"]].concat();
    let written = |values: Named| -> Named {
        let each = values.into_iter().flat_map(|(name, of)| match name.as_str() {
            "logits" => Named::from([(name, last_rows(&of))]),
            "model.layers.1.mlp" => of_calls(&name, &of),
            _ => {
                let state = STATES.iter().position(|state| *state == name).expect("it is a state");
                let of_call = |(call, rows)| (format!("hidden_states.{call}.{state}"), of.tokens(rows));
                CALLS.into_iter().enumerate().map(of_call).collect()
            }
        });
        each.collect()
    };
    holds(&names, written, "model.layers.1.mlp", 16);
}

/// Tokens that the last norm makes less likely than others were drawn, or given: that the reference has another first is no fault. It
/// is one of a norm that makes them the likeliest: as large as can be along the head's row of the token.
#[test]
fn tokens_that_were_drawn_are_no_fault_where_the_norm_says_so() {
    let folder = tempfile::tempdir().expect("writable");
    let tokens = repository::golden().case(CASE).expect("it is one of them").tokens;
    let head = model().checkpoint.get(Weight::LmHead).expect("it is there").dense::<f64>();
    let verified = |file: &str, last: Option<ArrayView1<'_, f64>>| {
        let mut writer = DumpWriter::create(&folder.path().join(file)).expect("writable");
        for (name, mut of) in of_names(&["model.embed_tokens", "model.norm"]) {
            if let Some(row) = last.filter(|_| name == "model.norm") {
                let width = row.len();
                of.of[36 * width..37 * width].iter_mut().zip(row).for_each(|(x, w)| *x = 1e3 * w);
            }
            for (call, rows) in CALLS.into_iter().enumerate() {
                let Values { shape, of } = of.tokens(rows);
                let name = if call == 0 { name.clone() } else { format!("step.{call}.{name}") };
                writer.write(&name, &Tensor::stored(Storage::F32, shape, of).expect("as many")).expect("writable");
            }
        }
        writer.finish(&Manifest::default()).expect("writable");
        let prompt = tokens[..37].iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        parity(folder.path(), &["verify", CASE, file, "--tokens", &prompt])
    };
    let drawn = verified("drawn.safetensors", None);
    let said = "decode: 0 of 3 tokens are the reference's";
    assert!(drawn.code == Some(0) && drawn.stdout.contains(said), "{drawn}");
    assert!(!drawn.stdout.contains("fault at token"), "{drawn}");
    let wrong = verified("wrong.safetensors", Some(head.row(tokens[37] as usize)));
    assert!(wrong.stdout.contains("fault at token 0") && !wrong.stdout.contains("fault at token 1"), "{wrong}");
}
