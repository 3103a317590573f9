//! Padding that an engine takes for tokens, or counts in their positions.

use fixtures::Tensor;
use fixtures::activations::rows::stated::Lists;
use fixtures::activations::writer::DumpWriter;
use ndarray::{Array2, s};
use reference::Storage;
use reference::ops::rope::{Rope, rope, rope_table};
use tools::session::diagnose::{diagnose, diagnose_padded};

use super::shown::{requests_of, rewritten, unstated};
use super::*;

/// What fills up the shorter prompt.
const PADDING: u32 = 3;

/// A dump of two prompts, of which the shorter is padded on the left, computed as if there were no mask.
fn unmasked(model: &Model, folder: &Path) -> Dump {
    let (short, width) = (&B[..B.len() - 1], A.len().max(B.len()) + 2);
    let filled = |prompt: &[u32]| [vec![PADDING; width - prompt.len()], prompt.to_vec()].concat();
    let prompts = [&A[..], short];
    let tokens = prompts.map(filled);
    let positions: Vec<usize> = (0..width).collect();
    let call = json!({ "tokens": tokens, "positions": [positions, positions] });
    let dump = whole(model, vec![call]).write(folder);
    let mask = prompts.map(|prompt| (0..width).map(|slot| u8::from(slot + prompt.len() >= width)).collect());
    let mut manifest = dump.manifest().expect("it has one").clone();
    manifest.calls[0].mask = Some(Lists::Batch(mask.to_vec()));
    let path = folder.join("masked.safetensors");
    let mut writer = DumpWriter::create(&path).expect("writable");
    for name in dump.names() {
        writer.write(name, &dump.tensor(name).expect("it is there")).expect("writable");
    }
    writer.finish(&manifest).expect("writable");
    Dump::open(&path).expect("it was just written")
}

#[test]
fn padding_that_is_seen_is_told() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let read = |padding_is_seen| {
            let model = Model { case: None, ..open(case) };
            let given = Given { padding_is_seen, ..Given::default() };
            Dumped::of(unmasked(&model, folder.path()), &given, &model).expect("its rows are known")
        };
        for (number, dumped) in read(false).iter().enumerate() {
            let diagnosis = diagnose(&model, dumped, &mut |_| ()).expect("it can be put next to the reference");
            assert!(diagnosis.unexplained.is_some(), "{case}, request {number}: nothing is wrong");
            let padded = || Ok(read(true).into_iter().nth(number));
            let diagnosis = diagnose_padded(&model, diagnosis, padded).expect("it can be read so");
            let names: Vec<&str> = diagnosis.explained.iter().map(|explained| explained.name).collect();
            assert_eq!((names, diagnosis.left), (vec!["padding_seen"], 0), "{case}, request {number}");
        }
    }
}

/// \[2, T, …\], with the second list's keys turned by so many positions more.
fn turned(keys: &Tensor<'_>, model: &Model, by: usize) -> Tensor<'static> {
    let config = model.checkpoint.config();
    let (head_dim, rotary_dim, theta) = (config.head_dim, config.rotary_dim, config.rope_theta);
    let p = Rope { head_dim, rotary_dim, theta, ..Rope::default() };
    let table = rope_table::<f64>(&p, by, 1);
    let width = *keys.shape().last().expect("it has axes");
    let mut all = Array2::from_shape_vec((keys.len() / width, width), keys.values::<f64>()).expect("whole rows");
    for row in all.nrows() / 2..all.nrows() {
        let own = all.slice(s![row..=row, ..]).to_owned();
        let own = rope(&p, own.view(), table.cos.view(), table.sin.view()).expect("it fits");
        all.row_mut(row).assign(&own.row(0));
    }
    Tensor::stored(Storage::F32, keys.shape(), all).expect("as many")
}

/// `model(input_ids, attention_mask)` without positions, and its cache: keys are those of the slots that they are in, and attention, which
/// knows differences alone, is as it should be. Those of other positions are wrong.
#[test]
fn keys_tell_whether_padding_was_counted() {
    let form = |_: usize, site: Site| match site {
        Site::Layer(_, LayerSite::KRope | LayerSite::VProj) | Site::Logits => Form::Batch,
        _ => Form::Absent,
    };
    let call = padded(&[&A, &B], true);
    let slots = A.len() - B.len();
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = Laid { form: &form, ..unstated(&model, vec![call.clone()]) }.write(folder.path());
        for (by, is_right) in [(0, true), (slots, true), (slots - 1, false)] {
            let is_keys = |name: &&str| name.ends_with("k_rope");
            let keys = dump.names().filter(is_keys);
            let keys = keys.map(|name| (name, turned(&dump.tensor(name).expect("it is there"), &model, by)));
            let keys: Vec<(&str, Tensor<'_>)> = keys.collect();
            let others = |name: &str| (!is_keys(&name)).then(|| name.to_owned());
            let dump = rewritten(&dump, folder.path(), others, &keys);
            let found =
                requests_of(&model, dump, Some(&tokenizers(&call, None).to_string())).expect("its rows are known");
            let of_each: Vec<bool> = found.iter().map(|one| faults(&reports(&model, one)).is_empty()).collect();
            assert_eq!(of_each, [true, is_right], "{case}, {by} of {slots}");
        }
    }
}
