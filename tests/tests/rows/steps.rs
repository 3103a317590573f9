//! Calls that begin in the middle, or anew: decoding alone, and prompts each with its own tokens beside it.

use fixtures::names::at::At;
use fixtures::{Dtype, Tensor};

use super::laid::{Laid, one_each};
use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// The calls behind the first, without what would say their tokens or positions.
fn behind_the_prompt(dump: &Dump, folder: &Path, is_shown: impl Fn(Site) -> bool) -> Dump {
    let name = |name: &str| {
        let (step, path) = At::split(name);
        let site: Site = path.parse().ok()?;
        let says_place = matches!(site, Site::Embedding | Site::RopeCos | Site::RopeSin);
        let behind = step.checked_sub(1).filter(|_| !says_place && is_shown(site))?;
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
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!((one.steps.len(), one.values.request().map(|own| own.absent)), (3, Some(begins)), "{case}");
            assert_all_right(case, &found, &model);
            let dump = behind_the_prompt(&off, other.path(), is_shown);
            let found = requests_of(&model, dump, Some(&all)).expect("its rows are known");
            let faults = faults(&reports(&model, &found[0]));
            assert!(faults.iter().any(|(_, site, _)| *site == wrong), "{case}: {faults:?}");
        }
    }
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
        let name = |name: &str| {
            let says_place = At::split(name)
                .1
                .parse()
                .is_ok_and(|site: Site| matches!(site, Site::Embedding | Site::RopeCos | Site::RopeSin));
            (!says_place).then(|| name.to_owned())
        };
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

/// Prompts one behind the other, and where each begins.
#[test]
fn prompts_by_where_they_begin() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let packed = [&A[..], &B].concat();
        let positions: Vec<usize> = (0..A.len()).chain(0..B.len()).collect();
        let call = json!({ "tokens": [packed], "positions": [positions] });
        let numbers = [0, A.len(), packed.len()].map(|at| i64::try_from(at).expect("small").to_le_bytes()).concat();
        let begins = Tensor::new(Dtype::I64, [3], numbers).expect("three");
        let dump = unstated(&model, vec![call]).write(folder.path());
        let more = [("input_ids", ids(&packed)), ("cu_seqlens", begins)];
        let dump = rewritten(&dump, folder.path(), |name| Some(name.to_owned()), &more);
        let found = requests_of(&model, dump, None).expect("two prompts");
        assert_eq!(found.iter().map(|one| one.steps.concat()).collect::<Vec<_>>(), [A.to_vec(), B.to_vec()], "{case}");
        assert_all_right(case, &found, &model);
    }
}
