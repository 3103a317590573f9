//! What an operator is given: tensors and numbers of a file, and numbers that are typed.

use std::collections::BTreeMap;
use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::{Dtype, Tensor};
use ndarray::{Array1, Array2};
use reference::matrix::Matrix;
use reference::{Storage, Tracked};

use super::signature::Signature;
use crate::failure::Failure;

/// No head, token or expert has a number as large.
const COUNTS: usize = 1 << 32;

/// A file's tensors, and numbers.
#[derive(Debug)]
pub struct Given {
    dump: Dump,
    typed: BTreeMap<String, f64>,
    operator: &'static Signature,
}

impl Given {
    /// Opens a file of an operator's tensors; `typed` are `NAME=VALUE`.
    pub fn open(operator: &'static Signature, path: &Path, typed: &[String]) -> Result<Self, Failure> {
        let typed = typed.iter().map(|word| number_in(operator, word)).collect::<Result<_, Failure>>()?;
        let given = Given { dump: Dump::open(path)?, typed, operator };
        let known: Vec<&str> = operator.inputs.iter().chain(operator.outputs).map(|(name, _)| *name).collect();
        let is_known = |name: &str| known.contains(&name) || operator.numbers.iter().any(|(of, ..)| *of == name);
        if let Some(name) = given.dump.names().find(|name| !is_known(name)) {
            return Err(given.wrong(name, &format!("expected only {}", known.join(", "))));
        }
        Ok(given)
    }

    /// Whether it has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.dump.names().any(|known| known == name)
    }

    /// A tensor as a matrix: its last axis are columns, all others rows.
    pub fn matrix(&self, name: &str) -> Result<Array2<f64>, Failure> {
        let tensor = self.tensor(name)?;
        let columns = tensor.shape().last().copied().unwrap_or(1);
        let rows = tensor.len().checked_div(columns).unwrap_or(0);
        let values = Array2::from_shape_vec((rows, columns), tensor.values());
        values.map_err(|error| self.wrong(name, &error.to_string()))
    }

    /// The same, which an operator takes as exact.
    pub fn input(&self, name: &str) -> Result<Tracked<f64>, Failure> {
        Ok(Tracked::exact(self.matrix(name)?))
    }

    /// A tensor as a row.
    pub fn row(&self, name: &str) -> Result<Array1<f64>, Failure> {
        Ok(Array1::from_vec(self.tensor(name)?.values()))
    }

    /// A matrix of weights, in its type.
    pub fn weight(&self, name: &str) -> Result<Matrix<'static>, Failure> {
        let storage = self.storage(name)?;
        let values = self.matrix(name)?;
        Ok(Matrix::stored(values.view(), if storage == Storage::Real { Storage::F32 } else { storage }))
    }

    /// A tensor's extents.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, Failure> {
        Ok(self.tensor(name)?.shape().to_vec())
    }

    /// A tensor with so many rows and columns, however they are laid out: of one row, or with a batch axis.
    pub fn like(&self, name: &str, dim: (usize, usize)) -> Result<Array2<f64>, Failure> {
        let found = self.matrix(name)?;
        if found.dim() == dim || (found.len() == dim.0 * dim.1 && dim.0.min(dim.1) == 1) {
            return Ok(found.into_shape_with_order(dim).expect("as many values"));
        }
        Err(self.wrong(name, &format!("is {:?}, expected {dim:?}", found.dim())))
    }

    /// A tensor of choices, rows for the rows of scores.
    pub fn choices(&self, name: &str, (rows, columns): (usize, usize)) -> Result<Array2<usize>, Failure> {
        let chosen = self.indices(name, columns)?;
        let found = chosen.dim();
        let fits = found.0 == rows && (1..=columns).contains(&found.1);
        if fits { Ok(chosen) } else { Err(self.wrong(name, &format!("is {found:?}, expected {rows} rows"))) }
    }

    /// A tensor of indices below a limit.
    pub fn indices(&self, name: &str, limit: usize) -> Result<Array2<usize>, Failure> {
        let (tensor, dim) = (self.tensor(name)?, self.matrix(name)?.dim());
        let indices = tensor.indices(limit).map_err(|error| self.wrong(name, &error.to_string()))?;
        Ok(Array2::from_shape_vec(dim, indices).expect("as many as the matrix has"))
    }

    /// What a tensor's values are stored in; wider types count as f32, in which devices compute.
    pub fn storage(&self, name: &str) -> Result<Storage, Failure> {
        match self.tensor(name)?.dtype() {
            Dtype::Bf16 => Ok(Storage::Bf16),
            Dtype::F16 => Ok(Storage::F16),
            Dtype::F32 | Dtype::F64 => Ok(Storage::F32),
            other => Err(self.wrong(name, &format!("is {other}, expected f32, f16 or bf16"))),
        }
    }

    /// A number: the one typed, the file's, or the operator's default.
    pub fn number(&self, name: &str) -> Result<f64, Failure> {
        if let Some(typed) = self.typed.get(name) {
            return Ok(*typed);
        }
        if self.has(name) {
            let tensor = self.tensor(name)?;
            return match tensor.values::<f64>()[..] {
                [number] => Ok(number),
                _ => Err(self.wrong(name, &format!("is {:?}, expected one number", tensor.shape()))),
            };
        }
        let own = self.operator.numbers.iter().find(|(of, ..)| *of == name);
        own.and_then(|(_, default, _)| *default).ok_or_else(|| {
            let what = own.map_or("", |(.., what)| what);
            Failure::new(format!("{} needs {name}, {what}", self.operator.name))
                .help(format!("--set {name}=NUMBER, or a tensor of one number in the file"))
        })
    }

    /// A number that counts.
    pub fn count(&self, name: &str) -> Result<usize, Failure> {
        let number = self.number(name)?;
        let one = Tensor::stored(Storage::Real, [1], [number]).expect("one value");
        let counts = one.indices(COUNTS).map_err(|_| self.wrong(name, &format!("is {number}, expected a count")))?;
        Ok(counts[0])
    }

    fn tensor(&self, name: &str) -> Result<Tensor<'_>, Failure> {
        if self.has(name) {
            return Ok(self.dump.tensor(name)?);
        }
        let found: Vec<&str> = self.dump.names().collect();
        let needed = |ports: &[(&str, &str)]| {
            ports.iter().map(|(name, shape)| format!("{name} {shape}")).collect::<Vec<String>>().join(", ")
        };
        let problem = format!("{} has no {name}, only {}", self.dump.path().display(), found.join(", "));
        Err(Failure::new(problem).help(format!(
            "{} reads {} and makes {}",
            self.operator.name,
            needed(self.operator.inputs),
            needed(self.operator.outputs)
        )))
    }

    fn wrong(&self, name: &str, what: &str) -> Failure {
        Failure::new(format!("{}: {name}: {what}", self.dump.path().display()))
            .help(format!("`parity op` lists what {} reads and makes", self.operator.name))
    }
}

/// The number of `NAME=VALUE`.
fn number_in(operator: &Signature, word: &str) -> Result<(String, f64), Failure> {
    let names: Vec<&str> = operator.numbers.iter().map(|(name, ..)| *name).collect();
    let expected = if names.is_empty() { "nothing: it takes no numbers".to_owned() } else { names.join(", ") };
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if !names.contains(&name) {
        let problem = format!("--set {word}: {name:?} is no number of {}, expected {expected}", operator.name);
        return Err(Failure::new(problem).help("for instance --set eps=1e-6"));
    }
    let value = value.parse().map_err(|_| {
        Failure::new(format!("--set {word}: {value:?} is no number")).help("for instance --set eps=1e-6")
    })?;
    Ok((name.to_owned(), value))
}
