//! `probe`: in what order a function adds, and where it rounds.

use std::collections::BTreeMap;

use fixtures::Dtype;
use ndarray::ArrayD;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use reference::Storage;
use tools::failure::Failure;
use tools::probe::found::Found;
use tools::probe::function::{Kind, Made};
use tools::probe::probe as asked;
use tools::probe::question::Question;
use tools::session::precision::named;

use crate::error::raised;

/// What a function does with the last bits, as text a line for each thing that is told.
#[pyclass(frozen, get_all, module = "parity")]
pub(crate) struct Probe {
    /// What the function computes.
    kind: String,
    /// The order of additions, as nested sums of the terms' numbers, `((0+1)+2)`; None where it is not told.
    order: Option<String>,
    /// The terms that the order has; None where it has all.
    places: Option<Vec<usize>>,
    /// Random sums that came out bit for bit as this order and this arithmetic have them, of how many; None where that is not tried.
    foretold: Option<(usize, usize)>,
    /// What is said of a precision, by its fields' names.
    fields: BTreeMap<&'static str, String>,
    /// The precision that was given with these fields, as `precision=` of `verify` and `--precision` take it.
    precision: String,
    /// What is told, and what is told of it.
    findings: Vec<(&'static str, String)>,
    /// All of it.
    text: String,
}

/// What is asked.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    kind: String,
    dtype: String,
    size: Option<usize>,
    precision: Option<String>,
}

/// Probes a function of lists of (shape, bytes of f64 in C order), which gives such a pair and its type's name.
#[pyfunction]
pub(crate) fn probe(py: Python<'_>, function: Bound<'_, PyAny>, question: Asked) -> PyResult<Probe> {
    let mut thrown = None;
    let mut call = |inputs: &[ArrayD<f64>]| {
        made(py, &function, inputs).map_err(|error| {
            let failure = Failure::new(error.to_string());
            thrown = Some(error);
            failure
        })
    };
    let found = question.question().and_then(|question| asked(&mut call, &question));
    match (found, thrown) {
        (_, Some(error)) => Err(error),
        (Err(failure), None) => Err(raised(py, &failure)),
        (Ok(found), None) => Ok(Probe::of(&found)),
    }
}

/// What the function makes of arrays.
fn made(py: Python<'_>, function: &Bound<'_, PyAny>, inputs: &[ArrayD<f64>]) -> PyResult<Made> {
    py.check_signals()?;
    let lent = |input: &ArrayD<f64>| {
        let bytes: Vec<u8> = input.iter().flat_map(|x| x.to_le_bytes()).collect();
        (input.shape().to_vec(), PyBytes::new(py, &bytes))
    };
    let inputs: Vec<_> = inputs.iter().map(lent).collect();
    let (shape, bytes, dtype): (Vec<usize>, Bound<'_, PyBytes>, String) = function.call1((inputs,))?.extract()?;
    let of = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight of them"));
    let values = bytes.as_bytes().chunks_exact(8).map(of).collect();
    let values = ArrayD::from_shape_vec(shape, values).expect("as many as its shape says");
    let storage = storage(&dtype).map_err(|failure| raised(py, &failure))?;
    Ok(Made { values, storage })
}

impl Asked {
    fn question(&self) -> Result<Question, Failure> {
        let kind = self.kind.parse::<Kind>().map_err(|_| {
            let help = format!("expected one of {}", Kind::names().join(", "));
            Failure::new(format!("kind: there is no {}", self.kind)).help(help)
        })?;
        let precision = self.precision.as_deref().map(named).transpose()?;
        Ok(Question { kind, storage: storage(&self.dtype)?, size: self.size, precision })
    }
}

/// What values of a type are stored in.
fn storage(dtype: &str) -> Result<Storage, Failure> {
    let stored = [
        (Dtype::F64, Storage::Real),
        (Dtype::F32, Storage::F32),
        (Dtype::F16, Storage::F16),
        (Dtype::Bf16, Storage::Bf16),
    ];
    let known = stored.into_iter().find(|(known, _)| known.to_string() == dtype);
    known
        .map(|(_, storage)| storage)
        .ok_or_else(|| Failure::new(format!("probe: values of type {dtype}")).help("expected f64, f32, f16 or bf16"))
}

impl Probe {
    fn of(found: &Found) -> Self {
        Probe {
            kind: found.kind.to_string(),
            order: found.order.as_ref().map(ToString::to_string),
            places: found.places.clone(),
            foretold: found.foretold,
            fields: found.fields.iter().cloned().collect(),
            precision: found.precision.to_string(),
            findings: found.lines.clone(),
            text: found.to_string(),
        }
    }
}

#[pymethods]
impl Probe {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<parity.Probe {}: {}>", self.kind, self.precision)
    }
}
