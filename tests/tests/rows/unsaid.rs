//! Dumps of hooks that say neither calls nor tokens, in shapes of other engines.

use fixtures::Tensor;
use fixtures::activations::writer::DumpWriter;
use fixtures::names::at::At;

use super::laid::{padded, second_call};
use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// The tensors of a dump in which lists stand before slots, with slots before lists.
fn across(dump: &Dump, lists: usize, slots: usize, folder: &Path) -> Dump {
    let turned = |name: &str| {
        let tensor = dump.tensor(name).expect("it is there");
        let [first, second, behind @ ..] = tensor.shape() else { return None };
        if [*first, *second] != [lists, slots] {
            return None;
        }
        let width = tensor.bytes().len() / (lists * slots);
        let row = |list: usize, slot: usize| &tensor.bytes()[(list * slots + slot) * width..][..width];
        let bytes: Vec<u8> =
            (0..slots).flat_map(|slot| (0..lists).flat_map(move |list| row(list, slot).to_vec())).collect();
        Tensor::new(tensor.dtype(), [&[slots, lists], behind].concat(), bytes)
    };
    let more: Vec<(&str, Tensor<'static>)> = dump.names().filter_map(|name| Some((name, turned(name)?))).collect();
    let is_turned = |name: &str| more.iter().any(|(turned, _)| *turned == name);
    assert!(more.len() > 20, "{} tensors", more.len());
    rewritten(dump, folder, |name| (!is_turned(name)).then(|| name.to_owned()), &more)
}

/// Megatron's order.
#[test]
fn slots_stand_before_lists() {
    let other = [&B[..], &A[..3]].concat();
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        for prompts in [vec![A.to_vec()], vec![A.to_vec(), other.clone()]] {
            let dump = unstated(&model, vec![json!({ "tokens": prompts })]).write(folder.path());
            let file = folder.path().join("tokens.json");
            std::fs::write(&file, json!(prompts).to_string()).expect("writable");
            for said in [format!("@{}", file.display()), json!(prompts).to_string()] {
                let dump = across(&dump, prompts.len(), A.len(), folder.path());
                let found = requests_of(&model, dump, Some(&said)).expect("its rows are known");
                assert_eq!(found.iter().map(|one| one.steps.concat()).collect::<Vec<_>>(), prompts, "{case}");
                assert_all_right(case, &found, &model);
            }
        }
    }
}

/// Hooks that stay while several prompts are computed one after the other.
#[test]
fn a_call_of_each_prompt() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let calls = vec![json!({ "tokens": [A], "requests": [0] }), json!({ "tokens": [B], "requests": [1] })];
        let found = of_file(&unstated(&model, calls.clone()), &json!([A.to_vec(), B.to_vec()]));
        assert_right(case, &found, 2);
        // Padding of a batch whose members were saved one by one is in none of them.
        let padded = |tokens: &[u32], with: u32| [tokens, &vec![with; A.len() - tokens.len()]].concat();
        let mask = [A.len(), B.len()].map(|tokens| padded(&vec![1; tokens], 0));
        let batch = json!({ "input_ids": [padded(&A, 0), padded(&B, 0)], "attention_mask": mask });
        assert_right(case, &of_file(&unstated(&model, calls.clone()), &batch), 2);
        // Without tokens and rotation tables, the second may be a prompt, or more of the first.
        let hidden = |_: usize, site: Site| match site {
            Site::RopeCos | Site::RopeSin => Form::Absent,
            _ => Form::Batch,
        };
        let dump = Laid { form: &hidden, ..unstated(&model, calls) }.write(folder.path());
        let refused = requests_of(&model, dump, None).expect_err("it may be either");
        assert!(refused.contains("call 1 of the dump has 4 rows: a prompt of its own, or more of"), "{refused}");
    }
}

/// Tokens of a batch without their mask: where values are those of the prompts alone, the rest is padding. A mask that passes it says
/// otherwise, and so do values.
#[test]
fn padding_that_nobody_says() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for left in [true, false] {
        let call = padded(&[&A, &B], left);
        let slots = json!({ "input_ids": call["tokens"] });
        let dump = || unstated(&model, vec![call.clone()]).write(folder.path());
        let found = requests_of(&model, dump(), Some(&slots.to_string())).expect("its rows are known");
        assert_eq!(found.iter().map(|one| one.padding).collect::<Vec<_>>(), [0, A.len() - B.len()], "left: {left}");
        assert_all_right("a batch", &found, &model);
        let mask = json!(vec![vec![1; A.len()]; 2]);
        let said = json!({ "input_ids": call["tokens"], "attention_mask": mask }).to_string();
        let found = requests_of(&model, dump(), Some(&said)).expect("its rows are known");
        assert!(reports(&model, &found[1]).iter().any(|report| report.verdict == Verdict::Fault), "left: {left}");
        let seen = unstated(&model, vec![json!({ "tokens": call["tokens"] })]).write(folder.path());
        let found = requests_of(&model, seen, Some(&slots.to_string())).expect("its rows are known");
        assert_eq!(found[1].padding, 0, "left: {left}");
        assert_all_right("a batch of which all is read", &found, &model);
    }
}

/// A row alone, of which nothing shows the position.
#[test]
fn a_single_row_is_of_any_position() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hidden = |_: usize, site: Site| match site {
        Site::RopeCos | Site::RopeSin => Form::Absent,
        _ => Form::Batch,
    };
    let calls = vec![json!({ "tokens": [A] }), one_each(&[8])];
    let dump = Laid { form: &hidden, ..unstated(&model, calls) }.write(folder.path());
    let last = || {
        rewritten(&second_call(&dump, &one_each(&[8]), folder.path()), folder.path(), |name| Some(name.to_owned()), &[])
    };
    let unstated = |dump: Dump| {
        let mut manifest = dump.manifest().expect("it has one").clone();
        manifest.calls.clear();
        let path = folder.path().join("unstated.safetensors");
        let mut writer = DumpWriter::create(&path).expect("writable");
        dump.names().for_each(|name| writer.write(name, &dump.tensor(name).expect("there")).expect("writable"));
        writer.finish(&manifest).expect("writable");
        Dump::open(&path).expect("it was just written")
    };
    let refused = requests_of(&model, unstated(last()), None).expect_err("its position is not known");
    assert!(refused.contains("one row: the last of a prompt, or of all that was decoded"), "{refused}");
    let given = text(&[&A[..], &[8]].concat());
    let found = requests_of(&model, unstated(last()), Some(&given)).expect("its position is known");
    assert_all_right("the last row", &found, &model);
}

/// The logits that the next token is chosen by, without an axis for rows.
#[test]
fn logits_of_one_row() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
        let logits = dump.tensor("logits").expect("it is there");
        let width = *logits.shape().last().expect("it has axes");
        let last = logits.bytes()[logits.bytes().len() - width * logits.dtype().size()..].to_vec();
        let row = || [("logits", Tensor::new(logits.dtype(), [width], last.clone()).expect("one row"))];
        let alone = || rewritten(&dump, folder.path(), |_| None, &row());
        let found = requests_of(&model, alone(), Some(&text(&A))).expect("it is the last");
        assert_all_right(case, &found, &model);
        let refused = requests_of(&model, alone(), None).expect_err("nobody says the prompt");
        assert!(refused.contains("no tokens are known"), "{refused}");
    }
}

/// What stands behind attention to keys that nobody knows is not judged, up to the next value that is shown, in whatever layer. Where
/// the tokens before are said, keys follow from them.
#[test]
fn the_last_layer_behind_an_unknown_prefix() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let both = unstated(&model, vec![json!({ "tokens": [A] }), json!({ "tokens": [B] })]).write(folder.path());
        let last = model.checkpoint.config().num_hidden_layers - 1;
        let is_state = |site: Site| match site {
            Site::Layer(layer, LayerSite::Output) => layer < last,
            Site::Embedding | Site::FinalNorm | Site::RopeCos | Site::RopeSin => true,
            _ => false,
        };
        let of_last = |name: &str| {
            let (step, path) = At::split(name);
            (step == 1 && path.parse().is_ok_and(is_state)).then(|| path.to_owned())
        };
        let dump = rewritten(&both, folder.path(), of_last, &[]);
        let all = text(&[&A[..], &B].concat());
        for (said, verdict) in [(None, Verdict::Inconclusive), (Some(&all[..]), Verdict::Within)] {
            let dump = Dump::open(dump.path()).expect("it was read before");
            let found = requests_of(&model, dump, said).expect("its rows are known");
            let norm = reports(&model, &found[0]).into_iter().find(|report| report.site == Site::FinalNorm);
            assert_eq!(norm.map(|report| report.verdict), Some(verdict), "{case}");
            assert_all_right(case, &found, &model);
        }
    }
}
