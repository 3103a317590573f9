//! What is probed: a function of arrays, of a kind that says their shapes.

use ndarray::{ArrayD, IxDyn};
use reference::Storage;
use strum::{Display, EnumString, VariantNames};

use crate::failure::Failure;

/// Rows of a call: always as many, since libraries choose an order by the shape, too.
pub(super) const ROWS: usize = 64;

/// Columns of a product's right side.
pub(super) const COLUMNS: usize = 16;

/// Heads of a call of attention, with a query each.
pub(super) const HEADS: usize = 8;
/// Channels of a head.
pub(super) const CHANNELS: usize = 64;

/// What a function computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// a·b.
    Product,
    /// The sum of each row.
    Sum,
    /// RMSNorm.
    Norm,
    /// RMSNorm of a sum.
    AddNorm,
    /// The softmax of each row.
    Softmax,
    /// Attention of a query to all keys.
    Attention,
}

impl Kind {
    /// What kinds are called.
    pub fn names() -> &'static [&'static str] {
        Kind::VARIANTS
    }

    /// What the function takes and gives, where `size` is the number of terms of its sums.
    pub fn signature(self) -> &'static str {
        match self {
            Kind::Product => "f(a [64, size], b [size, 16]) = a·b [64, 16]",
            Kind::Sum => "f(x [64, size]) = Σⱼ xᵢⱼ [64]",
            Kind::Norm => "f(x [64, size], w [size]) = x / √(ε + mean x²) · w, or · (1 + w) [64, size]",
            Kind::AddNorm => "f(x [64, size], y [64, size], w [size]) = norm(x + y; w) [64, size]",
            Kind::Softmax => "f(x [64, size]) = softmax of each row [64, size]",
            Kind::Attention => {
                "f(q [8, 1, 64], k [8, size, 64], v [8, size, 64]) = softmax(q·kᵀ / √64)·v [8, 1, 64], without a mask"
            }
        }
    }

    /// How many terms the sums have where nobody says.
    pub(super) fn usual_size(self) -> usize {
        match self {
            Kind::Norm | Kind::AddNorm | Kind::Softmax => 4096,
            Kind::Product | Kind::Sum | Kind::Attention => 256,
        }
    }
}

/// What a function gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Its values.
    pub values: ArrayD<f64>,
    /// What they are stored in; [`Storage::Real`] for f64.
    pub storage: Storage,
}

/// What is probed: it makes values of arrays.
pub type Function<'f> = dyn FnMut(&[ArrayD<f64>]) -> Result<Made, Failure> + 'f;

/// A function, and what is known of it.
pub(super) struct Probed<'f> {
    function: &'f mut Function<'f>,
    /// What it computes.
    pub(super) kind: Kind,
    /// What its inputs are stored in.
    pub(super) storage: Storage,
    /// Terms of its sums.
    pub(super) size: usize,
    /// What its output is stored in, once it was called.
    pub(super) output: Storage,
}

impl<'f> Probed<'f> {
    pub(super) fn new(function: &'f mut Function<'f>, kind: Kind, storage: Storage, size: usize) -> Self {
        Probed { function, kind, storage, size, output: Storage::Real }
    }

    /// What it makes of these, which is of such a shape.
    pub(super) fn call(&mut self, inputs: &[ArrayD<f64>], shape: &[usize]) -> Result<ArrayD<f64>, Failure> {
        debug_assert!(inputs.iter().flatten().all(|&x| self.storage.holds(x)), "inputs are the storage's own");
        let Made { values, storage } = (self.function)(inputs)?;
        if values.shape() != shape {
            let problem = format!(
                "probe: a {} gave values of shape {:?}, expected {shape:?} of inputs {}",
                self.kind,
                values.shape(),
                inputs.iter().map(|input| format!("{:?}", input.shape())).collect::<Vec<_>>().join(", ")
            );
            return Err(Failure::new(problem).help(format!("wrap the function as {}", self.kind.signature())));
        }
        self.output = storage;
        Ok(values)
    }
}

/// An array of a shape, of values by their place in C order.
pub(super) fn array(shape: &[usize], values: Vec<f64>) -> ArrayD<f64> {
    ArrayD::from_shape_vec(IxDyn(shape), values).expect("as many as the shape says")
}
