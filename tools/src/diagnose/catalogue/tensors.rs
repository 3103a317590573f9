//! Changes of single tensors, or of parts of them, as a search finds them.

use std::fmt;

use ndarray::Array2;
use reference::Storage;
use reference::config::Config;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::semantics::NormWeight;
use reference::weights::{LayerWeight, Projection, Weight};

use super::grid::{self, Grid};
use super::names::{in_layer, is, named};
use super::order::{self, ColumnOrder, Order, moved};
use super::part::Scaled;
use super::scales::ScaleChange;
use super::taken::Taken;

/// A change. The number of a text layer's tensor does not count: the layers are those in which the change is assumed.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorChange {
    /// A part of a tensor times a factor.
    Scaled(Scaled),
    /// Each expert has the projections of the one that stands in its place.
    Experts(Projections, Order),
    /// Of a tensor, blocks of so many output channels; each has the values of the one that stands in its place.
    Rows(Weight, usize, Order),
    /// Matrices have their input channels in another order.
    Columns(Tensors, ColumnOrder),
    /// Of matrices, blocks of so many input channels; each has the values of the one that stands in its place.
    Inputs(Tensors, usize, Order),
    /// A tensor has the values of one of another name.
    Taken(Taken),
    /// Two tensors of a layer have each other's values.
    Exchanged(Weight, Weight),
    /// A norm multiplies by its weight and so many ones, instead of as many as are right; whether that is rounded to the type that
    /// the checkpoint has.
    Ones(Weight, [u8; 2], bool),
    /// A norm multiplies by 1, as where its weight was not loaded.
    AllOnes(Weight),
    /// A tensor's signs are taken otherwise.
    Signs(Weight, Signs),
    /// Tensors are another layer's.
    OfLayer(Tensors, usize),
    /// Two layers have each other's weights.
    Layers(usize, usize),
    /// Matrices are transposed: where they are not square, their elements follow each other as their transposes' do.
    Transposed(Tensors),
    /// A tensor, or those of all experts, are rounded.
    Rounded(Tensors, Grid),
    /// Experts' tensors are rounded to E4M3 with one scale for those of all experts: gate and up projections, or outputs;
    /// whether what they stand for was rounded to the type that the checkpoint has.
    RoundedTogether(Projections, bool),
    /// Each expert's gate and up projection, stacked, and its output's are rounded to E4M3 with a scale each, and multiplied by that
    /// of the expert so many further, modulo their number; whether that was rounded to the type that the checkpoint has.
    RoundedStacked(Projections, usize, bool),
    /// A tensor is rounded to E4M3 with one scale, and multiplied by that of another of its layer; whether that was rounded to the
    /// type that the checkpoint has.
    RoundedBeside(Weight, Weight, bool),
    /// Scales of quantized tensors are taken otherwise.
    Scales(Tensors, ScaleChange),
}

/// How signs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// Negative values are 0.
    Positive,
    /// All values are positive.
    Absolute,
    /// All have the other sign.
    Negated,
}

/// Projections of an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projections {
    /// All three.
    All,
    /// Gate and up projection.
    GateUp,
    /// The gate projection.
    Gate,
    /// The up projection.
    Up,
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
    /// Those of the shared expert.
    Shared(Projections),
    /// Those of a dense layer's network.
    Dense(Projections),
    /// The norms' weights.
    Norms,
    /// Every tensor.
    All,
}

impl TensorChange {
    /// The weight as it is changed; `get` has them as they were.
    pub(super) fn apply<'w>(
        &self,
        weight: Weight,
        config: &Config,
        get: impl Fn(Weight) -> Result<Matrix<'w>, WeightError>,
    ) -> Result<Matrix<'w>, WeightError> {
        let mapped = |f: &dyn Fn(&Array2<f64>) -> Array2<f64>| {
            let w = get(weight)?;
            Ok(Matrix::stored(f(&w.dense()).view(), w.storage()))
        };
        match self {
            TensorChange::Scaled(scaled) if is(weight, scaled.of) => {
                let w = get(weight)?;
                let storage = if scaled.stored { w.storage() } else { Storage::F32 };
                Ok(Matrix::stored(scaled.apply(w.dense()).view(), storage))
            }
            TensorChange::Experts(which, order) => match weight {
                Weight::Layer(layer, LayerWeight::Expert(e, projection)) if which.has(projection) => match order[e] {
                    Some(from) => get(Weight::Layer(layer, LayerWeight::Expert(from, projection))),
                    None => mapped(&|w| Array2::zeros(w.dim())),
                },
                _ => get(weight),
            },
            TensorChange::Rows(of, each, order) if is(weight, *of) => mapped(&|w| order::rows(w, *each, order)),
            TensorChange::Columns(tensors, order) if tensors.have(weight) => mapped(&|w| order.apply(w)),
            TensorChange::Inputs(tensors, each, order) if tensors.have(weight) => {
                mapped(&|w| order::rows(&w.t().to_owned(), *each, order).reversed_axes())
            }
            TensorChange::Taken(taken) if taken.is_of(weight) => taken.apply(weight, get),
            TensorChange::Exchanged(a, b) if is(weight, *a) => beside(weight, *b, get),
            TensorChange::Exchanged(a, b) if is(weight, *b) => beside(weight, *a, get),
            TensorChange::Ones(of, [is_added, right], stored) if is(weight, *of) => {
                let (w, by) = (get(weight)?, f64::from(*is_added) - f64::from(*right));
                let storage = if *stored { w.storage() } else { Storage::F32 };
                Ok(Matrix::stored(w.dense::<f64>().mapv(|w| w + by).view(), storage))
            }
            TensorChange::AllOnes(of) if is(weight, *of) => {
                let ones = if config.norm_weight == NormWeight::OnePlus { 0.0 } else { 1.0 };
                mapped(&|w| Array2::from_elem(w.dim(), ones))
            }
            TensorChange::Signs(of, signs) if is(weight, *of) => mapped(&|w| w.mapv(|w| signs.of(w))),
            TensorChange::OfLayer(tensors, layer) if tensors.have(weight) => get(in_layer(weight, *layer)),
            TensorChange::Layers(a, b) => match weight {
                Weight::Layer(layer, inner) if layer == *a => get(Weight::Layer(*b, inner)),
                Weight::Layer(layer, inner) if layer == *b => get(Weight::Layer(*a, inner)),
                _ => get(weight),
            },
            TensorChange::Transposed(tensors) if tensors.have(weight) => mapped(&order::transposed),
            TensorChange::Rounded(tensors, grid) if tensors.have(weight) => Ok(grid.round(&get(weight)?)),
            TensorChange::RoundedTogether(which, stored) if Tensors::Experts(*which).have(weight) => {
                let scale = largest_of_experts(weight, config.num_local_experts, &get)? / Storage::E4m3.largest();
                Ok(grid::to_e4m3(&get(weight)?, [scale; 2], *stored))
            }
            TensorChange::RoundedStacked(which, by, stored) if Tensors::Experts(*which).have(weight) => {
                let experts = config.num_local_experts;
                let scale = |by| {
                    Ok::<_, WeightError>(largest_of_expert(weight, (by, experts), &get)? / Storage::E4m3.largest())
                };
                Ok(grid::to_e4m3(&get(weight)?, [scale(0)?, scale(*by)?], *stored))
            }
            TensorChange::RoundedBeside(of, other, stored) if is(weight, *of) => {
                let w = get(weight)?;
                let [own, others] = [grid::largest(&w), grid::largest(&beside(weight, *other, &get)?)];
                let most = Storage::E4m3.largest();
                Ok(grid::to_e4m3(&w, [own / most, others / most], *stored))
            }
            TensorChange::Scales(tensors, change) if tensors.have(weight) => Ok(change.apply(get(weight)?)),
            _ => get(weight),
        }
    }

    /// Whether it is made in layers of the text model, whichever these are.
    pub(in crate::diagnose) fn is_of_layers(&self) -> bool {
        !matches!(self, TensorChange::Layers(..)) && self.of().is_none_or(|of| matches!(of, Weight::Layer(..)))
    }

    /// Whether it changes which blocks are chosen, and nothing else.
    pub(in crate::diagnose) fn is_of_index(&self) -> bool {
        use LayerWeight::{IndexKNorm, IndexKProj, IndexQNorm, IndexQProj};
        let of = self.of();
        of.is_some_and(|of| matches!(of, Weight::Layer(_, IndexQProj | IndexKProj | IndexQNorm | IndexKNorm)))
    }

    /// The one tensor that it changes, if it is of one, or of two the first.
    fn of(&self) -> Option<&Weight> {
        match self {
            TensorChange::Scaled(Scaled { of, .. })
            | TensorChange::Rows(of, ..)
            | TensorChange::Columns(Tensors::One(of), _)
            | TensorChange::Taken(Taken { of, .. })
            | TensorChange::Ones(of, ..)
            | TensorChange::AllOnes(of)
            | TensorChange::Signs(of, _)
            | TensorChange::Transposed(Tensors::One(of))
            | TensorChange::OfLayer(Tensors::One(of), _)
            | TensorChange::Inputs(Tensors::One(of), ..)
            | TensorChange::Exchanged(of, _)
            | TensorChange::RoundedBeside(of, ..)
            | TensorChange::Rounded(Tensors::One(of), _)
            | TensorChange::Scales(Tensors::One(of), _) => Some(of),
            _ => None,
        }
    }

    /// What is changed, and where: " in layer 1" follows the tensor's name.
    pub fn said(&self, place: &str) -> String {
        match self {
            TensorChange::Scaled(Scaled { of, part, factor, .. }) => {
                let verb = if part.are_several() { "are" } else { "is" };
                let what = format!("{}{}{place}", part.of(), named(*of));
                if factor.value == 0.0 {
                    return format!("{what} {verb} 0");
                }
                format!("{what} {verb} {factor} times the checkpoint's")
            }
            TensorChange::Experts(which, order) => format!("{}{}", which.of(), moved("expert", order, place)),
            TensorChange::Rows(of, 1, order) => moved("row", order, &format!(" of {}{place}", named(*of))),
            TensorChange::Rows(of, _, order) => moved("head", order, &format!(" of {}{place}", named(*of))),
            TensorChange::Columns(tensors, order) => format!("the columns of {tensors}{place} {order}"),
            TensorChange::Inputs(Tensors::One(of @ Weight::Layer(_, LayerWeight::CorrectionBias)), 1, order) => {
                moved("value", order, &format!(" of {}{place}", named(*of)))
            }
            TensorChange::Inputs(tensors, each, order) => {
                moved(&format!("{each}-column part"), order, &format!(" of {tensors}{place}"))
            }
            TensorChange::Taken(taken) => taken.said(place),
            TensorChange::Exchanged(a, b) => format!("{} and {}{place} are exchanged", named(*a), named(*b)),
            TensorChange::Ones(of, ones, _) => {
                let [is, right] = ones.map(|ones| if ones == 0 { "w".into() } else { format!("{ones} + w") });
                format!("{}{place} multiplies by {is} instead of {right}", named(*of))
            }
            TensorChange::AllOnes(of) => format!("{}{place} multiplies by 1 everywhere", named(*of)),
            TensorChange::Signs(of, signs) => format!("{signs} of {}{place}", named(*of)),
            TensorChange::OfLayer(tensors, layer) if tensors.are_several() => {
                format!("{tensors}{place} are those of layer {layer}")
            }
            TensorChange::OfLayer(tensors, layer) => format!("{tensors}{place} is that of layer {layer}"),
            TensorChange::Layers(a, b) => format!("layers {a} and {b} are exchanged"),
            TensorChange::Transposed(tensors) => format!("{tensors}{place} is transposed"),
            TensorChange::Rounded(tensors, grid) => {
                let verb = if tensors.are_several() { "are" } else { "is" };
                format!("{tensors}{place} {verb} rounded to {grid}")
            }
            TensorChange::RoundedTogether(which, _) => {
                let tensors = Tensors::Experts(*which);
                let verb = if tensors.are_several() { "are" } else { "is" };
                format!("{tensors}{place} {verb} rounded to E4M3 with one scale for all experts")
            }
            TensorChange::RoundedStacked(which, by, _) => {
                let tensors = Tensors::Experts(*which);
                let verb = if tensors.are_several() { "are" } else { "is" };
                let scale = match by {
                    0 => "a scale for each expert".to_owned(),
                    by => format!("a scale for each expert, and multiplied by that of the expert {by} further"),
                };
                format!("{tensors}{place} {verb} rounded to E4M3 with {scale}")
            }
            TensorChange::RoundedBeside(of, other, _) => {
                format!("{}{place} is rounded to E4M3 and multiplied by the scale of {}", named(*of), named(*other))
            }
            TensorChange::Scales(Tensors::All, change) => {
                format!("the scales of every quantized weight{place} {change}")
            }
            TensorChange::Scales(tensors, change) => format!("the scales of {tensors}{place} {change}"),
        }
    }
}

/// A tensor of the same layer, or where that has none, the tensor itself.
fn beside<'w>(
    weight: Weight,
    other: Weight,
    get: impl Fn(Weight) -> Result<Matrix<'w>, WeightError>,
) -> Result<Matrix<'w>, WeightError> {
    match weight {
        Weight::Layer(layer, _) => get(in_layer(other, layer)).or_else(|_| get(weight)),
        _ => get(other),
    }
}

/// The largest size of an element in the tensors that the expert so many further, of so many, has stacked as a weight is.
fn largest_of_expert<'w>(
    weight: Weight,
    (by, experts): (usize, usize),
    get: impl Fn(Weight) -> Result<Matrix<'w>, WeightError>,
) -> Result<f64, WeightError> {
    let Weight::Layer(layer, LayerWeight::Expert(e, projection)) = weight else { return Ok(0.0) };
    let other = (e + by) % experts.max(1);
    let all = stacked(projection).iter().map(|one| LayerWeight::Expert(other, *one));
    all.map(|one| Ok(grid::largest(&get(Weight::Layer(layer, one))?)))
        .try_fold(0.0, |most, w: Result<f64, WeightError>| Ok(f64::max(most, w?)))
}

/// The projections that an expert has in one tensor.
fn stacked(projection: Projection) -> &'static [Projection] {
    if projection == Projection::Down { &[Projection::Down] } else { &[Projection::Gate, Projection::Up] }
}

/// The largest size of an element in the tensors that all experts of a layer have stacked with one.
fn largest_of_experts<'w>(
    weight: Weight,
    experts: usize,
    get: impl Fn(Weight) -> Result<Matrix<'w>, WeightError>,
) -> Result<f64, WeightError> {
    let Weight::Layer(layer, LayerWeight::Expert(_, projection)) = weight else { return Ok(0.0) };
    let all = (0..experts).flat_map(|e| stacked(projection).iter().map(move |one| LayerWeight::Expert(e, *one)));
    all.map(|one| Ok(grid::largest(&get(Weight::Layer(layer, one))?)))
        .try_fold(0.0, |most, w: Result<f64, WeightError>| Ok(f64::max(most, w?)))
}

impl Signs {
    fn of(self, value: f64) -> f64 {
        match self {
            Signs::Positive => value.max(0.0),
            Signs::Absolute => value.abs(),
            Signs::Negated => -value,
        }
    }
}

impl fmt::Display for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Signs::Positive => "0 stands for the negative values",
            Signs::Absolute => "the absolute stands for each value",
            Signs::Negated => "the negative stands for each value",
        })
    }
}

impl Projections {
    fn has(self, projection: Projection) -> bool {
        match self {
            Projections::All => true,
            Projections::GateUp => projection != Projection::Down,
            Projections::Gate => projection == Projection::Gate,
            Projections::Up => projection == Projection::Up,
            Projections::Down => projection == Projection::Down,
        }
    }

    fn of(self) -> &'static str {
        match self {
            Projections::All => "",
            Projections::GateUp => "gate_proj and up_proj of ",
            Projections::Gate => "gate_proj of ",
            Projections::Up => "up_proj of ",
            Projections::Down => "down_proj of ",
        }
    }
}

impl Tensors {
    fn have(self, weight: Weight) -> bool {
        match (self, weight) {
            (Tensors::All, _) => true,
            (Tensors::One(of), weight) => is(weight, of),
            (Tensors::Norms, weight) => weight.is_norm(),
            (Tensors::Experts(which), Weight::Layer(_, LayerWeight::Expert(_, projection)))
            | (Tensors::Shared(which), Weight::Layer(_, LayerWeight::Shared(projection)))
            | (Tensors::Dense(which), Weight::Layer(_, LayerWeight::Dense(projection))) => which.has(projection),
            _ => false,
        }
    }

    fn are_several(self) -> bool {
        let (Tensors::Experts(which) | Tensors::Shared(which) | Tensors::Dense(which)) = self else { return false };
        which == Projections::GateUp
    }
}

impl fmt::Display for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tensors::One(weight) => f.write_str(&named(*weight)),
            Tensors::Experts(which) => write!(f, "{}every expert", which.of()),
            Tensors::Shared(which) => write!(f, "{}the shared expert", which.of()),
            Tensors::Dense(which) => write!(f, "{}the dense network", which.of()),
            Tensors::Norms => f.write_str("every norm's weight"),
            Tensors::All => f.write_str("every weight"),
        }
    }
}
