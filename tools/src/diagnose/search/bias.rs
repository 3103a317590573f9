//! The correction bias in another order, or of other signs: nothing but whose choice a token has tells of it.

use reference::config::Config;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::order::Order;
use crate::diagnose::catalogue::tensors::{Signs, TensorChange, Tensors};
use crate::diagnose::catalogue::weights::WeightChange;

/// Where the choice of experts is not shown.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let Some(layer) = bench.site.layer() else { return Vec::new() };
    let is_on_the_way = bench.suspects.contains(&Site::Layer(layer, LayerSite::GateChoice));
    if is_on_the_way { of_layer(layer, &bench.config()).collect() } else { Vec::new() }
}

/// In each of the orders that loaders make of experts, and with other signs.
pub(super) fn of_layer(layer: usize, config: &Config) -> impl Iterator<Item = Assumed> {
    let of = Weight::Layer(layer, LayerWeight::CorrectionBias);
    let ordered = orders(config.num_local_experts)
        .into_iter()
        .map(move |order| (&kinds::ROWS, TensorChange::Inputs(Tensors::One(of), 1, order)));
    let signed = [Signs::Positive, Signs::Absolute, Signs::Negated];
    let signed = signed.map(|signs| (&kinds::SIGNS, TensorChange::Signs(of, signs)));
    ordered.chain(signed).map(move |(kind, change)| {
        Assumed::everywhere(kind, Change::Weights(WeightChange::Tensor(change))).within(Some(vec![layer]))
    })
}

/// As numbers are sorted as text, reversed, one off, with halves exchanged, or even ones before odd ones and the other way round.
fn orders(experts: usize) -> Vec<Order> {
    let own: Vec<usize> = (0..experts).collect();
    let mut as_text = own.clone();
    as_text.sort_by_key(usize::to_string);
    let (even, odd): (Vec<usize>, Vec<usize>) = own.iter().partition(|expert| expert.is_multiple_of(2));
    let apart = [even, odd].concat();
    let half = experts.div_ceil(2);
    let together = own.iter().map(|expert| expert % 2 * half + expert / 2).collect();
    let turned = |by: usize| own.iter().map(|expert| (expert + by) % experts).collect::<Vec<usize>>();
    let inverse = |of: &[usize]| {
        let mut inverse = own.clone();
        of.iter().enumerate().for_each(|(to, from)| inverse[*from] = to);
        inverse
    };
    let of_text = inverse(&as_text);
    let reversed = own.iter().rev().copied().collect();
    let all = [as_text, of_text, reversed, turned(1), turned(experts - 1), turned(experts / 2), apart, together];
    let mut found: Vec<Order> = Vec::new();
    for order in all.into_iter().filter(|order| *order != own) {
        let order: Order = order.into_iter().map(Some).collect();
        if !found.contains(&order) {
            found.push(order);
        }
    }
    found
}
