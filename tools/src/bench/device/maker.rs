//! Operands of which the values do not matter.

use fixtures::convert::types::Types;
use half::bf16;
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::error::Error;
use optimized::tensor::{Element, Matrix};
use optimized::weight::{Quantized, WeightMatrix};

use crate::bench::pattern::Pattern;
use crate::bench::weights::quantization;

/// The scale of all blocks is 2 to the power of it: values are as large as those in bf16.
const SCALE: i8 = -5;

/// Makes operands.
pub(super) struct Maker<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) pattern: &'a Pattern,
    /// How the weights of layers are stored.
    pub(super) weights: Types,
}

impl Maker<'_> {
    /// A weight, or a cache: drawn, or where accesses are counted, never written.
    pub(super) fn large(&self, dim: (usize, usize)) -> Result<Matrix<bf16>, Error> {
        match self.gpu.form() {
            Some(Form::Counting) => self.gpu.uninitialised(dim),
            _ => self.small(dim),
        }
    }

    /// A layer's weight, as they are stored.
    pub(super) fn weight(&self, dim: (usize, usize)) -> Result<WeightMatrix, Error> {
        let Some(how) = quantization(self.weights) else { return Ok(self.large(dim)?.into()) };
        let codes = (self.gpu.form() != Some(Form::Counting)).then_some(&self.pattern.codes[..]);
        Ok(Quantized::repeated(self.gpu, dim, (&how, SCALE), codes)?.into())
    }

    /// A drawn one.
    pub(super) fn small(&self, dim: (usize, usize)) -> Result<Matrix<bf16>, Error> {
        self.of(dim, &self.pattern.narrow)
    }

    /// A drawn one in f32.
    pub(super) fn wide(&self, dim: (usize, usize)) -> Result<Matrix<f32>, Error> {
        self.of(dim, &self.pattern.wide)
    }

    fn of<T: Element>(&self, dim: (usize, usize), values: &[T]) -> Result<Matrix<T>, Error> {
        self.gpu.repeated(dim, values)
    }
}

/// A number as kernels take it.
#[expect(clippy::cast_possible_truncation, reason = "kernels take it in f32")]
pub(super) fn narrow(x: f64) -> f32 {
    x as f32
}
