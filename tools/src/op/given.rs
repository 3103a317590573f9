//! What an operator is given: tensors and numbers of a file, and numbers that are typed.

use std::collections::BTreeMap;
use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::{Dtype, Tensor};
use ndarray::{Array1, Array2, Axis};
use reference::grid::{AXES, Grid};
use reference::matrix::Matrix;
use reference::site::NONE;
use reference::{Storage, Tracked};

use super::signature::{Default, Port, Signature};
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
        Given::of(operator, Dump::open(path)?, typed)
    }

    /// The same of tensors.
    pub fn of(operator: &'static Signature, dump: Dump, typed: &[String]) -> Result<Self, Failure> {
        let typed = typed.iter().map(|word| number_in(operator, word)).collect::<Result<_, Failure>>()?;
        let given = Given { dump, typed, operator };
        let ports = operator.inputs.iter().chain(operator.outputs).map(|port| port.name);
        let known: Vec<&str> = ports.chain(operator.numbers.iter().map(|number| number.name)).collect();
        if let Some(name) = given.dump.names().find(|name| !known.contains(name)) {
            return Err(given.wrong(name, &format!("expected only {}", known.join(", "))));
        }
        Ok(given)
    }

    /// Where it is from.
    pub(super) fn path(&self) -> &Path {
        self.dump.path()
    }

    /// Whether it has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.dump.names().any(|known| known == name)
    }

    /// Refuses outputs that cannot be judged, because what they are made of is not given.
    pub(super) fn require_made(&self, is_made: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let lost = self.operator.outputs.iter().find(|port| self.has(port.name) && !is_made(port.name));
        let what = "cannot be judged: what it is made of is not all given";
        lost.map_or(Ok(()), |port| Err(self.wrong(port.name, what)))
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

    /// The same of one that may be left out.
    pub fn input_if(&self, name: &str) -> Result<Option<Tracked<f64>>, Failure> {
        self.has(name).then(|| self.input(name)).transpose()
    }

    /// The parts of a tensor along its first axis.
    pub fn parts(&self, name: &str) -> Result<Vec<Tracked<f64>>, Failure> {
        let (all, shape) = (self.matrix(name)?, self.shape(name)?);
        let ranks = if shape.len() < 2 { 1 } else { shape[0] };
        let parts = all.axis_chunks_iter(Axis(0), (all.nrows() / ranks.max(1)).max(1));
        Ok(parts.map(|part| Tracked::exact(part.to_owned())).collect())
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

    /// A tensor of choices, rows for the rows of scores; −1 where there is none left.
    pub fn choices(&self, name: &str, rows: usize) -> Result<Array2<usize>, Failure> {
        let tensor = self.tensor(name)?;
        let chosen = tensor.choices().map_err(|error| self.wrong(name, &error.to_string()))?;
        let columns = chosen.len().checked_div(rows).unwrap_or(0);
        let found = tensor.shape();
        Array2::from_shape_vec((rows, columns), chosen)
            .ok()
            .filter(|_| columns > 0)
            .ok_or_else(|| self.wrong(name, &format!("is {found:?}, expected {rows} rows")))
    }

    /// The same as an input, of an own number of rows.
    pub fn blocks(&self, name: &str) -> Result<Array2<Option<usize>>, Failure> {
        let rows = self.matrix(name)?.nrows();
        Ok(self.choices(name, rows)?.mapv(|block| (block != NONE).then_some(block)))
    }

    /// A tensor of marks.
    pub fn marks(&self, name: &str) -> Result<Vec<bool>, Failure> {
        Ok(self.indices(name, 2)?.iter().map(|&mark| mark == 1).collect())
    }

    /// The marks, if they are there.
    pub fn marks_if(&self, name: &str) -> Result<Option<Vec<bool>>, Failure> {
        self.has(name).then(|| self.marks(name)).transpose()
    }

    /// Counts one after the other.
    pub fn counts(&self, name: &str) -> Result<Vec<usize>, Failure> {
        Ok(self.indices(name, COUNTS)?.into_iter().collect())
    }

    /// Tokens one after the other.
    pub fn tokens(&self, name: &str) -> Result<Vec<u32>, Failure> {
        Ok(self.counts(name)?.into_iter().map(|token| u32::try_from(token).expect("below 2³²")).collect())
    }

    /// Grids of patches, a row each.
    pub fn grids(&self, name: &str) -> Result<Vec<Grid>, Failure> {
        let counts = self.counts(name)?;
        let (grids, rest) = counts.as_chunks::<AXES>();
        if rest.is_empty() {
            return Ok(grids.iter().map(|&[t, h, w]| Grid { t, h, w }).collect());
        }
        Err(self.wrong(name, &format!("is {:?}, expected [grids, {AXES}]", self.shape(name)?)))
    }

    /// A tensor of indices below a limit.
    pub fn indices(&self, name: &str, limit: usize) -> Result<Array2<usize>, Failure> {
        let (tensor, dim) = (self.tensor(name)?, self.matrix(name)?.dim());
        let indices = tensor.indices(limit).map_err(|error| self.wrong(name, &error.to_string()))?;
        Ok(Array2::from_shape_vec(dim, indices).expect("as many as the matrix has"))
    }

    /// What a tensor's values are stored in; wider types count as f32, in which devices compute, and integers are not
    /// rounded.
    pub fn storage(&self, name: &str) -> Result<Storage, Failure> {
        match self.tensor(name)?.dtype() {
            Dtype::Bf16 => Ok(Storage::Bf16),
            Dtype::F16 => Ok(Storage::F16),
            Dtype::F32 | Dtype::F64 => Ok(Storage::F32),
            narrow @ (Dtype::F8E4m3 | Dtype::F8E5m2 | Dtype::F8E8m0) => {
                Err(self.wrong(name, &format!("is {narrow}, expected f32, f16, bf16 or integers")))
            }
            Dtype::Bool
            | Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64 => Ok(Storage::Real),
        }
    }

    /// A number: the one typed, the file's, or the operator's default.
    pub fn number(&self, name: &str) -> Result<f64, Failure> {
        let own = self.operator.numbers.iter().find(|own| own.name == name).expect("the operator has it");
        match (self.number_if(name)?, own.default) {
            (Some(number), _) | (None, Default::Is(number)) => Ok(number),
            (None, Default::No) => Ok(0.0),
            (None, Default::Needed | Default::Absent) => {
                Err(Failure::new(format!("{} needs {name}, {}", self.operator.name, own.what))
                    .help(format!("--set {name}=NUMBER, or a tensor of one number in the file")))
            }
        }
    }

    /// A number, if it is typed or the file has it.
    pub fn number_if(&self, name: &str) -> Result<Option<f64>, Failure> {
        if let Some(typed) = self.typed.get(name) {
            return Ok(Some(*typed));
        }
        if !self.has(name) {
            return Ok(None);
        }
        let tensor = self.tensor(name)?;
        match tensor.values::<f64>()[..] {
            [number] => Ok(Some(number)),
            _ => Err(self.wrong(name, &format!("is {:?}, expected one number", tensor.shape()))),
        }
    }

    /// A number that counts.
    pub fn count(&self, name: &str) -> Result<usize, Failure> {
        self.counted(name, self.number(name)?)
    }

    /// The same, if it is given.
    pub fn count_if(&self, name: &str) -> Result<Option<usize>, Failure> {
        self.number_if(name)?.map(|number| self.counted(name, number)).transpose()
    }

    /// Whether something is so.
    pub fn flag(&self, name: &str) -> Result<bool, Failure> {
        match self.number(name)? {
            0.0 => Ok(false),
            1.0 => Ok(true),
            other => Err(self.wrong(name, &format!("is {other}, expected 0 or 1"))),
        }
    }

    fn counted(&self, name: &str, number: f64) -> Result<usize, Failure> {
        let one = Tensor::stored(Storage::Real, [1], [number]).expect("one value");
        let counts = one.indices(COUNTS).map_err(|_| self.wrong(name, &format!("is {number}, expected a count")))?;
        Ok(counts[0])
    }

    fn tensor(&self, name: &str) -> Result<Tensor<'_>, Failure> {
        if self.has(name) {
            return Ok(self.dump.tensor(name)?);
        }
        let found: Vec<&str> = self.dump.names().collect();
        let problem = format!("{} has no {name}, only {}", self.dump.path().display(), found.join(", "));
        Err(Failure::new(problem).help(format!(
            "{} reads {} and makes {}",
            self.operator.name,
            listed(self.operator.inputs),
            listed(self.operator.outputs)
        )))
    }

    fn wrong(&self, name: &str, what: &str) -> Failure {
        Failure::new(format!("{}: {name}: {what}", self.dump.path().display()))
            .help(format!("`parity op` lists what {} reads and makes", self.operator.name))
    }
}

/// Tensors with their shapes.
pub fn listed(ports: &[Port]) -> String {
    let of = |port: &Port| format!("{} {}{}", port.name, port.shape, if port.is_optional { " (if any)" } else { "" });
    ports.iter().map(of).collect::<Vec<String>>().join(", ")
}

/// The number of `NAME=VALUE`.
fn number_in(operator: &Signature, word: &str) -> Result<(String, f64), Failure> {
    let names: Vec<&str> = operator.numbers.iter().map(|number| number.name).collect();
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
