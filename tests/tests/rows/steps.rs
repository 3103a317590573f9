//! Calls that begin in the middle, or anew: decoding alone, and prompts each with its own tokens beside it.

use fixtures::names::at::At;
use fixtures::{Dtype, Tensor};

use super::laid::{Laid, one_each, second_call};
use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// Whether what has a name says tokens or positions.
fn says_place(path: &str) -> bool {
    path.parse().is_ok_and(|site: Site| matches!(site, Site::Embedding | Site::RopeCos | Site::RopeSin))
}

/// The calls behind the first, without what would say their tokens or positions.
fn behind_the_prompt(dump: &Dump, folder: &Path, is_shown: impl Fn(Site) -> bool) -> Dump {
    let name = |name: &str| {
        let (step, path) = At::split(name);
        let site: Site = path.parse().ok()?;
        let behind = step.checked_sub(1).filter(|_| !says_place(path) && is_shown(site))?;
        Some(if behind == 0 { path.to_owned() } else { format!("step.{behind}.{path}") })
    };
    rewritten(dump, folder, name, &[])
}

/// Hooks that are set behind the prompt, while tokens are decoded.
#[test]
fn decoding_alone() {
    let all = text(&[&A[..], &[8, 1, 4]].concat());
    let is_stream = |site: Site| site == Site::FinalNorm || matches!(site, Site::Layer(_, LayerSite::Output));
    let shown: [&dyn Fn(Site) -> bool; 2] = [&|_| true, &is_stream];
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let wrong = Site::Layer(1, LayerSite::Output);
        let change = |_: usize, position: usize, site: Site, x: &mut f64| {
            if (position, site) == (A.len() + 1, wrong) {
                *x *= 1.05;
            }
        };
        let calls = || vec![json!({ "tokens": [A] }), one_each(&[8]), one_each(&[1]), one_each(&[4])];
        let right = unstated(&model, calls()).write(folder.path());
        let other = tempfile::tempdir().expect("a temporary folder");
        let off = Laid { change: &change, ..unstated(&model, calls()) }.write(other.path());
        for (is_shown, begins) in shown.into_iter().zip([A.len(), 0]) {
            let dump = behind_the_prompt(&right, folder.path(), is_shown);
            let found = requests_of(&model, dump, Some(&all)).expect("its rows are known");
            // Where operators are judged by themselves, once more with what tokens make of the prompt.
            assert_eq!(found.len(), if begins > 0 { 2 } else { 1 }, "{case}");
            let one = &found[0];
            assert_eq!((one.steps.len(), one.values.request().map(|own| own.absent)), (3, Some(begins)), "{case}");
            assert_all_right(case, &found, &model);
            let dump = behind_the_prompt(&off, other.path(), is_shown);
            let found = requests_of(&model, dump, Some(&all)).expect("its rows are known");
            let faults = faults(&reports(&model, &found[0]));
            assert!(faults.iter().any(|(_, site, _)| *site == wrong), "{case}: {faults:?}");
        }
    }
}

/// What has a column for each key, or for each block of keys, or has blocks.
pub(super) const OF_KEYS: [LayerSite; 6] = [
    LayerSite::Scores,
    LayerSite::Probabilities,
    LayerSite::TokenScores,
    LayerSite::BlockMax,
    LayerSite::BlockScore,
    LayerSite::Blocks,
];

/// Numbers in one list.
fn whole_numbers(numbers: &[usize]) -> Tensor<'static> {
    let bytes = numbers.iter().flat_map(|x| i64::try_from(*x).expect("small").to_le_bytes());
    Tensor::new(Dtype::I64, [numbers.len()], bytes.collect::<Vec<u8>>()).expect("one list")
}

fn ids(tokens: &[u32]) -> Tensor<'static> {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| i64::from(*token).to_le_bytes()).collect();
    Tensor::new(Dtype::I64, [1, tokens.len()], bytes).expect("one list")
}

/// Prompts and chunks of one, each call's tokens beside its values: these tell which of both it is.
#[test]
fn calls_with_tokens_of_their_own() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let call = |request: usize, tokens: &[u32]| json!({ "tokens": [tokens], "requests": [request] });
        let name = |name: &str| (!says_place(At::split(name).1)).then(|| name.to_owned());
        let more = || [("input_ids", ids(&A)), ("step.1.input_ids", ids(&B))];
        let alone = unstated(&model, vec![call(0, &A), call(1, &B)]).write(folder.path());
        let found = requests_of(&model, rewritten(&alone, folder.path(), name, &more()), None).expect("two prompts");
        assert_eq!(found.iter().map(|one| one.steps.concat()).collect::<Vec<_>>(), [A.to_vec(), B.to_vec()], "{case}");
        assert_all_right(case, &found, &model);
        let other = tempfile::tempdir().expect("a temporary folder");
        let chunks = unstated(&model, vec![call(0, &A), call(0, &B)]).write(other.path());
        let refused =
            requests_of(&model, rewritten(&chunks, other.path(), name, &more()), None).map(|found| found.len());
        assert!(refused.is_err(), "{case}: {refused:?}");
    }
}

/// Prompts one behind the other, and where each begins, or how long it is.
#[test]
fn prompts_by_where_they_begin() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let packed = [&A[..], &B].concat();
        let positions: Vec<usize> = (0..A.len()).chain(0..B.len()).collect();
        let call = json!({ "tokens": [packed], "positions": [positions] });
        let dump = unstated(&model, vec![call]).write(folder.path());
        for said in [("cu_seqlens", vec![0, A.len(), packed.len()]), ("seq_lens", vec![A.len(), B.len()])] {
            let more = [("input_ids", ids(&packed)), (said.0, whole_numbers(&said.1))];
            let dump = rewritten(&dump, folder.path(), |name| Some(name.to_owned()), &more);
            let found = requests_of(&model, dump, None).expect("two prompts");
            let steps: Vec<Vec<u32>> = found.iter().map(|one| one.steps.concat()).collect();
            assert_eq!(steps, [A.to_vec(), B.to_vec()], "{case}, {}", said.0);
            assert_all_right(case, &found, &model);
        }
    }
}

/// The steps of a server, each with its tokens and their positions: of two prompts of which one comes in parts and both go on side by
/// side, and of one whose drafts are rejected.
#[test]
fn steps_of_a_server_say_their_tokens_and_positions() {
    let together = [
        (vec![5, 17, 3, 8, 1], vec![0, 1, 2, 0, 1], vec![0, 3, 5], vec![0, 1]),
        (vec![29, 30, 6], vec![3, 2, 3], vec![0, 1, 3], vec![0, 1]),
        (vec![11, 4], vec![4, 4], vec![0, 1, 2], vec![0, 1]),
    ];
    let drafts = [
        (vec![5, 17, 3], vec![0, 1, 2], vec![0, 3], vec![0]),
        (vec![29, 7, 9], vec![3, 4, 5], vec![0, 3], vec![0]),
        (vec![11, 2, 6], vec![4, 5, 6], vec![0, 3], vec![0]),
    ];
    // Of a graph that takes four rows.
    let filled = [
        (vec![5, 17, 3, 0], vec![0, 1, 2, 0], vec![0, 3], vec![0]),
        (vec![29, 0, 0, 0], vec![3, 0, 0, 0], vec![0, 1], vec![0]),
        (vec![11, 0, 0, 0], vec![4, 0, 0, 0], vec![0, 1], vec![0]),
    ];
    let together = (&together, true, vec![vec![5, 17, 3, 29, 11], vec![8, 1, 30, 6, 4]]);
    let drafts = (&drafts, false, vec![vec![5, 17, 3, 29, 7, 9, 11, 2, 6]]);
    let [filled, counted] = [false, true].map(|says_begins| (&filled, says_begins, vec![vec![5, 17, 3, 29, 11]]));
    let served = [together, drafts, filled, counted];
    for case in CASES {
        let model = open(case);
        for (steps, says_begins, read) in &served {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let call = |(tokens, positions, begins, requests): &(Vec<u32>, Vec<usize>, Vec<usize>, Vec<usize>)| {
                let mask: Vec<u8> = (0..tokens.len()).map(|slot| u8::from(Some(&slot) < begins.last())).collect();
                json!({ "tokens": [tokens], "positions": [positions], "cu_seqlens": begins, "requests": requests, "mask": [mask] })
            };
            let packed = |_: usize, site: Site| match site {
                // Of requests side by side one has more keys than the other.
                Site::Layer(_, of) if OF_KEYS.contains(&of) => Form::Absent,
                _ => Form::Flat,
            };
            let calls = steps.iter().map(call).collect();
            let dump = Laid { form: &packed, ..unstated(&model, calls) }.write(folder.path());
            let named = |number: usize, what: &str| format!("step.{number}.{what}");
            let more: Vec<(String, Tensor<'_>)> = steps
                .iter()
                .enumerate()
                .flat_map(|(number, (tokens, positions, begins, _))| {
                    let tokens: Vec<usize> = tokens.iter().map(|token| *token as usize).collect();
                    let own = [("input_ids", tokens), ("positions", positions.clone())].into_iter();
                    let filled = [&begins[..], &begins[begins.len() - 1..]].concat();
                    let begins = says_begins.then_some(("query_start_loc", filled));
                    own.chain(begins).map(move |(what, of)| (named(number, what), whole_numbers(&of)))
                })
                .collect();
            let more: Vec<(&str, Tensor<'_>)> = more.iter().map(|(name, of)| (&name[..], of.clone())).collect();
            let dump = rewritten(&dump, folder.path(), |name| Some(name.to_owned()), &more);
            let found = requests_of(&model, dump, None).expect("its rows are known");
            let filled: usize =
                steps.iter().map(|(tokens, _, begins, _)| tokens.len() - begins[begins.len() - 1]).sum();
            assert!(found.iter().all(|one| one.filled == filled), "{case}");
            assert_eq!(&found.iter().map(|one| one.steps.concat()).collect::<Vec<_>>(), read, "{case}");
            assert_all_right(case, &found, &model);
        }
    }
}

/// A server runs one token over and over before it takes requests, or another prompt: such a call is left out, whatever is in it.
#[test]
fn calls_of_other_tokens_before_the_prompt_are_left_out() {
    for (case, (first, said)) in CASES.into_iter().flat_map(|case| {
        let all = text(&[&A[..], &[8]].concat());
        [([7; 6], None), ([7; 6], Some(all.clone())), ([9, 4, 9, 6, 1, 2], Some(all))].map(|of| (case, of))
    }) {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let call = |request: usize, tokens: &[u32]| json!({ "tokens": [tokens], "requests": [request] });
        let calls = vec![call(0, &first), call(1, &A), call(1, &[8])];
        // Its attention read nothing.
        let change = |call: usize, _: usize, site: Site, x: &mut f64| {
            if call == 0 && matches!(site, Site::Layer(_, LayerSite::Attention)) {
                *x = 0.0;
            }
        };
        let dump = Laid { change: &change, ..unstated(&model, calls) }.write(folder.path());
        let is_table = |name: &str| name.contains("rotary_emb");
        let dump = rewritten(&dump, folder.path(), |name| (!is_table(name)).then(|| name.to_owned()), &[]);
        let found = requests_of(&model, dump, said.as_deref()).expect("one prompt");
        let [one] = &found[..] else { panic!("{case}: one request") };
        assert_eq!((one.aside, one.steps.concat()), (1, [&A[..], &[8]].concat()), "{case}");
        assert_all_right(case, &found, &model);
    }
}

/// A dictionary with each request's under its name, or a list with what was computed of each beside what went in.
#[test]
fn requests_by_their_names() {
    let named = ["cmpl-7fa3e1.", "cmpl-9b22c0."].map(|request| (request.to_owned(), request.to_owned()));
    let listed = ["0.", "1."].map(|request| (request.to_owned(), format!("{request}activations.")));
    let joined = ["a_", "b_"].map(|request| (request.to_owned(), request.to_owned()));
    let numbered = ["prompt_0_", "prompt_1_"].map(|request| (request.to_owned(), request.to_owned()));
    let all = [&named, &listed, &joined, &numbered];
    for (case, requests) in CASES.into_iter().flat_map(|case| all.map(|requests| (case, requests))) {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let call = |request: usize, tokens: &[u32]| json!({ "tokens": [tokens], "requests": [request] });
        let name = |name: &str| {
            let (step, path) = At::split(name);
            (!says_place(path)).then(|| format!("{}{path}", requests[step].1))
        };
        let fed = [0, 1].map(|request: usize| format!("{}prompt_token_ids", requests[request].0));
        let more = [(&fed[0][..], ids(&A)), (&fed[1][..], ids(&B))];
        let dump = unstated(&model, vec![call(0, &A), call(1, &B)]).write(folder.path());
        let found = requests_of(&model, rewritten(&dump, folder.path(), name, &more), None).expect("two prompts");
        assert_eq!(found.iter().map(|one| one.steps.concat()).collect::<Vec<_>>(), [A.to_vec(), B.to_vec()], "{case}");
        assert_all_right(case, &found, &model);
    }
}

/// Where the tokens of the prefix are given, too, attention is judged with what they make of it.
#[test]
fn a_prefix_from_a_cache_whose_tokens_are_said() {
    let model = open(CASES[0]);
    let calls = || vec![json!({ "tokens": A }), json!({ "tokens": B, "positions": [7, 8, 9, 10] })];
    let wrong = Site::Layer(0, LayerSite::Context);
    for by in [1.0, 1.01] {
        let change = |_: usize, position: usize, site: Site, x: &mut f64| {
            if (position, site) == (9, wrong) {
                *x *= by;
            }
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let both = Laid { change: &change, ..whole(&model, calls()) }.write(folder.path());
        let tail = second_call(&both, &calls()[1], folder.path());
        let found = requests_of(&model, tail, Some(&text(&[&A[..], &B].concat()))).expect("its rows are known");
        let found: Vec<Vec<SiteReport>> = found.iter().map(|dumped| reports(&model, dumped)).collect();
        let is_fault = |request: usize| {
            let own = found[request].iter().filter(|report| report.verdict == Verdict::Fault);
            own.map(|report| report.site).collect::<Vec<Site>>().contains(&wrong)
        };
        assert_eq!((found.len(), is_fault(0), is_fault(1)), (2, false, by > 1.0));
        let are_right = found.iter().all(|request| faults(request).is_empty());
        assert_eq!(are_right, by == 1.0);
    }
}
