//! Padding that an engine takes for tokens.

use fixtures::activations::rows::stated::Lists;
use fixtures::activations::writer::DumpWriter;
use tools::session::diagnose::{diagnose, diagnose_padded};

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
