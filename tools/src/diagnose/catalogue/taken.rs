//! Channels of a tensor that are another's.

use ndarray::Array2;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::weights::{VisionWeight, Weight};

use super::names::{in_layer, is, named};

/// Channels that are taken from a tensor of the same layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The tensor that has them.
    pub of: Weight,
    /// The tensor that they are from.
    pub from: Weight,
    /// After so many, the first is taken again.
    pub period: usize,
    /// How many the other tensor has.
    pub whole: usize,
}

impl Taken {
    /// Whether it changes a weight. In the tower, a module's bias goes with its weight.
    pub(super) fn is_of(self, weight: Weight) -> bool {
        match (weight, self.of) {
            (Weight::Vision(VisionWeight::Layer(a, one, _)), Weight::Vision(VisionWeight::Layer(b, other, _))) => {
                (a, one) == (b, other)
            }
            (weight, of) => is(weight, of),
        }
    }

    /// The tensor that a weight of this name is taken from, in its own layer.
    fn source(self, weight: Weight) -> Option<Weight> {
        match (weight, self.from) {
            (Weight::Layer(layer, _), from) => Some(in_layer(from, layer)),
            (Weight::FinalNorm, from) => Some(from),
            (
                Weight::Vision(VisionWeight::Layer(layer, _, part)),
                Weight::Vision(VisionWeight::Layer(_, module, _)),
            ) => Some(Weight::Vision(VisionWeight::Layer(layer, module, part))),
            _ => None,
        }
    }

    /// In a layer that has no such tensor, nothing is taken.
    pub(super) fn apply<'w>(
        self,
        weight: Weight,
        get: impl Fn(Weight) -> Result<Matrix<'w>, WeightError>,
    ) -> Result<Matrix<'w>, WeightError> {
        let own = get(weight)?;
        let Some(from) = self.source(weight) else { return Ok(own) };
        let Ok(from) = get(from) else { return Ok(own) };
        let (rows, columns) = own.dim();
        let source: Array2<f64> = from.dense();
        let taken = match source.dim() {
            (1, width) if rows == 1 && self.period <= width => {
                Array2::from_shape_fn((rows, columns), |(_, j)| source[[0, j % self.period]])
            }
            (height, width) if width == columns && self.period <= height => {
                Array2::from_shape_fn((rows, columns), |(i, j)| source[[i % self.period, j]])
            }
            _ => return Ok(own),
        };
        Ok(Matrix::stored(taken.view(), from.storage()))
    }

    pub(super) fn said(self, place: &str) -> String {
        let Taken { of, from, period, whole } = self;
        if of == from {
            return format!("the first {period} channels of {}{place} are repeated", named(of));
        }
        let part = if period == whole { String::new() } else { format!("the first {period} channels of ") };
        let layer = match (of, from) {
            (Weight::FinalNorm, Weight::Layer(layer, _)) => format!(" in layer {layer}"),
            _ => String::new(),
        };
        format!("{}{place} has the values of {part}{}{layer}", named(of), named(from))
    }
}
