//! Several prompts that were run one after another, of which a manifest states the tokens and where each call began.

use fixtures::{Dtype, Tensor};

use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::steps::OF_KEYS;
use super::*;

/// What is read with nothing in the cache is another prompt, unless it is the one before and more. Of those that were run, one may be
/// said, and the others were run beside it.
#[test]
fn prompts_that_were_run_one_after_another() {
    let more = [&A[..], &[8]].concat();
    for case in CASES {
        let model = open(case);
        let call = |tokens: &[u32], first: usize| json!({ "tokens": [tokens], "first": first });
        let one_by_one = || vec![call(&A, 0), call(&[8], 7), call(&B, 0), call(&[3], 4), call(&B, 0)];
        let found = of(&whole(&model, one_by_one()));
        assert_right(case, &found, 3);
        assert_right(&format!("{case} without a cache"), &of(&whole(&model, vec![call(&A, 0), call(&more, 0)])), 1);
        assert_right(&format!("{case}, one said"), &of_file(&whole(&model, one_by_one()), &json!({ "tokens": B })), 3);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = whole(&model, one_by_one()).write(folder.path());
        let given = Given { tokens: Some("1,2,3".into()), ..Given::default() };
        let failed = Dumped::of(dump, &given, &model).expect_err("no prompt is this").to_string();
        assert_eq!(failed, "the dump has rows of 3 requests, and 1 prompt came with it");
    }
}

/// One list of tokens is several prompts where the positions that were saved beside it begin at 0 again.
#[test]
fn one_list_may_be_prompts_one_behind_the_other() {
    let form = |_: usize, site: Site| match site {
        Site::LmHead | Site::Logits => Form::Last,
        Site::Layer(_, LayerSite::BlockMax | LayerSite::BlockScore | LayerSite::Blocks) => Form::Absent,
        _ => Form::Flat,
    };
    let broken = Site::Layer(1, LayerSite::OProj);
    let change = |request: usize, position: usize, site: Site, x: &mut f64| {
        if (request, position, site) == (1, 2, broken) {
            *x *= 1.01;
        }
    };
    let both = [&A[..], &B].concat();
    let positions = (0..A.len()).chain(0..B.len()).flat_map(|position| (position as u64).to_le_bytes());
    let positions = Tensor::new(Dtype::I64, [both.len()], positions.collect::<Vec<u8>>()).expect("as many");
    for case in CASES {
        let model = open(case);
        let read = |laid: Laid<'_>| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let dump = Laid { form: &form, states: false, ..laid }.write(folder.path());
            let more = [("position_ids", positions.clone())];
            let dump = rewritten(&dump, folder.path(), |name| Some(name.to_owned()), &more);
            requests_of(&model, dump, Some(&text(&both))).expect("its rows are known")
        };
        let calls = || vec![json!({ "tokens": both, "cu_seqlens": [0, A.len(), both.len()] })];
        let found = read(whole(&model, calls()));
        assert_eq!(found.iter().map(|one| one.steps.concat()).collect::<Vec<_>>(), [A.to_vec(), B.to_vec()], "{case}");
        assert_all_right(case, &found, &model);
        let found = read(Laid { change: &change, ..whole(&model, calls()) });
        let of_each: Vec<usize> = found.iter().map(|one| faults(&reports(&model, one)).len()).collect();
        assert_eq!(of_each, [0, 2], "{case}");
    }
}

/// As of `generate_batch`: prompts one behind the other, then a token of each in every call. Their tokens are said with all that was
/// decoded, in any order, or without; one is wrong.
#[test]
fn requests_that_a_server_runs_together() {
    let form = |_: usize, site: Site| match site {
        Site::LmHead | Site::Logits => Form::Last,
        Site::Layer(_, of) if OF_KEYS.contains(&of) => Form::Absent,
        _ => Form::Flat,
    };
    let broken = Site::Layer(1, LayerSite::OProj);
    let change = |request: usize, position: usize, site: Site, x: &mut f64| {
        if (request, position, site) == (1, B.len(), broken) {
            *x *= 1.01;
        }
    };
    let read = [[&A[..], &[8, 1]].concat(), [&B[..], &[3, 9]].concat()];
    let all = read.each_ref().map(|read| [&read[..], &[6]].concat());
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let packed =
            |tokens: &[u32], ends: [usize; 2]| json!({ "tokens": tokens, "cu_seqlens": [0, ends[0], ends[1]] });
        let prompts = [&A[..], &B].concat();
        let calls = vec![packed(&prompts, [A.len(), prompts.len()]), packed(&[8, 3], [1, 2]), packed(&[1, 9], [1, 2])];
        let dump = Laid { form: &form, change: &change, ..unstated(&model, calls) }.write(folder.path());
        for given in [json!([&all[1], &all[0]]), json!([&read[0], &read[1]]), json!([A.to_vec(), B.to_vec()])] {
            let found = requests_of(&model, dump.clone(), Some(&given.to_string())).expect("its rows are known");
            assert_eq!(found.iter().map(|one| one.steps.concat()).collect::<Vec<_>>(), read, "{case}, {given}");
            let of_each: Vec<bool> = found.iter().map(|one| faults(&reports(&model, one)).is_empty()).collect();
            assert_eq!(of_each, [true, false], "{case}, {given}");
        }
    }
}
