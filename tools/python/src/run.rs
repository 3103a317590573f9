//! `run`: what the reference computes.

use fixtures::{Dtype, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use reference::decode::Decode;
use reference::ops::sampling::Sampling;
use tools::compare::selection::Selection;
use tools::session::backend::Computing;
use tools::session::model::Model;
use tools::session::run::{Recording, Task, record};

use crate::given::{Part, ShownGiven};
use crate::working::wait;

/// What is run.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Job {
    model: String,
    tokens: Option<String>,
    shown: ShownGiven,
    semantics: Option<String>,
    precision: String,
    decode: usize,
    steps: bool,
    part: Part,
}

/// An array: its name, NumPy's type, its shape, and its elements in C order.
type Made = (String, &'static str, Vec<usize>, Py<PyByteArray>);

/// What the reference computes, in the order in which it does: floats in f64, choices in i64; and the tokens that it decodes.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, job: Job) -> PyResult<(Vec<Made>, Vec<u32>)> {
    let (computed, tokens) = wait(py, move |watch| {
        let model = Model::open(&job.model)?;
        let semantics = job.semantics.as_deref().map_or_else(|| model.semantics(), |asked| Ok(asked.parse()?))?;
        let task = Task {
            computing: Computing::Reference(job.precision),
            tokens: job.tokens,
            shown: job.shown.into(),
            semantics,
            how: Decode { tokens: job.decode, sampling: Sampling::Greedy, seed: 0, chunk: None },
        };
        let selection = Selection::parse(job.part.layers.as_deref(), &job.part.sites)?;
        let mut computed = Vec::new();
        let mut write = |name: &str, tensor: Tensor<'static>| {
            computed.push((name.to_owned(), tensor));
            Ok(())
        };
        let recording = Recording { write: &mut write, selection, steps: job.steps, resume: None };
        let (made, _) = record(&model, &task, recording, watch)?;
        Ok((computed, made.tokens()))
    })?;
    let arrays = computed.into_iter().map(|(name, tensor)| array(py, name, &tensor)).collect();
    Ok((arrays, tokens))
}

/// A tensor as Python makes an array of it.
fn array(py: Python<'_>, name: String, tensor: &Tensor<'_>) -> Made {
    let bytes = |bytes: &[u8]| PyByteArray::new(py, bytes).unbind();
    let shape = tensor.shape().to_vec();
    match tensor.dtype() {
        Dtype::I64 => (name, "<i8", shape, bytes(tensor.bytes())),
        Dtype::F64 => (name, "<f8", shape, bytes(tensor.bytes())),
        _ => {
            let wide: Vec<u8> = tensor.values::<f64>().into_iter().flat_map(f64::to_le_bytes).collect();
            (name, "<f8", shape, bytes(&wide))
        }
    }
}
