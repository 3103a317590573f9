//! Steps whose rows behind the request's are of nobody: a graph's batch, filled up.

use serde_json::json;

use super::laid::Laid;
use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

const DECODED: [u32; 3] = [8, 1, 4];

/// The prompt, then each token beside three others, all of requests that begin there.
fn calls(beside: impl Fn(u32) -> [u32; 3]) -> Vec<Value> {
    let step = |(number, token): (usize, u32)| {
        let tokens: Vec<[u32; 1]> = [token].into_iter().chain(beside(token)).map(|token| [token]).collect();
        let first = 3 * number + 1;
        json!({ "tokens": tokens, "requests": [0, first, first + 1, first + 2] })
    };
    std::iter::once(json!({ "tokens": [A] })).chain(DECODED.into_iter().enumerate().map(step)).collect()
}

/// A request's own rows are right, or one of them is wrong, whatever stands behind them.
#[test]
fn rows_behind_those_of_each_step() {
    let said = text(&[&A[..], &DECODED].concat());
    let wrong = Site::Layer(1, LayerSite::Output);
    let zeros = |request: usize, _: usize, _: Site, x: &mut f64| {
        if request > 0 {
            *x = 0.0;
        }
    };
    let off = |request: usize, position: usize, site: Site, x: &mut f64| {
        if (request, position, site) == (0, A.len() + 1, wrong) {
            *x *= 1.05;
        }
    };
    let again = calls(|token| [token; 3]);
    let old = calls(|_| [3, 29, 11]);
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        // What has a column for each key, or block of keys, has a list for each row.
        let has_keys = |site: Site| site.token_axis(model.checkpoint.config()) == Some(1);
        let flat = |_: usize, site: Site| if has_keys(site) { Form::Absent } else { Form::Flat };
        let found = |laid: Laid<'_>| {
            let found = requests_of(&model, laid.write(folder.path()), Some(&said)).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!((one.filled, one.steps.len()), (9, 4), "{case}");
            assert_eq!(one.steps.concat(), [&A[..], &DECODED].concat(), "{case}");
            found
        };
        let plain = |calls: &[Value]| unstated(&model, calls.to_vec());
        assert_all_right(case, &found(plain(&again)), &model);
        assert_all_right(case, &found(Laid { form: &flat, ..plain(&old) }), &model);
        assert_all_right(case, &found(Laid { change: &zeros, ..plain(&old) }), &model);
        let faults = faults(&reports(&model, &found(Laid { change: &off, form: &flat, ..plain(&again) })[0]));
        assert!(faults.iter().any(|(step, site, _)| (*step, *site) == (2, wrong)), "{case}: {faults:?}");
    }
}

/// Drafts that were all rejected, alike behind each token, as looked up in a prompt that has them there.
#[test]
fn drafts_that_may_have_been_looked_up_are_not_left_out() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let prompt = [8, 3, 29, 11, 1, 3, 4, 3];
    let step = |(number, token): (usize, u32)| {
        let positions: Vec<usize> = (prompt.len() + number..).take(4).collect();
        json!({ "tokens": [[token, 3, 29, 11]], "positions": [positions] })
    };
    let first = json!({ "tokens": [prompt], "positions": [(0..prompt.len()).collect::<Vec<_>>()] });
    let calls = std::iter::once(first).chain(DECODED.into_iter().enumerate().map(step)).collect();
    let dump = unstated(&model, calls).write(folder.path());
    // Where no table shows positions.
    let is_table = |name: &str| name.contains("rotary_emb");
    let dump = rewritten(&dump, folder.path(), |name| (!is_table(name)).then(|| name.to_owned()), &[]);
    let found = requests_of(&model, dump, Some(&text(&[&prompt[..], &DECODED].concat())));
    let found = found.expect("its rows are known");
    assert_eq!((found[0].filled, &found[0].steps[1..]), (0, &DECODED.map(|token| vec![token, 3, 29, 11])[..]));
    assert_all_right("drafts", &found, &model);
}
