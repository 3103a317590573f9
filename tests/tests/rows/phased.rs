//! The prompt and what was decoded under names of their own, `fixtures/src/names/phased.rs`.

use std::collections::BTreeMap;

use fixtures::activations::writer::DumpWriter;
use fixtures::names::at::At;
use fixtures::{Dtype, Tensor};

use super::laid::{Laid, one_each};
use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// How the prompt's and the decoded tokens' names are made of a path.
type Names = [fn(&str) -> String; 2];

const NAMES: [Names; 4] = [
    [|path| format!("prefill_{path}"), |path| format!("decode_{path}")],
    [|path| format!("prompt/{path}"), |path| format!("decode/{path}")],
    [|path| format!("{path}.prefill"), |path| format!("{path}.decode")],
    [|path| path.to_owned(), |path| format!("decode_{path}")],
];

/// A dump with a tensor of all steps for each path: stacked, or as rows of one call. What has a column for each key is left out.
fn phased(dump: &Dump, folder: &Path, [of_prompt, of_steps]: Names, is_stacked: bool) -> Dump {
    let path = folder.join("phased.safetensors");
    let mut writer = DumpWriter::create(&path).expect("writable");
    let mut steps: BTreeMap<String, Vec<Tensor<'_>>> = BTreeMap::new();
    for name in dump.names() {
        let (step, path) = At::split(name);
        let site: Site = path.parse().expect("a site's path");
        if site.token_axis(open(CASES[1]).checkpoint.config()) == Some(1) {
            continue;
        }
        let tensor = dump.tensor(name).expect("it is listed");
        if step == 0 {
            writer.write(&of_prompt(path), &tensor).expect("writable");
        } else {
            steps.entry(path.to_owned()).or_default().push(tensor);
        }
    }
    for (path, steps) in steps {
        let shape = steps[0].shape();
        let all = if is_stacked {
            [&[steps.len()], shape].concat()
        } else {
            [&[shape[0], shape[1] * steps.len()], &shape[2..]].concat()
        };
        let values = steps.iter().flat_map(Tensor::values::<f64>);
        let bytes: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
        writer.write(&of_steps(&path), &Tensor::new(Dtype::F64, all, bytes).expect("all of them")).expect("writable");
    }
    writer.finish(dump.manifest().expect("it has one")).expect("writable");
    Dump::open(&path).expect("it was just written")
}

/// All is judged, what was decoded, too.
#[test]
fn what_was_decoded_is_behind_the_prompt() {
    let wrong = Site::Layer(1, LayerSite::Output);
    let change = |_: usize, position: usize, site: Site, x: &mut f64| {
        if (position, site) == (A.len() + 1, wrong) {
            *x *= 1.05;
        }
    };
    let said = text(&[&A[..], &[8, 1, 4]].concat());
    let calls = || vec![json!({ "tokens": [A] }), one_each(&[8]), one_each(&[1]), one_each(&[4])];
    for (case, ways) in CASES.into_iter().zip([&NAMES[..2], &NAMES[2..]]) {
        let model = open(case);
        let [folder, other] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
        let right = unstated(&model, calls()).write(folder.path());
        let off = Laid { change: &change, ..unstated(&model, calls()) }.write(other.path());
        for (names, is_stacked) in ways.iter().flat_map(|names| [(*names, true), (*names, false)]) {
            let read = |dump: &Dump, folder: &Path| {
                requests_of(&model, phased(dump, folder, names, is_stacked), Some(&said)).expect("its rows are known")
            };
            let found = read(&right, folder.path());
            assert_eq!(found[0].steps.concat().len(), A.len() + 3, "{case}");
            assert_all_right(case, &found, &model);
            let faults = faults(&reports(&model, &read(&off, other.path())[0]));
            let step = if is_stacked { 2 } else { 1 };
            assert!(faults.iter().any(|(at, site, _)| (*at, *site) == (step, wrong)), "{case}: {faults:?}");
        }
    }
}

/// Steps alone, whose tokens and prompt are said.
#[test]
fn what_was_decoded_alone() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let calls = vec![json!({ "tokens": [A] }), one_each(&[8]), one_each(&[1]), one_each(&[4])];
    let dump = phased(&unstated(&model, calls).write(folder.path()), folder.path(), NAMES[0], true);
    let is_decoded = |name: &str| name.starts_with("decode_").then(|| name.to_owned());
    let said = text(&[&A[..], &[8, 1, 4]].concat());
    let found = requests_of(&model, rewritten(&dump, folder.path(), is_decoded, &[]), Some(&said));
    let found = found.expect("its rows are known");
    assert_eq!(found[0].steps, [[8], [1], [4]]);
    assert_all_right("steps alone", &found, &model);
}

/// Numbers behind all names count calls from 0 on, whatever stands before them.
#[test]
fn calls_by_numbers_behind_names() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = unstated(&model, vec![json!({ "tokens": [A] }), one_each(&[8])]).write(folder.path());
    let said = text(&[&A[..], &[8]].concat());
    for between in ["#", "@"] {
        let name = |name: &str| {
            let (step, path) = At::split(name);
            Some(format!("{path}{between}{step}"))
        };
        let found = requests_of(&model, rewritten(&dump, folder.path(), name, &[]), Some(&said));
        let found = found.expect("its rows are known");
        assert_eq!(found[0].steps, [A.to_vec(), vec![8]], "{between}");
        assert_all_right(between, &found, &model);
    }
}
