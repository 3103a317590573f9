//! Rows that change places between calls, as those of a beam search: each request's are found by values.

use fixtures::Tensor;
use fixtures::names::at::At;
use reference::RoundingContract;
use reference::site::Extent;
use tests::mistaken::computed;
use tools::judge::candidate::Candidate;

use super::laid::{Laid, one_each};
use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// Which list of those that are laid out each row of a call is: both of the prompt, two beams, both of which go on from the first
/// of these, and then in one another's places.
const ROWS: [[usize; 2]; 4] = [[0, 1], [0, 2], [0, 1], [1, 0]];

/// The rows of each request: of both that go on to the end, and of the beam that is left behind.
const FOUND: [&[usize]; 3] = [&[1, 1], &[0, 0, 1, 0], &[0, 0, 0, 1]];

/// Tokens behind others, the likeliest first.
fn likeliest(model: &Model, tokens: &[u32]) -> Vec<u32> {
    let semantics = model.semantics().expect("it is known");
    let decoder = Decoder::new(model.checkpoint.config(), semantics, &model.checkpoint).expect("it fits");
    let live = computed(&decoder, tokens, RoundingContract::EAGER_F32);
    let extent = Extent::new(tokens.len(), tokens.len());
    let logits = live.matrix(At { step: 0, site: Site::Logits }, extent).expect("it was captured");
    let last = logits.row(tokens.len() - 1).to_vec();
    let mut order: Vec<usize> = (0..last.len()).collect();
    order.sort_by(|&a, &b| last[b].total_cmp(&last[a]));
    order.into_iter().map(|token| u32::try_from(token).expect("small")).collect()
}

/// The calls of three lists, of which a search for two beams has [`ROWS`]. `rank` of a number is which of the likeliest tokens goes on.
fn calls(model: &Model, rank: impl Fn(usize) -> usize) -> Vec<Value> {
    let then = |tokens: &[u32], number: usize| likeliest(model, tokens)[rank(number)];
    let (x, y) = (then(&A, 0), then(&A, 1));
    let behind = [&A[..], &[x]].concat();
    let (u, v) = (then(&behind, 0), then(&behind, 1));
    let [b, a] = [u, v].map(|token| then(&[&behind[..], &[token]].concat(), 0));
    vec![json!({ "tokens": [A, A, A] }), one_each(&[x, x, y]), one_each(&[u, v, 0]), one_each(&[b, a, 0])]
}

/// A dump with these lists of each call alone.
fn searched(dump: &Dump, folder: &Path, keeps: impl Fn(&str) -> bool) -> Dump {
    let of_beams = |name: &str| {
        let (tensor, rows) = (dump.tensor(name).expect("it is there"), ROWS[At::split(name).0]);
        let each = tensor.bytes().len() / 3;
        let bytes: Vec<u8> = rows.iter().flat_map(|list| tensor.bytes()[list * each..][..each].to_vec()).collect();
        Tensor::new(tensor.dtype(), [&[2], &tensor.shape()[1..]].concat(), bytes).expect("two of three lists")
    };
    let names: Vec<&str> = dump.names().filter(|name| keeps(At::split(name).1)).collect();
    let tensors: Vec<(&str, Tensor<'static>)> = names.into_iter().map(|name| (name, of_beams(name))).collect();
    rewritten(dump, folder, |_| None, &tensors)
}

#[test]
fn each_row_goes_on_from_the_row_whose_keys_give_its_values() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = unstated(&model, calls(&model, |number| number)).write(folder.path());
        let is_stream = |path: &str| {
            path == "logits" || {
                path == "model.embed_tokens" || path.starts_with("model.layers.") && path.matches('.').count() == 2
            }
        };
        let is_before_head = |path: &str| !["lm_head", "logits"].contains(&path);
        let keeps: [&dyn Fn(&str) -> bool; 3] = [&|_| true, &is_stream, &is_before_head];
        for keeps in keeps {
            for given in [Some(text(&A)), Some(json!([A, A]).to_string()), None] {
                let dump = searched(&dump, folder.path(), keeps);
                let found = requests_of(&model, dump, given.as_deref()).expect("its rows are known");
                let beams: Vec<Option<Vec<usize>>> = found.iter().map(|one| one.beam.clone()).collect();
                assert_eq!(beams, FOUND.map(|rows| Some(rows.to_vec())), "{case}");
                assert_all_right(case, &found, &model);
            }
        }
    }
}

/// A fault stays one, in the request that has it.
#[test]
fn a_beam_that_is_wrong_is_at_fault() {
    let broken = Site::Layer(1, LayerSite::OProj);
    let change = |list: usize, position: usize, site: Site, x: &mut f64| {
        if (list, position, site) == (1, A.len() + 1, broken) {
            *x *= 1.01;
        }
    };
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = Laid { change: &change, ..unstated(&model, calls(&model, |number| number)) }.write(folder.path());
        let dump = searched(&dump, folder.path(), |_| true);
        let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
        assert_all_right(case, &found[..1], &model);
        assert_all_right(case, &found[2..], &model);
        let expected = [(2, broken, 0), (2, Site::Layer(1, LayerSite::Attention), 0)];
        assert_eq!(faults(&reports(&model, &found[1])), expected, "{case}");
    }
}

/// Of tokens that no beam search chooses, rows may be those of a cache that were mixed up: nothing is said of them.
#[test]
fn rows_that_no_search_exchanges_are_refused() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = unstated(&model, calls(&model, |number| 150 + number)).write(folder.path());
    let dump = searched(&dump, folder.path(), |_| true);
    let refused = requests_of(&model, dump, Some(&text(&A))).expect_err("they may be either");
    assert!(refused.contains("their tokens are not the likeliest behind these"), "{refused}");
    // What no logits tell may be either, too.
    let dump = unstated(&model, calls(&model, |number| number)).write(folder.path());
    let dump = searched(&dump, folder.path(), |path| !["model.norm", "lm_head", "logits"].contains(&path));
    let refused = requests_of(&model, dump, Some(&text(&A))).expect_err("they may be either");
    assert!(refused.contains("neither logits nor the last norm's output say whether these are likely"), "{refused}");
}
