//! Dumps whose rows are not one prompt: each request is judged alone, whatever the layout.

mod answers;
mod beams;
mod embedded;
mod generated;
mod graphed;
mod laid;
mod lists;
mod named;
mod otherwise;
mod padding;
mod phased;
mod prompts;
mod refused;
mod shown;
mod steps;
mod told;
mod unsaid;

use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::rows::stated::{self, StatedCall};
use reference::models::decoder::Decoder;
use reference::{LayerSite, Site};
use serde_json::{Value, json};
use tools::judge::lens::Lens;
use tools::judge::verdict::{JudgedBy, SiteReport, Verdict};
use tools::judge::verification::Verification;
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;

use laid::{Form, Laid, one_each, padded};

const A: [u32; 7] = [5, 17, 3, 29, 11, 2, 23];
const B: [u32; 4] = [8, 1, 30, 6];

/// The cases whose models are used: M2, and M3 with blocks of keys.
const CASES: [&str; 2] = ["m2-gqa3-f32", "m3-gqa4-f32"];

fn open(case: &str) -> Model {
    Model::open(case).expect("it is built in")
}

fn in_batch(_: usize, _: Site) -> Form {
    Form::Batch
}

fn as_it_is(_: usize, _: usize, _: Site, _: &mut f64) {}

/// Of calls that the manifest states, in batches, unchanged.
fn whole(model: &Model, calls: Vec<Value>) -> Laid<'_> {
    Laid { model, calls, form: &in_batch, change: &as_it_is, beyond: 0, states: true }
}

/// What is said of each request of a dump, by all lenses.
fn judged(model: &Model, dump: Dump, tokens: Option<&Path>) -> Vec<Vec<SiteReport>> {
    let tokens = tokens.map(|path| format!("@{}", path.display()));
    let requests = Dumped::of(dump, &Given { tokens, ..Given::default() }, model).expect("its rows are known");
    requests.iter().map(|dumped| reports(model, dumped)).collect()
}

fn reports(model: &Model, dumped: &Dumped) -> Vec<SiteReport> {
    let decoder = Decoder::new(model.checkpoint.config(), dumped.semantics, &model.checkpoint).expect("it fits");
    let verification = Verification {
        model: &decoder,
        candidate: &dumped.values,
        contract: dumped.known.contract,
        steps: &dumped.steps,
        prompt: dumped.prompt.tokens.len(),
        lenses: &[Lens::Local, Lens::Layer, Lens::Global],
        layers: 0..decoder.config().num_hidden_layers,
        keep: None,
    };
    verification.run(|| ()).expect("it can be put next to the reference").sites
}

/// Laid out and judged.
fn of(laid: &Laid<'_>) -> Vec<Vec<SiteReport>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = laid.write(folder.path());
    // Its own calls say which tokens: a built-in case's are other ones.
    let model = Model { case: None, ..open(&laid.model.name) };
    judged(&model, dump, None)
}

/// The same with the tokens in a file, as a tokenizer writes them.
fn of_file(laid: &Laid<'_>, tokens: &Value) -> Vec<Vec<SiteReport>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = laid.write(folder.path());
    let file = folder.path().join("tokens.json");
    std::fs::write(&file, tokens.to_string()).expect("writable");
    judged(laid.model, dump, Some(&file))
}

fn assert_right(what: &str, requests: &[Vec<SiteReport>], expected: usize) {
    assert_eq!(requests.len(), expected, "{what}");
    for (number, reports) in requests.iter().enumerate() {
        assert!(reports.len() > 20, "{what}: request {number} has {} comparisons", reports.len());
        let wrong = reports.iter().find(|report| report.verdict > Verdict::Tie);
        assert!(wrong.is_none(), "{what}, request {number}: {wrong:#?}");
    }
}

/// Local faults: their passes, sites, and tokens.
fn faults(reports: &[SiteReport]) -> Vec<(usize, Site, usize)> {
    let local = reports.iter().filter(|report| report.lens == Lens::Local && report.verdict == Verdict::Fault);
    local.map(|report| (report.step, report.site, report.worst.as_ref().map_or(usize::MAX, |w| w.index[0]))).collect()
}

fn tokenizers(calls: &Value, decoded: Option<&[&[u32]]>) -> Value {
    let mut file = json!({ "input_ids": calls["tokens"], "attention_mask": calls["mask"] });
    if let Some(decoded) = decoded {
        file["decode"] = json!({ "tokens": decoded });
    }
    file
}

#[test]
fn a_batch_with_padding_on_either_side() {
    for case in CASES {
        let model = open(case);
        for left in [true, false] {
            let call = padded(&[&A, &B, &A], left);
            let dump = whole(&model, vec![call.clone()]);
            assert_right(&format!("{case} {left} stated"), &of(&dump), 3);
            let unstated = Laid { states: false, ..whole(&model, vec![call.clone()]) };
            assert_right(&format!("{case} {left} in a file"), &of_file(&unstated, &tokenizers(&call, None)), 3);
        }
    }
}

#[test]
fn of_a_batch_only_the_broken_request_is_at_fault() {
    let broken = Site::Layer(1, LayerSite::OProj);
    let change = |request: usize, position: usize, site: Site, x: &mut f64| {
        if (request, position, site) == (1, 2, broken) {
            *x *= 1.01;
        }
    };
    for case in CASES {
        let model = open(case);
        let dump = Laid { change: &change, ..whole(&model, vec![padded(&[&A, &B], true)]) };
        let found = of(&dump);
        assert_right(case, &found[..1], 1);
        // The next site is the same value, which was not changed there.
        let expected = [(0, broken, 2), (0, Site::Layer(1, LayerSite::Attention), 2)];
        assert_eq!(faults(&found[1]), expected, "{case}");
    }
}

#[test]
fn a_prompt_in_chunks_then_steps_of_several_rows() {
    for case in CASES {
        let model = open(case);
        let all = [&A[..], &B].concat();
        let calls: Vec<Value> = [0..3, 3..7, 7..8, 8..11].map(|rows| json!({ "tokens": all[rows] })).to_vec();
        assert_right(case, &of(&whole(&model, calls.clone())), 1);
        let unstated = Laid { states: false, ..whole(&model, calls) };
        let file = json!({ "tokens": A, "decode": { "tokens": B } });
        assert_right(case, &of_file(&unstated, &file), 1);
    }
}

#[test]
fn drafts_that_are_rejected_are_judged_and_then_replaced() {
    let calls = || {
        vec![
            json!({ "tokens": [A, A], "positions": [[0, 1, 2, 3, 4, 5, 6]] }),
            json!({ "tokens": [B, [9, 9, 9, 9]], "positions": [[7, 8, 9, 10]] }),
            json!({ "tokens": [[12, 13], [14, 15]], "positions": [[9, 10], [8, 9]] }),
        ]
    };
    for case in CASES {
        let model = open(case);
        assert_right(case, &of(&whole(&model, calls())), 2);
        // A key of a draft is at fault in its own pass alone: the token that took its place has another.
        let broken = Site::Layer(0, LayerSite::VProj);
        let change = |request: usize, position: usize, site: Site, x: &mut f64| {
            if (request, position, site) == (0, 10, broken) {
                *x += 0.5;
            }
        };
        let found = of(&Laid { change: &change, ..whole(&model, calls()) });
        let steps: Vec<usize> =
            faults(&found[0]).iter().filter(|fault| fault.1 == broken).map(|fault| fault.0).collect();
        assert_eq!(steps, [1, 2], "{case}");
        assert_right(case, &found[1..], 1);
    }
}

#[test]
fn requests_packed_one_behind_the_other() {
    let form = |_: usize, site: Site| match site {
        Site::LmHead | Site::Logits => Form::Last,
        Site::Layer(_, LayerSite::BlockMax | LayerSite::BlockScore | LayerSite::Blocks) => Form::Absent,
        _ => Form::Flat,
    };
    for case in CASES {
        let model = open(case);
        let both = [&A[..], &B].concat();
        let calls = vec![
            json!({ "tokens": both, "cu_seqlens": [0, 7, 11] }),
            json!({ "tokens": [4, 9], "cu_seqlens": [0, 1, 2] }),
        ];
        assert_right(case, &of(&Laid { form: &form, ..whole(&model, calls.clone()) }), 2);
        let unstated = Laid { form: &form, states: false, ..whole(&model, calls.clone()) };
        let stated = Laid { form: &form, ..whole(&model, calls) };
        let file = json!({ "tokens": [A.to_vec(), B.to_vec()], "decode": { "tokens": [[4], [9]] } });
        assert_right(case, &of_file(&unstated, &file), 2);
        // As they were asked for, and not as they were scheduled.
        let file = json!({ "tokens": [B.to_vec(), A.to_vec()], "decode": { "tokens": [[9], [4]] } });
        for laid in [&unstated, &stated] {
            assert_right(case, &of_file(laid, &file), 2);
        }
    }
}

/// The head's rows in a form, and all others in a batch.
fn head_in(form: Form) -> impl Fn(usize, Site) -> Form {
    move |_, site| if matches!(site, Site::LmHead | Site::Logits) { form } else { Form::Batch }
}

/// Logits of a request that are off at a position.
fn logits_off(request: usize, position: usize) -> impl Fn(usize, usize, Site, &mut f64) {
    move |of, at, site, x| {
        if (of, at, site) == (request, position, Site::Logits) {
            *x += 1.0;
        }
    }
}

#[test]
fn logits_of_the_last_rows_alone() {
    let (form, change) = (head_in(Form::Last), logits_off(1, 3));
    let model = open(CASES[0]);
    let calls = || vec![padded(&[&A, &B], true), one_each(&[4, 9])];
    let found = of(&Laid { form: &form, ..whole(&model, calls()) });
    assert_right("last rows", &found, 2);
    let counts = found[0].iter().filter(|report| report.site == Site::LmHead).map(|report| report.count);
    let vocabulary = model.checkpoint.config().vocab_size;
    assert_eq!(counts.collect::<Vec<_>>(), [vocabulary, vocabulary]);
    let found = of(&Laid { form: &form, change: &change, ..whole(&model, calls()) });
    assert_eq!(faults(&found[1]), [(0, Site::Logits, 3)]);
    // On the right the last slot is padding: there the shorter request shows no logits.
    let found = of(&Laid { form: &form, ..whole(&model, vec![padded(&[&A, &B], false)]) });
    assert_right("padded on the right", &found, 2);
    let logits = |reports: &[SiteReport]| reports.iter().any(|report| report.site == Site::Logits);
    assert!(logits(&found[0]) && !logits(&found[1]));
}

/// `logits_to_keep` with the numbers of slots, in any order, of lists of which one begins with padding.
#[test]
fn logits_of_the_slots_that_were_asked_for() {
    let (form, change) = (head_in(Form::Kept), logits_off(0, 1));
    let model = open(CASES[0]);
    let mut call = padded(&[&A, &B], true);
    call["logits"] = json!([6, 1, -3]);
    let found = of(&Laid { form: &form, ..whole(&model, vec![call.clone()]) });
    assert_right("kept rows", &found, 2);
    let vocabulary = model.checkpoint.config().vocab_size;
    for (reports, shown) in found.iter().zip([3, 2]) {
        let mut logits = reports.iter().filter(|report| report.site == Site::Logits);
        assert!(logits.all(|report| report.count == shown * vocabulary), "{shown} rows");
    }
    let found = of(&Laid { form: &form, change: &change, ..whole(&model, vec![call.clone()]) });
    assert_eq!(faults(&found[0]), [(0, Site::Logits, 1)]);
    let kept = |listed: Value| {
        let call = json!({ "tokens": [A], "logits": listed });
        stated::calls(&[serde_json::from_value::<StatedCall>(call).expect("a call")]).map(|calls| calls[0].kept.clone())
    };
    assert_eq!(kept(json!([false, true, false, false, false, false, true])), Ok(Some(vec![1, 6])));
    assert_eq!(kept(json!(3)), Ok(None));
    for (listed, what) in [(json!([7]), "7"), (json!([-8]), "-8"), (json!([[0, 1]]), "[0,1]")] {
        let problem = format!("call 0: logits of {what} were asked for, expected numbers of 7 slots");
        assert_eq!(kept(listed), Err(problem));
    }
}

/// As llama.cpp computes the last layer: from the residual on, of the last row.
#[test]
fn a_last_layer_of_one_row() {
    for case in CASES {
        let model = open(case);
        let last = model.checkpoint.config().num_hidden_layers - 1;
        let form = |_: usize, site: Site| match site {
            _ if site <= Site::Layer(last, LayerSite::Attention) => Form::Batch,
            _ => Form::Last,
        };
        let calls = || vec![json!({ "tokens": A }), json!({ "tokens": [4] })];
        let found = of(&Laid { form: &form, ..whole(&model, calls()) });
        assert_right(case, &found, 1);
        let of_last = |report: &&SiteReport| report.step == 0 && report.site > Site::Layer(last, LayerSite::Attention);
        let measured = found[0].iter().filter(of_last).filter(|report| report.lens == Lens::Local);
        let by_floor: Vec<&SiteReport> = measured.filter(|r| matches!(r.judged_by, JudgedBy::NoiseFloor(_))).collect();
        assert!(by_floor.is_empty(), "{case}: {by_floor:#?}");
        let broken = Site::Layer(last, LayerSite::Mlp);
        let change = |_: usize, position: usize, site: Site, x: &mut f64| {
            if (position, site) == (6, broken) {
                *x *= 1.001;
            }
        };
        let found = of(&Laid { form: &form, change: &change, ..whole(&model, calls()) });
        assert_eq!(faults(&found[0])[0], (0, broken, 6), "{case}");
    }
}

#[test]
fn heads_before_tokens_and_in_rows_of_their_own() {
    for case in CASES {
        let model = open(case);
        for form in [Form::HeadsFirst, Form::HeadsFlat] {
            let lay = |_: usize, site: Site| match site {
                Site::Layer(_, LayerSite::QNorm | LayerSite::KNorm | LayerSite::QRope | LayerSite::KRope) => form,
                _ => Form::Batch,
            };
            let calls = vec![padded(&[&A, &B], true), one_each(&[4, 9])];
            assert_right(case, &of(&Laid { form: &lay, ..whole(&model, calls) }), 2);
        }
        // As many tokens as query heads: the key heads tell how the shape is to be read.
        let heads = model.checkpoint.config().num_attention_heads;
        let lay = |_: usize, site: Site| match site {
            Site::Layer(_, LayerSite::QNorm | LayerSite::KNorm) => Form::HeadsFirst,
            _ => Form::Batch,
        };
        let tokens: Vec<u32> = (1..=u32::try_from(heads).expect("a few")).collect();
        assert_right(case, &of(&Laid { form: &lay, ..whole(&model, vec![json!({ "tokens": tokens })]) }), 1);
    }
}

/// transformers gives the blocks that one index head chooses an axis for heads all the same.
#[test]
fn blocks_of_one_index_head_in_a_batch() {
    let model = open("m3-few-blocks-f16-weights-f32");
    let tokens = &model.case.as_ref().expect("it is built in").tokens;
    let lay = |_: usize, site: Site| match site {
        Site::Layer(_, LayerSite::BlockMax | LayerSite::BlockScore | LayerSite::Blocks) => Form::OneHead,
        _ => Form::Batch,
    };
    for left in [true, false] {
        let call = padded(&[tokens, &tokens[..20]], left);
        assert_right("one head", &of(&Laid { form: &lay, ..whole(&model, vec![call]) }), 2);
    }
}

/// An engine that counts slots as positions rotates by them; its rotation table says so.
#[test]
fn positions_of_slots() {
    let model = open(CASES[0]);
    let mut call = padded(&[&A, &B], true);
    call["positions"] = json!([[0, 1, 2, 3, 4, 5, 6]]);
    let found = of(&whole(&model, vec![call]));
    // The dump's own tables are those of positions from 0: under the stated positions they are wrong for the padded request.
    assert_right("without padding", &found[..1], 1);
    let sites: Vec<Site> = faults(&found[1]).into_iter().map(|fault| fault.1).collect();
    assert!(sites.contains(&Site::RopeSin), "{sites:?}");
    assert!(!sites.contains(&Site::Layer(0, LayerSite::QProj)), "{sites:?}");
}

/// Positions that begin later are no prefix, where the manifest says that nothing was cached.
#[test]
fn positions_that_begin_later_without_a_cache() {
    let model = open(CASES[0]);
    let positions: Vec<usize> = (1000..).take(A.len()).collect();
    let found = of(&whole(&model, vec![json!({ "tokens": A, "first": 0, "positions": positions })]));
    // The dump's own tables are those of positions from 0; all that follows from them, attention too, is judged.
    let sites: Vec<Site> = faults(&found[0]).into_iter().map(|fault| fault.1).collect();
    assert!(sites.contains(&Site::RopeSin), "{sites:?}");
    assert!(!sites.contains(&Site::Layer(0, LayerSite::QProj)), "{sites:?}");
    assert!(found[0].iter().all(|report| report.verdict != Verdict::Inconclusive));
}

/// What attention makes of a prefix that came from a cache is not known; the rest is judged.
#[test]
fn a_prefix_from_a_cache() {
    let model = open(CASES[0]);
    let calls = || vec![json!({ "tokens": A }), json!({ "tokens": B, "positions": [7, 8, 9, 10] })];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let broken = Site::Layer(1, LayerSite::OProj);
    let change = |_: usize, position: usize, site: Site, x: &mut f64| {
        if (position, site) == (9, broken) {
            *x *= 1.01;
        }
    };
    let both = Laid { change: &change, ..whole(&model, calls()) }.write(folder.path());
    // Of the second call alone, whose manifest states where it begins.
    let tail = laid::second_call(&both, &calls()[1], folder.path());
    let found = judged(&Model { case: None, ..open(CASES[0]) }, tail, None);
    let verdicts = |verdict: Verdict| -> Vec<Site> {
        found[0].iter().filter(|report| report.verdict == verdict).map(|report| report.site).collect()
    };
    let layers = 0..model.checkpoint.config().num_hidden_layers;
    assert_eq!(
        verdicts(Verdict::Inconclusive),
        layers.map(|layer| Site::Layer(layer, LayerSite::Context)).collect::<Vec<_>>()
    );
    assert_eq!(verdicts(Verdict::Fault), [broken, Site::Layer(1, LayerSite::Attention)]);
    assert!(found[0].iter().all(|report| report.lens == Lens::Local));
}
