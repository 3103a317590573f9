//! Logits in f32, of which nothing before them is shown.

use fixtures::activations::dump::Dump;
use fixtures::activations::source::HeldTensor;
use fixtures::bytes::Held;
use fixtures::{Dtype, Tensor};
use ndarray::Array2;
use reference::Storage;
use reference::weights::{Weight, Weights};
use tools::report::content::Conclusion;
use tools::session::asked::Asked;
use tools::session::dumped::Given;
use tools::session::model::Model;
use tools::session::verify::verify;

use crate::cli::parity;

const CASE: &str = "m2-sharded-bf16";

/// What is concluded of the logits, some times as large, that a head in f32 makes of a model that runs in a precision, and in what
/// it is then taken to have run.
fn concluded(precision: &str, times: f64) -> (Conclusion, Storage) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = folder.path().join("ran.safetensors");
    let done = parity(folder.path(), &["run", CASE, "--precision", precision, "--out", &ran.display().to_string()]);
    assert_eq!(done.code, Some(0), "{done}");
    let model = Model::open(CASE).expect("it is built in");
    let norm = Dump::open(&ran).expect("it was just written").tensor("model.norm").expect("it is there").values();
    let head: Array2<f64> = model.checkpoint.get(Weight::LmHead).expect("it is there").dense();
    let norm = Array2::from_shape_vec((norm.len() / head.ncols(), head.ncols()), norm).expect("its rows");
    let logits = norm.dot(&head.t()) * times;
    let shape = [1, logits.nrows(), logits.ncols()];
    let tensor = Tensor::stored(Storage::F32, shape, logits).expect("as many");
    let (name, bytes) = ("logits".to_owned(), Held::new(tensor.bytes().to_vec()));
    let held = HeldTensor { name, dtype: Dtype::F32, shape: shape.to_vec(), bytes };
    let dump = Dump::of_tensors("dump", [held], None).expect("a tensor");
    let reports = verify(&model, dump, &Given::default(), &Asked::default(), &mut |_| ()).expect("it can be judged");
    (reports[0].conclusion(), reports[0].header.precision.activations)
}

/// A right run in f32 is one; a model in bf16 whose head is in f32 cannot be told from one in f32 that is wrong, but from one that is
/// wrong in both.
#[test]
fn a_head_in_f32_says_nothing_of_what_is_before_it() {
    assert_eq!(concluded("transformers_f32", 1.0), (Conclusion::Pass, Storage::F32));
    assert_eq!(concluded("transformers_bf16", 1.0), (Conclusion::Inconclusive, Storage::Bf16));
    assert_eq!(concluded("transformers_bf16", 1.5), (Conclusion::Fail, Storage::Bf16));
}
