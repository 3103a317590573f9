//! Tokens that nobody said, and that the dump shows by their embeddings.

use std::fs;

use reference::Storage;
use serde_json::{Value, json};

use super::laid::{Laid, one_each};
use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;
use crate::cli::{case, change_tensor};

/// Three calls of one request, which says nothing of them.
fn decoded(model: &Model) -> Laid<'_> {
    let calls = vec![json!({ "tokens": [A] }), one_each(&[8]), one_each(&[1])];
    Laid { states: false, ..whole(model, calls) }
}

#[test]
fn what_was_decoded_or_all_is_read_from_the_embeddings() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (given, prompt, embedded) in [(Some("5,17,3,29,11,2,23"), 7, 2), (Some("5,17,3"), 3, 6), (None, 7, 9)] {
            let found = requests_of(&model, decoded(&model).write(folder.path()), given).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!((one.prompt.tokens.len(), one.embedded), (prompt, embedded), "{case}");
            assert_eq!(one.steps, [A.to_vec(), vec![8], vec![1]], "{case}");
            let wrong = reports(&model, one).into_iter().find(|report| report.verdict > Verdict::Tie);
            assert!(wrong.is_none(), "{case}: {wrong:#?}");
        }
    }
}

/// Of a model that sees, rows of text are embeddings, too, where they go into the first layer.
#[test]
fn what_goes_into_the_first_layer_shows_tokens() {
    let model = open("vision-images-f32");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let prompt = &A[1..];
    let calls = vec![json!({ "tokens": [prompt, prompt] }), one_each(&[8, 1]), one_each(&[4, 9])];
    let dump = unstated(&model, calls).write(folder.path());
    let name = |name: &str| Some(name.replace("model.embed_tokens", "model.inputs_embeds"));
    let found = requests_of(&model, rewritten(&dump, folder.path(), name, &[]), Some(&text(prompt)));
    let found = found.expect("its rows are known");
    let read: Vec<Vec<u32>> = found.iter().map(|one| one.steps.concat()).collect();
    assert_eq!(read, [[prompt, &[8, 4]].concat(), [prompt, &[1, 9]].concat()]);
    assert_all_right("both", &found, &model);
}

/// A prompt, drafts, and a call that begins within these: what they have from there on was rejected.
fn with_drafts() -> Vec<Value> {
    vec![
        json!({ "tokens": [A], "positions": [[0, 1, 2, 3, 4, 5, 6]] }),
        json!({ "tokens": [B], "positions": [[7, 8, 9, 10]] }),
        json!({ "tokens": [[12, 13]], "positions": [[9, 10]] }),
    ]
}

/// The third call begins within the second, by its rotation table. Whatever is said, the prompt, all that was kept, or nothing.
#[test]
fn drafts_that_were_rejected_show_by_their_positions() {
    let kept = [&A[..], &B[..2], &[12, 13]].concat();
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = || Laid { states: false, ..whole(&model, with_drafts()) }.write(folder.path());
        let and_last = [&kept[..], &[3]].concat();
        for given in [Some(text(&A)), Some(text(&kept)), Some(text(&and_last)), None] {
            let found = requests_of(&model, dump(), given.as_deref()).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!(one.steps, [A.to_vec(), B.to_vec(), vec![12, 13]], "{case}");
            let wrong = reports(&model, one).into_iter().find(|report| report.verdict > Verdict::Tie);
            assert!(wrong.is_none(), "{case}, {given:?}: {wrong:#?}");
        }
    }
}

/// Where no table shows positions, all that was kept tells, with the token that was decoded last or without; the prompt alone does not.
#[test]
fn drafts_that_were_rejected_show_by_what_was_kept() {
    let kept = [&A[..], &B[..2], &[12, 13]].concat();
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = || {
            let whole = Laid { states: false, ..whole(&model, with_drafts()) }.write(folder.path());
            let is_table = |name: &str| name.contains("rotary_emb");
            rewritten(&whole, folder.path(), |name| (!is_table(name)).then(|| name.to_owned()), &[])
        };
        for (given, unread) in [(kept.clone(), 0), ([&kept[..], &[3]].concat(), 1)] {
            let found = requests_of(&model, dump(), Some(&text(&given))).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!((&one.steps, one.unread), (&vec![A.to_vec(), B.to_vec(), vec![12, 13]], unread), "{case}");
            let wrong = reports(&model, one).into_iter().find(|report| report.verdict > Verdict::Tie);
            assert!(wrong.is_none(), "{case}, {given:?}: {wrong:#?}");
        }
        let failed = requests_of(&model, dump(), Some(&text(&A))).expect_err("drafts, or more of the prompt");
        assert_eq!(
            failed,
            "call 1 of the dump has 4 rows that nobody says: more of the prompt, or drafts, of which some may have been rejected"
        );
        let other = [&A[..], &B[..1], &[4, 12, 13]].concat();
        let failed = requests_of(&model, dump(), Some(&text(&other))).expect_err("other tokens");
        assert!(
            failed.contains("the dump was made from other tokens: they differ from position 8"),
            "{case}: {failed}"
        );
    }
}

/// What is said behind rejected drafts may be the same token over and over: that calls read others tells that these were rejected.
#[test]
fn drafts_that_were_rejected_before_one_token_again_and_again() {
    let one = |position: usize| json!({ "tokens": [[12]], "positions": [[position]] });
    let calls = || {
        let drafts = json!({ "tokens": [[12, 1, 30]], "positions": [[7, 8, 9]] });
        [with_drafts()[0].clone(), drafts].into_iter().chain((8..12).map(one)).collect()
    };
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let whole = Laid { states: false, ..whole(&model, calls()) }.write(folder.path());
        let is_table = |name: &str| name.contains("rotary_emb");
        let dump = rewritten(&whole, folder.path(), |name| (!is_table(name)).then(|| name.to_owned()), &[]);
        let found = requests_of(&model, dump, Some(&text(&[&A[..], &[12; 5]].concat()))).expect("its rows are known");
        let wrong = reports(&model, &found[0]).into_iter().find(|report| report.verdict > Verdict::Tie);
        assert!(wrong.is_none(), "{case}: {wrong:#?}");
    }
}

/// Embeddings below 2⁻¹⁴, which f16 has as multiples of 2⁻²⁴: what is lost of them is no small share.
#[test]
fn tiny_embeddings_are_known_in_f16() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in ["config.json", "model.safetensors"] {
        let from = case(CASES[0]).join("model").join(file);
        fs::copy(from, folder.path().join(file)).expect("writable");
    }
    let tiny = |bytes: &mut [u8]| {
        for x in bytes.chunks_exact_mut(4) {
            let tiny = f32::from_le_bytes(x.try_into().expect("four bytes")) * 2.0_f32.powi(-20);
            x.copy_from_slice(&tiny.to_le_bytes());
        }
    };
    let weights = folder.path().join("model.safetensors");
    assert!(change_tensor(&weights, "model.embed_tokens.weight", tiny), "it is there");
    let model = open(folder.path().to_str().expect("UTF-8"));
    let in_f16 = |_: usize, _: usize, site: Site, x: &mut f64| {
        if site == Site::Embedding {
            *x = Storage::F16.nearest(*x);
        }
    };
    let made = tempfile::tempdir().expect("a temporary folder");
    let dump = Laid { change: &in_f16, ..decoded(&model) }.write(made.path());
    let found = requests_of(&model, dump, None).expect("its rows are known");
    let [one] = &found[..] else { panic!("one request") };
    assert_eq!(one.steps, [A.to_vec(), vec![8], vec![1]]);
}

/// As many as there are layers, by their numbers alone: what goes into each, if the first has embeddings, or what comes out; the
/// first of them alone, too, if there are several.
#[test]
fn a_list_of_layers_is_of_inputs_where_it_begins_with_embeddings() {
    for case in CASES {
        let model = open(case);
        let layers = model.checkpoint.config().num_hidden_layers;
        let output = |layer| Site::Layer(layer, LayerSite::Output).to_string();
        let outputs: Vec<String> = (0..layers).map(output).collect();
        let inputs: Vec<String> =
            [Site::Embedding.to_string()].into_iter().chain((0..layers - 1).map(output)).collect();
        let part = outputs[..layers - 1].to_vec();
        let lists = [(&outputs, 0), (&outputs, 1), (&inputs, 0), (&inputs, 1)];
        for (list, first) in lists.into_iter().chain((part.len() > 1).then_some((&part, 0))) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
            let name = |name: &str| list.iter().position(|own| own == name).map(|i| format!("layer_{:02}", i + first));
            let dump = rewritten(&dump, folder.path(), name, &[]);
            let found = requests_of(&model, dump, Some("5,17,3,29,11,2,23")).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            let sites: Vec<String> = one.values.sites().map(|at| at.site.to_string()).collect();
            assert_eq!((&sites, one.values.reading().takes_inputs), (list, list == &inputs), "{case}");
            let wrong = reports(&model, one).into_iter().find(|report| report.verdict > Verdict::Tie);
            assert!(wrong.is_none(), "{case}: {wrong:#?}");
        }
    }
}

#[test]
fn other_tokens_and_rows_that_are_no_embedding_are_refused() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |dump: Dump, tokens| requests_of(&model, dump, tokens).expect_err("its tokens are not known");
    let other = refused(decoded(&model).write(folder.path()), Some("5,17,4"));
    assert!(other.contains("differ from position 2"), "{other}");
    let change = |_: usize, position: usize, site: Site, x: &mut f64| {
        if (position, site) == (8, Site::Embedding) {
            *x += 1.0;
        }
    };
    let changed = Laid { change: &change, ..decoded(&model) }.write(folder.path());
    assert!(refused(changed, Some("5,17,3,29,11,2,23")).contains("calls 1 to 2"));
    let absent = |_: usize, site: Site| if site == Site::Embedding { Form::Absent } else { Form::Batch };
    let hidden = Laid { form: &absent, ..decoded(&model) }.write(folder.path());
    assert!(refused(hidden, None).contains("no tokens are known"));
}
