//! Logits of a generation, and which tokens they belong to.

use fixtures::{Dtype, Tensor};
use reference::Storage;

use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// Tokens and what a model decodes after them, greedily.
fn continued(model: &Model, folder: &Path, tokens: &[u32], more: usize) -> Vec<u32> {
    let mut tokens = tokens.to_vec();
    for _ in 0..more {
        let dump = unstated(model, vec![json!({ "tokens": [tokens] })]).write(folder);
        let logits = dump.tensor("logits").expect("it is there").values::<f64>();
        let last = &logits[logits.len() - logits.len() / tokens.len()..];
        let best = (0..last.len()).max_by(|a, b| last[*a].total_cmp(&last[*b])).expect("a vocabulary");
        tokens.push(u32::try_from(best).expect("small"));
    }
    tokens
}

/// The last rows of the logits of a prompt, in one tensor.
fn last_logits(dump: &Dump, rows: usize) -> Tensor<'static> {
    let logits = dump.tensor("logits").expect("it is there");
    let width = *logits.shape().last().expect("it has axes");
    let bytes = logits.bytes()[logits.bytes().len() - rows * width * logits.dtype().size()..].to_vec();
    Tensor::new(logits.dtype(), [1, rows, width], bytes).expect("as many rows")
}

/// `generate(output_logits=True)`, one step behind the other or stacked, with all tokens that it returns, or those that it read.
#[test]
fn logits_of_a_generation() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tokens = continued(&model, folder.path(), &A, 3);
        let [prompt, one, two, three] = [A.len(), A.len() + 1, A.len() + 2, A.len() + 3];
        let dump = unstated(&model, vec![json!({ "tokens": [tokens[..two]] })]).write(folder.path());
        let stacked = || rewritten(&dump, folder.path(), |_| None, &[("logits", last_logits(&dump, 3))]);
        let right = |dump: Dump, given: &[u32]| {
            let found = requests_of(&model, dump, Some(&text(given))).expect("the last of these");
            assert_eq!(found[0].steps.concat(), tokens[..two], "{case}");
            assert_all_right(case, &found, &model);
        };
        right(stacked(), &tokens[..two]);
        right(stacked(), &tokens);
        // Of the prompt alone, what follows is the likeliest of each row.
        right(stacked(), &tokens[..prompt]);
        // What it returned may be in the dump, and the prompt given.
        let ids: Vec<u8> = tokens.iter().flat_map(|token| i64::from(*token).to_le_bytes()).collect();
        let ids = Tensor::new(Dtype::I64, [1, three], ids).expect("as many tokens");
        let both = [("logits", last_logits(&dump, 3)), ("sequences", ids)];
        right(rewritten(&dump, folder.path(), |_| None, &both), &tokens[..prompt]);
        let calls = vec![json!({ "tokens": [A] }), one_each(&tokens[prompt..one]), one_each(&tokens[one..two])];
        let dump = unstated(&model, calls).write(folder.path());
        let first = [("logits", last_logits(&dump, 1))];
        let is_later = |name: &str| (name.starts_with("step") && name.ends_with(".logits")).then(|| name.to_owned());
        for given in [prompt, two, three] {
            let steps = rewritten(&dump, folder.path(), is_later, &first);
            let found = requests_of(&model, steps, Some(&text(&tokens[..given]))).expect("a prompt, and two more");
            let read: Vec<usize> = found[0].steps.iter().map(Vec::len).collect();
            assert_eq!((read, found[0].steps.concat()), (vec![prompt, 1, 1], tokens[..two].to_vec()), "{case}");
            assert_all_right(case, &found, &model);
        }
    }
}

/// `model(input_ids, logits_to_keep=torch.tensor([0, 2, 3]))`, beside what goes into the head, or the last layer's output; rows that follow
/// one another are the last ones, as a head that reads those before them gives.
#[test]
fn logits_of_tokens_that_were_picked() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
        let logits = dump.tensor("logits").expect("it is there");
        let width = *logits.shape().last().expect("it has axes");
        let values = logits.values::<f64>();
        for (picked, hidden, is_right) in [
            (vec![0, 2, 3], "model.norm", true),
            (vec![1, 4], "model.layers.", true),
            (vec![2, 3], "model.norm", false),
        ] {
            let rows: Vec<f64> =
                picked.iter().flat_map(|row: &usize| values[row * width..][..width].to_vec()).collect();
            let rows = Tensor::stored(Storage::F32, vec![1, picked.len(), width], rows).expect("as many");
            let is_shown = |name: &str| {
                let is_output =
                    name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
                name == hidden || is_output && name.starts_with(hidden)
            };
            let name = |name: &str| is_shown(name).then(|| name.to_owned());
            let dump = rewritten(&dump, folder.path(), name, &[("logits", rows)]);
            let found = requests_of(&model, dump, Some(&text(&A))).expect("rows of one prompt");
            assert_eq!(faults(&reports(&model, &found[0])).is_empty(), is_right, "{case}, {picked:?}");
        }
    }
}

/// `generate(output_scores=True)`: logits, unless a temperature, penalties or filters made others of them.
#[test]
fn scores_of_a_generation() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tokens = continued(&model, folder.path(), &A, 2);
        let read = || unstated(&model, vec![json!({ "tokens": [tokens[..tokens.len() - 1]] })]).write(folder.path());
        let rows = last_logits(&read(), 2);
        let width = *rows.shape().last().expect("it has axes");
        let dump = |change: &dyn Fn(usize, f64) -> f64| {
            let values: Vec<f64> =
                rows.values::<f64>().into_iter().enumerate().map(|(i, z)| change(i % width, z)).collect();
            let step = |step: usize| {
                let own = values[step * width..][..width].to_vec();
                Tensor::stored(Storage::F32, vec![1, width], own).expect("a row")
            };
            rewritten(&read(), folder.path(), |_| None, &[("scores.0", step(0)), ("scores.1", step(1))])
        };
        let of = |change: &dyn Fn(usize, f64) -> f64| requests_of(&model, dump(change), Some(&text(&A)));
        let found = of(&|_, z| z).expect("what follows is the likeliest");
        assert!(found[0].scored && found[0].steps.concat() == tokens[..tokens.len() - 1], "{case}");
        assert_all_right(case, &found, &model);
        // Some are off that no temperature and no penalty moves.
        let wrong = of(&|token, z| if token % 3 == 1 { z + 0.3 } else { z }).expect("they are logits");
        assert!(wrong[0].scored && !faults(&reports(&model, &wrong[0])).is_empty(), "{case}");
        let penalty =
            |token: usize, z: f64| if A.contains(&u32::try_from(token).expect("small")) { z * 1.3 } else { z };
        let filter = |token: usize, z: f64| if token == 3 { f64::NEG_INFINITY } else { z };
        for processed in [of(&|_, z| z / 0.7), of(&penalty), of(&filter)] {
            let refused = processed.expect_err("they are no logits");
            assert!(refused.contains("no name is a site's, such as scores.0"), "{case}: {refused}");
        }
    }
}

/// `torch.stack(out.logits)` of a batch that is padded before, with all tokens that it returns, or its prompts alone.
#[test]
fn logits_of_a_batch_that_was_decoded() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let whole = [&A[..], &B[..]].map(|prompt| continued(&model, folder.path(), prompt, 3));
        let read = |tokens: &[u32]| {
            unstated(&model, vec![json!({ "tokens": [tokens[..tokens.len() - 1]] })]).write(folder.path())
        };
        let rows = whole.each_ref().map(|tokens| last_logits(&read(tokens), 3));
        let (width, row) = (model.checkpoint.config().vocab_size, rows[0].bytes().len() / 3);
        let steps = (0..3).flat_map(|step| rows.iter().flat_map(move |own| own.bytes()[step * row..][..row].to_vec()));
        let stacked = Tensor::new(rows[0].dtype(), [3, 2, width], steps.collect::<Vec<u8>>()).expect("as many");
        let behind = |tokens: &[u32], padding: u32| [vec![padding; A.len() - B.len()], tokens.to_vec()].concat();
        let mask = [vec![1; A.len()], behind(&[1; B.len()], 0)];
        let given = json!({ "input_ids": [A.to_vec(), behind(&B, 0)], "attention_mask": mask }).to_string();
        let ids = [whole[0].clone(), behind(&whole[1], 0)].concat();
        let ids: Vec<u8> = ids.iter().flat_map(|token| i64::from(*token).to_le_bytes()).collect();
        let ids = Tensor::new(Dtype::I64, [2, A.len() + 3], ids).expect("as many tokens");
        // Of the second request, whatever the first one's tokens are.
        let logits = stacked.values::<f64>();
        let wrong = logits.iter().enumerate().map(|(i, z)| if i / width % 2 == 1 { 1.01 * z } else { *z });
        let wrong = Tensor::stored(Storage::F32, [3, 2, width], wrong).expect("as many");
        let dump = rewritten(&read(&whole[0]), folder.path(), |_| None, &[("logits", wrong)]);
        let found = requests_of(&model, dump, Some(&given)).expect("the last rows of each");
        let of_each: Vec<bool> = found.iter().map(|one| faults(&reports(&model, one)).is_empty()).collect();
        assert_eq!(of_each, [true, false], "{case}");
        let alone = [("logits", stacked)];
        for shown in [&alone[..], &[alone[0].clone(), ("sequences", ids)]] {
            let dump = rewritten(&read(&whole[0]), folder.path(), |_| None, shown);
            let found = requests_of(&model, dump, Some(&given)).expect("the last rows of each");
            let read: Vec<Vec<u32>> = found.iter().map(|one| one.steps.concat()).collect();
            assert_eq!(read, whole.each_ref().map(|tokens| tokens[..tokens.len() - 1].to_vec()), "{case}");
            let unsaid: Vec<usize> = found.iter().map(|one| one.likeliest).collect();
            assert_eq!(unsaid, [if shown.len() == 1 { 2 } else { 0 }; 2], "{case}");
            assert_all_right(case, &found, &model);
        }
    }
}

/// Drawn, none of them the likeliest: 2.0 beside a token of 2.1, where any other is at −20.
#[test]
fn logits_of_a_generation_that_was_drawn() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (tokens, width) = ([&A[..], &[8, 9, 10]].concat(), model.checkpoint.config().vocab_size);
    let drawn = &tokens[A.len()..];
    let of = |token: u32, drawn: u32| if token == 0 { 2.1 } else { [-20.0, 2.0][usize::from(token == drawn)] };
    let logits = drawn.iter().flat_map(|&drawn| (0_u32..).take(width).map(move |token| of(token, drawn)));
    let logits = Tensor::stored(Storage::F32, [1, drawn.len(), width], logits).expect("as many");
    let dump = unstated(&model, vec![json!({ "tokens": [tokens] })]).write(folder.path());
    for given in [tokens.len() - 1, tokens.len()] {
        let alone = rewritten(&dump, folder.path(), |_| None, &[("logits", logits.clone())]);
        let found = requests_of(&model, alone, Some(&text(&tokens[..given]))).expect("the last of these");
        assert_eq!(found[0].steps.concat(), tokens[..tokens.len() - 1]);
    }
}

/// Tokens of any probability, a row of logits for each step: those behind which the reference's logits are near.
#[test]
fn logits_of_steps_whose_tokens_may_be_any() {
    let drawn = [&A[..], &[8, 2, 5]].concat();
    let read = drawn.len() - 1;
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = unstated(&model, vec![json!({ "tokens": [drawn[..read]] })]).write(folder.path());
        let rows = last_logits(&dump, 3);
        let (row, width) = (rows.bytes().len() / 3, model.checkpoint.config().vocab_size);
        let of_step = |step: usize, by: f64| {
            let row = Tensor::new(rows.dtype(), [1, width], rows.bytes()[step * row..][..row].to_vec()).expect("a row");
            Tensor::stored(Storage::F32, [1, width], row.values::<f64>().iter().map(|z| by * z)).expect("a row")
        };
        for (given, by) in [(read, 1.0), (read + 1, 1.0), (read + 1, 1.01)] {
            let steps: Vec<(String, Tensor<'_>)> = (0..3).map(|i| (format!("logits.{i}"), of_step(i, by))).collect();
            let steps: Vec<(&str, Tensor<'_>)> = steps.iter().map(|(name, of)| (&name[..], of.clone())).collect();
            let dump = rewritten(&dump, folder.path(), |_| None, &steps);
            let found = requests_of(&model, dump, Some(&text(&drawn[..given]))).expect("a prompt, and two more");
            assert_eq!((found[0].steps.concat(), found[0].likeliest), (drawn[..read].to_vec(), 0), "{case}, {given}");
            let is_right = faults(&reports(&model, &found[0])).is_empty();
            assert_eq!(is_right, by == 1.0, "{case}, {given}");
        }
    }
}
