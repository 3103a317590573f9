//! `parity op`: an operator alone.

use std::path::{Path, PathBuf};

use fixtures::Tensor;
use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::golden::operators::Operators;
use reference::Storage;
use tests::repository;
use tools::judge::verdict::Verdict;
use tools::op::given::Given;
use tools::op::judged::{Judged, judged};
use tools::op::list::{OPERATORS, named};
use tools::op::signature::Port;

use super::{assert_refused, parity};

fn golden(name: &str) -> PathBuf {
    repository::path(&format!("fixtures/golden-operators/{name}.safetensors"))
}

/// A copy of a file, with values of one tensor changed.
fn changed(name: &str, tensor: &str, to: &Path, change: impl Fn(&mut [f64])) {
    let dump = Dump::open(&golden(name)).expect("it is kept");
    let mut writer = DumpWriter::create(to).expect("writable");
    for name in dump.names() {
        let own = dump.tensor(name).expect("it is there");
        let mut values = own.values::<f64>();
        if name == tensor {
            change(&mut values);
        }
        let storage = if own.dtype() == fixtures::Dtype::F32 { Storage::F32 } else { Storage::Real };
        let stored = Tensor::stored(storage, own.shape().to_vec(), values).expect("as many");
        writer.write(name, &stored).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
}

/// The files of operators alone, and the operator of each.
fn all() -> Vec<(String, PathBuf)> {
    let all = Operators::embedded().all().expect("part of the program");
    all.into_iter().map(|alone| (alone.operator, golden(&alone.name))).collect()
}

/// What an operator's golden file is judged as.
fn judge(name: &str, file: &Path) -> Vec<Judged> {
    let operator = named(name).expect("a file has an operator's name");
    let given = Given::open(&operator.signature, file, &[]).expect("it is a file of the operator");
    judged(&operator.compute(&given).expect("it fits"), &given, None).expect("it can be judged")
}

#[test]
fn what_torch_and_transformers_make_is_right() {
    for (name, file) in all() {
        let judged = judge(&name, &file);
        assert!(!judged.is_empty(), "{}", file.display());
        for output in judged {
            let verdict = output.verdict;
            assert!(verdict <= Verdict::Within, "{}: {}: {verdict}: {}", file.display(), output.name, output.worst());
            // Not because the bound allows anything: the worst value uses a part of it that can be seen.
            let ratio = output.found.worst.map_or(1.0, |worst| worst.ratio);
            assert!(verdict == Verdict::Exact || (1e-4..1.0).contains(&ratio), "{}: {ratio}", file.display());
        }
    }
}

/// Each operator of the reference is in the table, by the name of its file, and has inputs and outputs of another
/// implementation.
#[test]
fn the_table_has_every_operator_of_the_reference() {
    let parent = repository::text("reference/src/ops.rs").expect("the operators are declared there");
    let listed: Vec<&str> = OPERATORS.iter().map(|operator| operator.signature.name).collect();
    let witnessed: Vec<String> = all().into_iter().map(|(operator, _)| operator).collect();
    for op in parent.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        assert!(listed.contains(&op), "{op} is not in OPERATORS, in tools/src/op/list.rs");
    }
    for op in listed {
        assert!(witnessed.iter().any(|witnessed| witnessed == op), "{op} has no file in fixtures/golden-operators");
    }
}

/// A value of each output that is off by a hundredth of its largest is a fault, though no precision is named.
#[test]
fn an_output_that_is_off_is_a_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy.safetensors");
    for (name, file) in all() {
        for output in judge(&name, &file) {
            let stem = file.file_stem().expect("it has a name").to_string_lossy();
            changed(&stem, output.name, &copy, |values| {
                let finite = |x: &f64| if x.is_finite() { x.abs() } else { 0.0 };
                let (place, largest) = (0..values.len())
                    .map(|i| (i, finite(&values[i])))
                    .max_by(|a, b| a.1.total_cmp(&b.1))
                    .expect("it has values");
                values[place] += if output.is_chosen() { 1.0 } else { 0.01 * largest.max(1e-3) };
            });
            let again = judge(&name, &copy);
            let found = again.iter().find(|again| again.name == output.name).map(|again| again.verdict);
            assert_eq!(found, Some(Verdict::Fault), "{stem}: {}", output.name);
        }
    }
}

/// What llama.cpp may do with a cache of f16 is no excuse in f32, but is said, and may be named. So may a type.
#[test]
fn a_narrower_precision_has_to_be_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy.safetensors");
    changed("attention", "o", &copy, |values| values.iter_mut().for_each(|o| *o *= 1.0 + 1e-4));
    let [found] = &judge("attention", &copy)[..] else { panic!("it has one output") };
    assert_eq!(found.verdict, Verdict::Fault);
    let named = found.note.clone().unwrap_or_default();
    let named = named.strip_prefix("none would be outside with --precision ").expect(&named).to_owned();
    for (precision, code) in [(named.as_str(), 0), ("bf16", 0), ("f32", 1)] {
        let ran = parity(folder.path(), &["op", "attention", "copy.safetensors", "--precision", precision]);
        assert_eq!(ran.code, Some(code), "{precision}: {ran}");
    }
}

/// Outputs of two types are judged each in its own: a sum in f32 beside its norm in bf16.
#[test]
fn each_type_has_its_precision() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mixed.safetensors");
    let golden = Dump::open(&golden("add_rms_norm")).expect("it is kept");
    let judge = |factor: f64| {
        let mut writer = DumpWriter::create(&path).expect("writable");
        for name in golden.names() {
            let tensor = golden.tensor(name).expect("it is listed");
            let storage = if name == "y" { Storage::Bf16 } else { Storage::F32 };
            let factor = if name == "s" { factor } else { 1.0 };
            let values = tensor.values::<f64>().into_iter().map(|x| storage.nearest(factor * x));
            let stored = Tensor::stored(storage, tensor.shape().to_vec(), values).expect("as many");
            writer.write(name, &stored).expect("writable");
        }
        writer.finish(&Manifest::default()).expect("writable");
        let judged = judge("add_rms_norm", &path);
        judged.iter().map(|judged| (judged.name, judged.verdict <= Verdict::Within)).collect::<Vec<_>>()
    };
    assert_eq!(judge(1.0), [("s", true), ("y", true)]);
    assert_eq!(judge(1.0 + 1e-4), [("s", false), ("y", true)]);
}

/// Choices that rounding may exchange are a tie; others name the row.
#[test]
fn choices_are_judged_by_their_scores() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("router.safetensors");
    let router = named("router").expect("it is there");
    let judge = |experts: &[usize]| {
        let mut writer = DumpWriter::create(&path).expect("writable");
        let logits = [1.0, 1.0 + 1e-8, -1.0, 0.0];
        writer.write("logits", &Tensor::stored(Storage::Real, [1, 4], logits).expect("4")).expect("writable");
        let experts = Tensor::indices_of([1, experts.len()], experts.iter().copied());
        writer.write("experts", &experts.expect("as many")).expect("writable");
        writer.finish(&Manifest::default()).expect("writable");
        let top_k = format!("top_k={}", 1 + usize::from(experts_of(&path) > 1));
        let given = Given::open(&router.signature, &path, &[top_k]).expect("it is a file of the operator");
        let judged = judged(&router.compute(&given).expect("it fits"), &given, None).expect("it can be judged");
        (judged[0].verdict, judged[0].note.clone().unwrap_or_default())
    };
    assert_eq!(judge(&[1]).0, Verdict::Exact);
    assert_eq!(judge(&[0]).0, Verdict::Tie);
    assert_eq!(judge(&[0, 1]).0, Verdict::Exact);
    for (experts, says) in [
        (&[3][..], "row 0 chose expert 3 (score 0.500000) over expert"),
        (&[1, 1], "row 0 chose an expert twice"),
        (&[1, 4], "row 0 chose expert 4 at [0, 1], expected 0 to 3"),
    ] {
        let (verdict, note) = judge(experts);
        assert!(verdict == Verdict::Fault && note.starts_with(says), "{verdict}: {note}");
    }
}

/// How many experts a file has of its token.
fn experts_of(path: &Path) -> usize {
    Dump::open(path).expect("it was written").tensor("experts").expect("it is there").len()
}

/// What the reference writes is its own when it is read again.
#[test]
fn the_reference_agrees_with_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, file) in all() {
        let [made, both] = ["made.safetensors", "both.safetensors"].map(|name| folder.path().join(name));
        let ran = parity(folder.path(), &["op", &name, &file.to_string_lossy(), "--out", "made.safetensors"]);
        assert_eq!(ran.code, Some(0), "{ran}");
        let [made, inputs] = [&made, &file].map(|path| Dump::open(path).expect("it was written"));
        let mut writer = DumpWriter::create(&both).expect("writable");
        for tensor in inputs.names().filter(|tensor| made.find(tensor).is_none()) {
            writer.write(tensor, &inputs.tensor(tensor).expect("it is there")).expect("writable");
        }
        for tensor in made.names() {
            writer.write(tensor, &made.tensor(tensor).expect("it is there")).expect("writable");
        }
        writer.finish(&Manifest::default()).expect("writable");
        let judged = judge(&name, &both);
        assert_eq!(judged.len(), made.names().count(), "{name}");
        let is_exact = |output: &Judged| output.found.worst.is_none_or(|worst| worst.ratio == 0.0);
        let is_right = |output: &Judged| output.verdict <= Verdict::Within && is_exact(output);
        assert!(judged.iter().all(is_right), "{name}: {judged:?}");
    }
}

#[test]
fn what_is_lacking_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = golden("lightning_attention").to_string_lossy().into_owned();
    let refused = |arguments: &[&str], words: &[&str]| assert_refused(&parity(folder.path(), arguments), words);
    refused(&["op", "lightning"], &["\"lightning\" is no operator, expected one of embedding,"]);
    refused(&["op", "rms_norm"], &["rms_norm: no file of its inputs is given", "x […, d], w [d]"]);
    refused(&["op", "rms_norm", &path], &["expected only x, w, y, eps, one_plus"]);
    refused(
        &["op", "lightning_attention", &path, "--set", "eps=1"],
        &["\"eps\" is no number of lightning_attention, expected heads, layer"],
    );
    refused(&["op", "lightning_attention", &path, "--set", "layer=one"], &["\"one\" is no number"]);
    refused(&["op", "lightning_attention", &path, "--set", "heads=5"], &["lightning_attention C2"]);
    refused(&["op", "lightning_attention", &path, "--set", "layers=1"], &["layer is 1, expected below 1"]);
    let norm = golden("rms_norm").to_string_lossy().into_owned();
    refused(&["op", "rms_norm", &norm, "--set", "one_plus=2"], &["one_plus: is 2, expected 0 or 1"]);
    let attention = golden("attention").to_string_lossy().into_owned();
    refused(&["op", "attention", &attention, "--set", "heads=3"], &["attention C"]);
    let loss = golden("load_balancing-masked").to_string_lossy().into_owned();
    refused(&["op", "load_balancing", &loss, "--set", "top_k=0"], &["load_balancing C2: k = 0"]);
    refused(&["op", "lightning_attention", "none.npz"], &["none.npz"]);
    let lost = folder.path().join("lost.safetensors");
    let mut writer = DumpWriter::create(&lost).expect("writable");
    for name in ["z", "p"] {
        writer.write(name, &Tensor::stored(Storage::F32, [1, 2], [0.5; 2]).expect("2")).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
    refused(&["op", "sampling", "lost.safetensors"], &["p: cannot be judged: what it is made of is not all given"]);
    let listed = parity(folder.path(), &["op"]);
    assert!(
        listed.code == Some(0) && OPERATORS.iter().all(|operator| listed.stdout.contains(operator.signature.name)),
        "{listed}"
    );
}

/// What cannot be computed is told by the names and shapes of the file, not by the letters of an operator inside another.
#[test]
fn what_does_not_fit_is_named_as_in_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("cut.safetensors");
    let mut refused = 0;
    for (name, file) in all() {
        let (operator, dump) = (named(&name).expect("it has an operator"), Dump::open(&file).expect("it is kept"));
        for port in operator.signature.inputs.iter().filter(|port| dump.names().any(|name| name == port.name)) {
            for axis in 0..dump.tensor(port.name).expect("it is listed").shape().len() {
                cut(&dump, port.name, axis, &path);
                let given = Given::open(&operator.signature, &path, &[]).expect("it has the operator's names");
                let Err(failure) = operator.compute(&given) else { continue };
                refused += 1;
                let said = failure.to_string();
                let names_one = |port: &Port| {
                    let ways = [" is ", " ["].map(|next| said.contains(&format!("{}{next}", port.name)));
                    ways.contains(&true) || said.contains(&format!(": {}: ", port.name))
                };
                let is_ours = said.starts_with(&path.display().to_string()) && failure.advice().is_some();
                assert!(is_ours && operator.signature.inputs.iter().any(names_one), "{name}: {}: {said}", port.name);
            }
        }
    }
    assert!(refused > 60, "{refused}");
    cut(&Dump::open(&golden("dense_ffn")).expect("it is kept"), "w3", 0, &path);
    let ran = parity(folder.path(), &["op", "dense_ffn", "cut.safetensors"]);
    let help = "dense_ffn reads x […, d], w1 [m, d]";
    assert_refused(&ran, &["cut.safetensors: m is 20 in w1 [20, 48] and 19 in w3 [19, 48]", help]);
}

/// A copy of a file, a tensor of which has one less along an axis.
fn cut(dump: &Dump, name: &str, axis: usize, to: &Path) {
    let mut writer = DumpWriter::create(to).expect("writable");
    for own in dump.names() {
        let tensor = dump.tensor(own).expect("it is listed");
        let (mut shape, mut values) = (tensor.shape().to_vec(), tensor.values::<f64>());
        if own == name {
            let all = ndarray::ArrayD::from_shape_vec(shape.clone(), values).expect("as many");
            shape[axis] -= 1;
            values = all.slice_axis(ndarray::Axis(axis), (..shape[axis]).into()).iter().copied().collect();
        }
        let storage = if tensor.dtype() == fixtures::Dtype::F32 { Storage::F32 } else { Storage::Real };
        writer.write(own, &Tensor::stored(storage, shape, values).expect("as many")).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
}
