//! Changes of single tensors, or of parts of them, as a search finds them.

use std::fmt;

use fixtures::quantize::quantize;
use ndarray::{Array2, Axis};
use reference::Storage;
use reference::config::Quantization;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::weights::{LayerWeight, Projection, Weight};

use super::scales::ScaleChange;
use crate::report::figures::numbered;

/// A change. The number of a tensor's layer does not count: the layers are those in which the change is assumed.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorChange {
    /// A part of a tensor times a factor.
    Scaled(Scaled),
    /// Each expert has the projections of the one that stands in its place.
    Experts(Projections, Vec<usize>),
    /// Of a tensor, blocks of so many output channels; each has the values of the one that stands in its place.
    Rows(Weight, usize, Vec<usize>),
    /// A tensor, or those of all experts, are another layer's.
    OfLayer(Tensors, usize),
    /// A square tensor is transposed.
    Transposed(Weight),
    /// A tensor, or those of all experts, are rounded.
    Rounded(Tensors, Grid),
    /// Scales of quantized tensors are taken otherwise.
    Scales(Tensors, ScaleChange),
}

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

/// A number and three standard deviations of it.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Fit {
    /// The number.
    pub value: f64,
    /// How far it may be off.
    pub error: f64,
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
}

/// Projections of an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projections {
    /// All three.
    All,
    /// Gate and up projection.
    GateUp,
    /// The output projection.
    Down,
}

/// Tensors that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tensors {
    /// One.
    One(Weight),
    /// Those of all routed experts.
    Experts(Projections),
    /// Every tensor that is quantized.
    Quantized,
}

/// What values are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// E4M3, scaled so that the largest of each 128 × 128 block is the largest that there is.
    E4m3,
    /// 8-bit integers, scaled so that the largest of each row is 127.
    Int8,
}

impl TensorChange {
    /// The weight as it is changed; `get` has them as they were.
    pub(super) fn apply<'w>(
        &self,
        weight: Weight,
        get: impl Fn(Weight) -> Result<Matrix<'w>, WeightError>,
    ) -> Result<Matrix<'w>, WeightError> {
        match self {
            TensorChange::Scaled(scaled) if is(weight, scaled.of) => {
                let w = get(weight)?;
                let storage = if scaled.stored { w.storage() } else { Storage::F32 };
                Ok(Matrix::stored(scaled.apply(w.dense()).view(), storage))
            }
            TensorChange::Experts(which, order) => match weight {
                Weight::Layer(layer, LayerWeight::Expert(e, projection)) if which.has(projection) => {
                    get(Weight::Layer(layer, LayerWeight::Expert(order[e], projection)))
                }
                _ => get(weight),
            },
            TensorChange::Rows(of, each, order) if is(weight, *of) => {
                let w = get(weight)?;
                let rows: Vec<usize> = order.iter().flat_map(|block| block * each..(block + 1) * each).collect();
                Ok(Matrix::stored(w.dense::<f64>().select(Axis(0), &rows).view(), w.storage()))
            }
            TensorChange::OfLayer(tensors, layer) => match weight {
                Weight::Layer(_, inner) if tensors.have(weight) => get(Weight::Layer(*layer, inner)),
                _ => get(weight),
            },
            TensorChange::Transposed(of) if is(weight, *of) => {
                let w = get(weight)?;
                Ok(Matrix::stored(w.dense::<f64>().t(), w.storage()))
            }
            TensorChange::Rounded(tensors, grid) if tensors.have(weight) => Ok(grid.round(&get(weight)?)),
            TensorChange::Scales(tensors, change) if tensors.have(weight) => Ok(change.apply(get(weight)?)),
            _ => get(weight),
        }
    }

    /// What is changed, and where: " in layer 1" follows the tensor's name.
    pub fn said(&self, place: &str) -> String {
        match self {
            TensorChange::Scaled(Scaled { of, part, factor, .. }) => {
                let verb =
                    if matches!(part, Part::Rows(all) | Part::Heads(_, all) if all.len() > 1) { "are" } else { "is" };
                let what = format!("{}{}{place}", part.of(), named(*of));
                if factor.value == 0.0 {
                    return format!("{what} {verb} 0");
                }
                format!("{what} {verb} {factor} times the checkpoint's")
            }
            TensorChange::Experts(which, order) => format!("{}{}", which.of(), moved("expert", order, place)),
            TensorChange::Rows(of, 1, order) => moved("row", order, &format!(" of {}{place}", named(*of))),
            TensorChange::Rows(of, _, order) => moved("head", order, &format!(" of {}{place}", named(*of))),
            TensorChange::OfLayer(tensors, layer) => format!("{tensors}{place} is that of layer {layer}"),
            TensorChange::Transposed(of) => format!("{}{place} is transposed", named(*of)),
            TensorChange::Rounded(tensors, grid) => format!("{tensors}{place} is rounded to {grid}"),
            TensorChange::Scales(tensors, change) => format!("the scales of {tensors}{place} {change}"),
        }
    }
}

impl Scaled {
    fn apply(&self, mut w: Array2<f64>) -> Array2<f64> {
        // A vector is one row, with a column for each channel.
        let axis = Axis(usize::from(w.nrows() == 1));
        let channels: Vec<usize> = match &self.part {
            Part::All => (0..w.len_of(axis)).collect(),
            Part::Heads(each, heads) => heads.iter().flat_map(|head| head * each..(head + 1) * each).collect(),
            Part::Rows(rows) => rows.clone(),
        };
        for channel in channels {
            w.index_axis_mut(axis, channel).mapv_inplace(|w| w * self.factor.value);
        }
        w
    }
}

/// Whether a weight is of that name, in any layer.
fn is(weight: Weight, named: Weight) -> bool {
    match (weight, named) {
        (Weight::Layer(_, a), Weight::Layer(_, b)) => a == b,
        (a, b) => a == b,
    }
}

impl Projections {
    fn has(self, projection: Projection) -> bool {
        match self {
            Projections::All => true,
            Projections::GateUp => projection != Projection::Down,
            Projections::Down => projection == Projection::Down,
        }
    }

    fn of(self) -> &'static str {
        match self {
            Projections::All => "",
            Projections::GateUp => "gate_proj and up_proj of ",
            Projections::Down => "down_proj of ",
        }
    }
}

impl Tensors {
    fn have(self, weight: Weight) -> bool {
        match (self, weight) {
            (Tensors::Quantized, _) => true,
            (Tensors::One(of), weight) => is(weight, of),
            (Tensors::Experts(which), Weight::Layer(_, LayerWeight::Expert(_, projection))) => which.has(projection),
            _ => false,
        }
    }
}

impl Grid {
    fn round(self, w: &Matrix<'_>) -> Matrix<'static> {
        match self {
            Grid::E4m3 => {
                let how = Quantization::released("fp8").expect("a scheme that is known");
                quantize(w.dense().view(), &how).matrix(w.dim(), &how)
            }
            Grid::Int8 => {
                let mut rounded: Array2<f64> = w.dense();
                for mut row in rounded.rows_mut() {
                    let scale = row.fold(0.0, |most: f64, w| most.max(w.abs())) / 127.0;
                    if scale > 0.0 {
                        row.mapv_inplace(|w| scale * (w / scale).round_ties_even());
                    }
                }
                Matrix::stored(rounded.view(), Storage::F32)
            }
        }
    }
}

/// "experts 3 and 7 are exchanged", "experts are permuted: 1 has the weights of 4, 4 of 2, 2 of 1".
fn moved(what: &str, order: &[usize], place: &str) -> String {
    let moved: Vec<(usize, usize)> = order.iter().copied().enumerate().filter(|(i, j)| i != j).collect();
    match moved[..] {
        [(a, b)] => format!("{what} {a}{place} has the weights of {what} {b}"),
        [(a, b), (c, d)] if (a, b) == (d, c) => format!("{}{place} are exchanged", numbered(what, &[a, c])),
        _ => {
            let told: Vec<String> = moved.iter().take(16).map(|(i, j)| format!("{i} has those of {j}")).collect();
            let more = if moved.len() > told.len() { ", …" } else { "" };
            format!("{what}s{place} have each other's weights: {}{more}", told.join(", "))
        }
    }
}

/// A tensor as people name it.
fn named(weight: Weight) -> String {
    let module = |projection| match projection {
        Projection::Gate => "gate_proj",
        Projection::Up => "up_proj",
        Projection::Down => "down_proj",
    };
    match weight {
        Weight::Layer(_, LayerWeight::Expert(e, projection)) => format!("{} of expert {e}", module(projection)),
        Weight::Layer(_, LayerWeight::Shared(projection)) => format!("{} of the shared expert", module(projection)),
        Weight::Layer(_, LayerWeight::Dense(projection)) => format!("{} of the dense network", module(projection)),
        Weight::Layer(_, LayerWeight::Gate) => "the router".into(),
        Weight::Layer(_, LayerWeight::CorrectionBias) => "the correction bias".into(),
        other => {
            let name = match other {
                Weight::Layer(_, inner) => inner.to_string(),
                other => other.to_string(),
            };
            let name = name.trim_end_matches(".weight");
            name.rsplit('.').next().unwrap_or(name).to_owned()
        }
    }
}

impl Part {
    fn of(&self) -> String {
        match self {
            Part::All => String::new(),
            Part::Heads(_, heads) => format!("{} of ", numbered("head", heads)),
            Part::Rows(rows) => format!("{} of ", numbered("row", rows)),
        }
    }
}

impl fmt::Display for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tensors::One(weight) => f.write_str(&named(*weight)),
            Tensors::Experts(which) => write!(f, "{}every expert", which.of()),
            Tensors::Quantized => f.write_str("every quantized weight"),
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grid::E4m3 => "E4M3 by blocks of 128 × 128",
            Grid::Int8 => "8-bit integers by rows",
        })
    }
}

/// "1.0100 ± 0.0003", "1.00e-5 ± 0.02e-5".
impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fit { value, error } = *self;
        if !value.is_finite() || !error.is_finite() || value == 0.0 {
            return write!(f, "{value} ± {error:.1e}");
        }
        let size = value.abs().log10().floor();
        let power = if (-3.0..6.0).contains(&size) { 0.0 } else { size };
        let scale = 10_f64.powf(power);
        // As many digits as the error's first.
        let digits = (-(error / scale).log10().floor()).clamp(0.0, 9.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
        let digits = digits as usize;
        let shown = (error / scale).max(10_f64.powi(-9));
        let unit = if power == 0.0 { String::new() } else { format!("e{power}") };
        write!(f, "{:.digits$}{unit} ± {shown:.digits$}{unit}", value / scale)
    }
}
