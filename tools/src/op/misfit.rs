//! Why an operator cannot be computed of a file's tensors, by their names there.

use super::given::{Given, listed};
use super::signature::{Default, Port, Signature};
use crate::failure::Failure;

/// What stands for all axes but those that are named.
const AXES: &str = "…";

/// An axis of a tensor that is given.
struct Axis {
    letter: &'static str,
    extent: usize,
    tensor: &'static str,
    shape: Vec<usize>,
}

/// What an operator refused in the letters of its equation, with the tensors that do not fit one another, if their shapes say so,
/// else with all that it was given.
pub(super) fn told(given: &Given, operator: &Signature, refused: &Failure) -> Failure {
    let inputs: Vec<(&Port, Vec<usize>)> =
        operator.inputs.iter().filter_map(|port| Some((port, given.shape(port.name).ok()?))).collect();
    let said = unlike(&inputs).or_else(|| at_odds(&inputs)).or_else(|| other_than_numbers(given, operator, &inputs));
    let said = said.unwrap_or_else(|| {
        let all: Vec<String> = inputs.iter().map(|(port, shape)| format!("{} {shape:?}", port.name)).collect();
        format!("{} cannot be computed of {}: {refused}", operator.name, all.join(", "))
    });
    Failure::new(format!("{}: {said}", given.path().display())).help(format!(
        "{} reads {}",
        operator.name,
        listed(operator.inputs)
    ))
}

/// A tensor that has to be shaped as another, and is not.
fn unlike(inputs: &[(&Port, Vec<usize>)]) -> Option<String> {
    inputs.iter().find_map(|(port, shape)| {
        let name = port.shape.strip_prefix("as ")?;
        let (_, expected) = inputs.iter().find(|(port, _)| port.name == name)?;
        (shape != expected).then(|| format!("{} is {shape:?}, expected that of {name}, {expected:?}", port.name))
    })
}

/// Two axes of one name and of different extents.
fn at_odds(inputs: &[(&Port, Vec<usize>)]) -> Option<String> {
    let axes: Vec<Axis> = inputs.iter().flat_map(|(port, shape)| axes(port, shape)).collect();
    axes.iter().enumerate().find_map(|(place, axis)| {
        let other = axes[..place].iter().find(|other| other.letter == axis.letter && other.extent != axis.extent)?;
        let named = if axis.letter == AXES { "the number of rows" } else { axis.letter };
        Some(format!(
            "{named} is {} in {} {:?} and {} in {} {:?}",
            other.extent, other.tensor, other.shape, axis.extent, axis.tensor, axis.shape
        ))
    })
}

/// An axis that is a product of numbers, and is not.
fn other_than_numbers(given: &Given, operator: &Signature, inputs: &[(&Port, Vec<usize>)]) -> Option<String> {
    let number = |name: &str| -> Option<usize> {
        let own = operator.numbers.iter().find(|own| own.name == name)?;
        match (given.count_if(name).ok()?, own.default) {
            (Some(count), _) => Some(count),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number, or no extent is equal"
            )]
            (None, Default::Is(value)) => Some(value as usize),
            (None, _) => None,
        }
    };
    inputs.iter().flat_map(|(port, shape)| axes(port, shape)).find_map(|axis| {
        let factor = |factor: &str| factor.parse().ok().or_else(|| number(factor));
        let product: usize = axis.letter.split(" · ").map(factor).product::<Option<usize>>()?;
        (product != axis.extent)
            .then(|| format!("{} is {product}, and {} in {} {:?}", axis.letter, axis.extent, axis.tensor, axis.shape))
    })
}

/// The axes of a tensor by the letters of its shape; none where these could be others.
fn axes(port: &Port, shape: &[usize]) -> Vec<Axis> {
    let written = |text: &'static str| -> Option<Vec<&'static str>> {
        Some(text.strip_prefix('[')?.split_once(']')?.0.split(", ").collect())
    };
    let ways: Vec<Vec<&'static str>> = port.shape.split(", or ").filter_map(written).collect();
    let fits = |letters: &&Vec<&str>| letters.len() == shape.len() || letters.contains(&AXES) || letters.len() == 1;
    let [letters] = ways.iter().filter(fits).collect::<Vec<_>>()[..] else { return Vec::new() };
    let axis = |letter: &&'static str, extent| Axis { letter, extent, tensor: port.name, shape: shape.to_vec() };
    if letters.len() == 1 {
        return vec![axis(&letters[0], shape.iter().product())];
    }
    let before = letters.iter().position(|letter| *letter == AXES).unwrap_or(letters.len());
    let behind = letters.len().saturating_sub(before + 1);
    if shape.len() < before + behind {
        return Vec::new();
    }
    let (first, rest) = shape.split_at(before);
    let (rows, last) = rest.split_at(rest.len() - behind);
    let others = (before < letters.len()).then(|| axis(&AXES, rows.iter().product()));
    let named = letters[..before].iter().zip(first).chain(letters[letters.len() - behind..].iter().zip(last));
    named.map(|(letter, extent)| axis(letter, *extent)).chain(others).collect()
}
