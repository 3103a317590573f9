//! Rows that nobody names: which they are follows from the embeddings and the rotation tables that the dump shows.

use fixtures::activations::dump::Dump;
use fixtures::activations::writer::DumpWriter;
use fixtures::names::at::At;
use fixtures::{Dtype, Tensor};
use serde_json::json;

use super::laid::{Laid, one_each, padded};
use super::*;

pub(super) fn unstated(model: &Model, calls: Vec<Value>) -> Laid<'_> {
    Laid { states: false, ..whole(model, calls) }
}

/// The requests of a dump of a model that is no built-in case.
pub(super) fn requests_of(model: &Model, dump: Dump, tokens: Option<&str>) -> Result<Vec<Dumped>, String> {
    let given = Given { tokens: tokens.map(str::to_owned), ..Given::default() };
    let model = Model { case: None, ..open(&model.name) };
    Dumped::of(dump, &given, &model).map_err(|failure| failure.to_string())
}

pub(super) fn assert_all_right(what: &str, requests: &[Dumped], model: &Model) {
    for (number, dumped) in requests.iter().enumerate() {
        let wrong = reports(model, dumped)
            .into_iter()
            .find(|report| report.verdict > Verdict::Tie && report.verdict != Verdict::Inconclusive);
        assert!(wrong.is_none(), "{what}, request {number}: {wrong:#?}");
    }
}

pub(super) fn text(tokens: &[u32]) -> String {
    tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// A dump with other names, or without some tensors, and with others.
pub(super) fn rewritten(
    dump: &Dump,
    folder: &Path,
    name: impl Fn(&str) -> Option<String>,
    more: &[(&str, Tensor<'_>)],
) -> Dump {
    let path = folder.join("rewritten.safetensors");
    let mut writer = DumpWriter::create(&path).expect("writable");
    for (old, new) in dump.names().filter_map(|old| Some((old, name(old)?))) {
        writer.write(&new, &dump.tensor(old).expect("it is there")).expect("writable");
    }
    for (name, tensor) in more {
        writer.write(name, tensor).expect("writable");
    }
    writer.finish(dump.manifest().expect("it has one")).expect("writable");
    Dump::open(&path).expect("it was just written")
}

/// What `generate` returns ends with a token that the model never read.
#[test]
fn the_last_token_that_was_decoded_has_no_rows() {
    let absent = |_: usize, site: Site| if site == Site::Embedding { Form::Absent } else { Form::Batch };
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let calls = || vec![json!({ "tokens": [A] }), one_each(&[8]), one_each(&[1])];
        let given = text(&[&A[..], &[8, 1, 6]].concat());
        for laid in [unstated(&model, calls()), Laid { form: &absent, ..unstated(&model, calls()) }] {
            let found = requests_of(&model, laid.write(folder.path()), Some(&given)).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!((one.steps.concat(), one.unread), ([&A[..], &[8, 1]].concat(), 1), "{case}");
            assert_all_right(case, &found, &model);
        }
    }
}

/// The same of a batch, with padding before its prompts: not of M3, of which it moves the borders of blocks.
#[test]
fn the_last_tokens_of_a_batch_have_no_rows() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let call = padded(&[&A, &B], true);
    let whole = padded(&[&[&A[..], &[8, 1]].concat(), &[&B[..], &[3, 9]].concat()], true);
    let dump = unstated(&model, vec![call, one_each(&[8, 3])]).write(folder.path());
    let found = requests_of(&model, dump, Some(&tokenizers(&whole, None).to_string())).expect("its rows are known");
    let read: Vec<Vec<u32>> = found.iter().map(|one| one.steps.concat()).collect();
    assert_eq!(read, [[&A[..], &[8]].concat(), [&B[..], &[3]].concat()]);
    assert_all_right("a batch", &found, &model);
}

/// A loop over `generate`: each prompt and its steps, one after another, with what was decoded, or as embeddings show it.
#[test]
fn prompts_one_after_another() {
    let (one, other) = ([&A[..], &[8, 1]].concat(), [&B[..], &[3]].concat());
    let longer = [[&one[..], &[30]].concat(), [&other[..], &[6]].concat()];
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let call = |request: usize, tokens: &[u32]| json!({ "tokens": [tokens], "requests": [request] });
        let calls = [call(0, &A), call(0, &[8]), call(0, &[1]), call(1, &B), call(1, &[3])];
        let dump = unstated(&model, calls.to_vec()).write(folder.path());
        for (given, needs_embeddings) in
            [([A.to_vec(), B.to_vec()], true), ([one.clone(), other.clone()], false), (longer.clone(), false)]
        {
            let is_shown = |name: &str| needs_embeddings || !name.contains("embed");
            let dump = rewritten(&dump, folder.path(), |name| is_shown(name).then(|| name.to_owned()), &[]);
            let found = requests_of(&model, dump, Some(&json!(given).to_string())).expect("its rows are known");
            let read: Vec<Vec<u32>> = found.iter().map(|one| one.steps.concat()).collect();
            assert_eq!(read, [one.clone(), other.clone()], "{case} {given:?}");
            assert_all_right(case, &found, &model);
        }
    }
}

/// Hooks that overwrite what they kept leave the last call: its rotation table says which positions these are.
#[test]
fn the_last_call_alone() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let both = unstated(&model, vec![json!({ "tokens": [A] }), json!({ "tokens": [B] })]).write(folder.path());
        let last = |name: &str| Some(At::split(name)).filter(|(step, _)| *step == 1).map(|(_, path)| path.to_owned());
        for given in [Some(text(&[&A[..], &B].concat())), Some(text(&A)), None] {
            let dump = rewritten(&both, folder.path(), last, &[]);
            let found = requests_of(&model, dump, given.as_deref()).expect("its rows are known");
            // Once more with what tokens make of the first call, where these are said.
            let is_said = given.as_ref().is_some_and(|given| given.len() > text(&A).len());
            assert_eq!(found.len(), if is_said { 2 } else { 1 }, "{case} {given:?}");
            let one = &found[0];
            let absent = one.values.request().map(|request| request.absent);
            assert_eq!((&one.steps[..], absent), (&[B.to_vec()][..], Some(A.len())), "{case} {given:?}");
            assert_all_right(case, &found, &model);
        }
        let other = rewritten(&both, folder.path(), last, &[]);
        let refused = requests_of(&model, other, Some(&text(&[&A[..], &[8, 2]].concat()))).expect_err("other tokens");
        assert!(refused.contains("differ from position 8"), "{refused}");
    }
}

/// A model without a cache reads everything again with each token; one that is called twice begins with another prompt.
#[test]
fn calls_that_begin_anew() {
    let more = [&A[..], &[8]].concat();
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Where the rotation table does not tell a position, only what is repeated is told.
        let seconds = if case == CASES[0] { vec![more.clone(), B.to_vec()] } else { vec![more.clone()] };
        for second in seconds {
            let positions = |tokens: &[u32]| (0..tokens.len()).collect::<Vec<_>>();
            let calls = [&A[..], &second].map(|tokens| json!({ "tokens": [tokens], "positions": [positions(tokens)] }));
            let dump = unstated(&model, calls.to_vec()).write(folder.path());
            let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!(one.steps, [A.to_vec(), second.clone()], "{case}");
            assert_all_right(case, &found, &model);
        }
        // Tokens that are said and go on there are a prompt in chunks, and not read anew.
        let chunks = vec![json!({ "tokens": [A] }), json!({ "tokens": [B] })];
        let dump = unstated(&model, chunks).write(folder.path());
        let found = requests_of(&model, dump, Some(&text(&[&A[..], &B].concat()))).expect("its rows are known");
        assert_eq!(found[0].values.request().map(|request| request.passes[1].first), Some(A.len()));
    }
}

#[test]
fn a_batch_of_one_prompt() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let twice = || json!({ "tokens": [A, A] });
    let dump = unstated(&model, vec![twice()]).write(folder.path());
    let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
    assert_eq!(found.len(), 2);
    assert_all_right("one prompt", &found, &model);
    // In later calls each goes on in its place, whether it is named or not.
    let calls = || vec![twice(), one_each(&[8, 1]), one_each(&[4, 9])];
    let dump = unstated(&model, calls()).write(folder.path());
    let found = requests_of(&model, dump, Some(&text(&A))).expect("each goes on in its place");
    assert_eq!(found.iter().map(|dumped| dumped.beam.clone()).collect::<Vec<_>>(), [None, None]);
    assert_all_right("in its place", &found, &model);
    assert_right("each is named", &of_file(&unstated(&model, calls()), &json!([A, A])), 2);
}

/// What each request of a batch decoded is read from its own rows; on which side prompts are padded, too.
#[test]
fn a_batch_of_which_only_the_prompts_are_known() {
    for case in CASES {
        let model = open(case);
        for left in [true, false] {
            let prompts = padded(&[&A, &B], left);
            let once = unstated(&model, vec![prompts.clone()]);
            assert_right(
                &format!("{case} {left} without a mask"),
                &of_file(&once, &json!([A.to_vec(), B.to_vec()])),
                2,
            );
            let calls = vec![prompts.clone(), one_each(&[8, 1]), one_each(&[4, 9])];
            let decoded = unstated(&model, calls);
            assert_right(&format!("{case} {left} decoded"), &of_file(&decoded, &tokenizers(&prompts, None)), 2);
        }
    }
}

/// The shorter of two lists alone, of which nobody says that rows before its prompt are padding: not of M3, of which it moves the
/// borders of blocks.
#[test]
fn one_list_of_a_padded_batch() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let change = |wrong: bool| {
        move |_: usize, _: usize, site: Site, x: &mut f64| {
            if wrong && matches!(site, Site::Layer(1, LayerSite::Output)) {
                *x *= 1.01;
            }
        }
    };
    for wrong in [false, true] {
        let change = change(wrong);
        let dump = Laid { change: &change, ..unstated(&model, vec![padded(&[&A, &B], true)]) }.write(folder.path());
        let second = |name: &str| {
            let tensor = dump.tensor(name).expect("it is listed");
            let [2, rest @ ..] = tensor.shape() else { return None };
            let bytes = tensor.bytes()[tensor.bytes().len() / 2..].to_vec();
            Some(Tensor::new(tensor.dtype(), [&[1], rest].concat(), bytes).expect("half of it"))
        };
        let own: Vec<(&str, Tensor<'_>)> = dump.names().filter_map(|name| Some((name, second(name)?))).collect();
        let others = |name: &str| own.iter().all(|(own, _)| *own != name).then(|| name.to_owned());
        let dump = rewritten(&dump, folder.path(), others, &own);
        let found = requests_of(&model, dump, Some(&text(&B))).expect("its rows are known");
        assert_eq!((found.len(), found[0].steps.concat()), (1, B.to_vec()));
        assert_eq!(faults(&reports(&model, &found[0])).is_empty(), !wrong);
    }
    // A row before it may be that of a token that begins all texts.
    let begun = [&[9], &A[..]].concat();
    let dump = unstated(&model, vec![json!({ "tokens": [begun] })]).write(folder.path());
    let refused = requests_of(&model, dump, Some(&text(&A))).expect_err("other tokens were read");
    assert!(refused.contains("differ from position 0 (given 5, dumped 9)"), "{refused}");
}

/// `input_ids` and `attention_mask`, saved beside what came of them, are the prompts.
#[test]
fn what_went_in_is_in_the_dump() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let call = padded(&[&A, &B], true);
    let absent = |_: usize, site: Site| if site == Site::Embedding { Form::Absent } else { Form::Batch };
    let dump = Laid { form: &absent, ..unstated(&model, vec![call.clone()]) }.write(folder.path());
    let numbers = |field: &str| {
        let lists = call[field].as_array().expect("lists").iter().flat_map(|list| list.as_array().expect("a list"));
        let bytes: Vec<u8> = lists.flat_map(|x| x.as_i64().expect("a number").to_le_bytes()).collect();
        Tensor::new(Dtype::I64, [2, A.len()], bytes).expect("as many as the shape has")
    };
    let more = [("input_ids", numbers("tokens")), ("attention_mask", numbers("mask"))];
    let dump = rewritten(&dump, folder.path(), |name| Some(name.to_owned()), &more);
    let found = requests_of(&model, dump, None).expect("its rows are known");
    assert_eq!(found.iter().map(|dumped| dumped.steps.concat()).collect::<Vec<_>>(), [A.to_vec(), B.to_vec()]);
    assert_all_right("both", &found, &model);
}
