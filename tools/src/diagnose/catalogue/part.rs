//! Parts of a tensor, and a factor by which one is multiplied.

use ndarray::{Array2, Axis};
use reference::weights::Weight;

use super::fit::Fit;
use super::order::ranged;

/// A part of a tensor times a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled {
    /// The tensor.
    pub of: Weight,
    /// The part.
    pub part: Part,
    /// The factor.
    pub factor: Fit,
    /// Whether the product was rounded to the type that the checkpoint has.
    pub stored: bool,
}

/// A part of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// All of it.
    All,
    /// Heads of so many output channels.
    Heads(usize, Vec<usize>),
    /// Output channels.
    Rows(Vec<usize>),
    /// Input channels of heads of so many.
    InputHeads(usize, Vec<usize>),
    /// Input channels.
    Columns(Vec<usize>),
    /// One element, by its output and its input channel.
    Element(usize, usize),
    /// Input channels of a patch's pixels: those of a frame or a colour, by its number.
    Pixels(&'static str, usize, Vec<usize>),
}

impl Scaled {
    pub(super) fn apply(&self, mut w: Array2<f64>) -> Array2<f64> {
        let inputs = matches!(self.part, Part::InputHeads(..) | Part::Columns(_) | Part::Pixels(..));
        // A vector is one row, with a column for each channel.
        let axis = Axis(usize::from(inputs || w.nrows() == 1));
        let channels: Vec<usize> = match &self.part {
            Part::All => (0..w.len_of(axis)).collect(),
            Part::Heads(each, heads) | Part::InputHeads(each, heads) => {
                heads.iter().flat_map(|head| head * each..(head + 1) * each).collect()
            }
            Part::Rows(channels) | Part::Columns(channels) | Part::Pixels(_, _, channels) => channels.clone(),
            Part::Element(row, column) => {
                w[[*row, *column]] *= self.factor.value;
                Vec::new()
            }
        };
        for channel in channels {
            w.index_axis_mut(axis, channel).mapv_inplace(|w| w * self.factor.value);
        }
        w
    }
}

impl Part {
    /// "rows 3 and 5 of ", which the tensor's name follows.
    pub(super) fn of(&self) -> String {
        match self {
            Part::All => String::new(),
            Part::Heads(_, heads) => format!("{} of ", ranged("head", heads)),
            Part::Rows(rows) => format!("{} of ", ranged("row", rows)),
            Part::InputHeads(_, heads) => format!("the columns of {} of ", ranged("head", heads)),
            Part::Columns(columns) => format!("{} of ", ranged("column", columns)),
            Part::Element(row, column) => format!("element [{row}, {column}] of "),
            Part::Pixels(what, number, _) => format!("the columns of {what} {number} of "),
        }
    }

    /// Whether it is told in the plural.
    pub(super) fn are_several(&self) -> bool {
        match self {
            Part::All | Part::Element(..) => false,
            Part::InputHeads(..) | Part::Pixels(..) => true,
            Part::Heads(_, all) | Part::Rows(all) | Part::Columns(all) => all.len() > 1,
        }
    }
}
