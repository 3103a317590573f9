//! Parts of a tensor that have the values of others, where what comes of each adds up: input channels of what an attention or a
//! network gives, as devices share them, and heads of values behind an attention.
//!
//! The site is computed with each part's values in the place of each, and all others 0. From these, each part is given the values,
//! or zeros, that bring the site nearest to the candidate, one after the other, until no other choice comes nearer.

use ndarray::Array1;
use rayon::prelude::*;
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{LayerSite, Site};

use super::{Bench, kinds, rows, suspects};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::order::Order;
use crate::diagnose::catalogue::tensors::{Projections, TensorChange, Tensors};
use crate::failure::Failure;

/// Into how many parts input channels are cut: of each row, the most that leave none over.
const PARTS: [&[usize]; 2] = [&[8, 4, 2], &[6, 3]];

/// Heads of values, at most.
const HEADS: usize = 8;

/// A share of the squares by which a choice must come nearer.
const NEARER: f64 = 1e-3;

/// A tensor, or those of all experts, cut into parts of so many channels.
#[derive(Debug, Clone, Copy)]
struct Cut {
    tensors: Tensors,
    are_inputs: bool,
    parts: usize,
    each: usize,
}

/// The order of parts that comes nearest, of every tensor on the way.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Vec<Assumed>, Failure> {
    let mut found = Vec::new();
    for cut in cuts(bench) {
        let order = settle(bench, &tables(bench, cut)?);
        // What is 0 as a whole is found by itself.
        let is_left = order.iter().any(Option::is_some);
        if is_left && order.iter().enumerate().any(|(i, from)| *from != Some(i)) {
            found.push(cut.coarsest(bench, order));
        }
    }
    Ok(found)
}

fn cuts(bench: &Bench<'_, '_>) -> Vec<Cut> {
    let config = bench.config();
    let inputs = |tensors, of| {
        let columns = suspects::dim(of, &config).map_or(1, |(_, columns)| columns);
        let most = PARTS.into_iter().filter_map(|parts| parts.iter().find(|parts| columns.is_multiple_of(**parts)));
        let cut = |parts: &usize| Cut { tensors, are_inputs: true, parts: *parts, each: columns / parts };
        most.map(cut).collect::<Vec<_>>()
    };
    let adds_up = |site| {
        use LayerSite::{Attention, Context, OProj, Residual};
        matches!(site, Site::Layer(_, Context | OProj | Attention | Residual))
    };
    let mut cuts = Vec::new();
    let mut of_experts = None;
    for suspect in suspects::of(bench) {
        match suspect.of {
            Weight::Layer(_, LayerWeight::VProj) if suspect.first.is_none() && adds_up(bench.site) => {
                let (each, parts) = (config.head_dim, config.num_key_value_heads);
                let cut = Cut { tensors: Tensors::One(suspect.of), are_inputs: false, parts, each };
                cuts.extend((2..=HEADS).contains(&parts).then_some(cut));
            }
            _ if suspect.first.is_none() => {}
            Weight::Layer(_, LayerWeight::Expert(e, Projection::Down)) => {
                of_experts.get_or_insert(suspect.of);
                if suspects::standing_out(bench, 1) == [e] {
                    cuts.extend(inputs(Tensors::One(suspect.of), suspect.of));
                }
            }
            Weight::Layer(
                _,
                LayerWeight::OProj | LayerWeight::Dense(Projection::Down) | LayerWeight::Shared(Projection::Down),
            ) => cuts.extend(inputs(Tensors::One(suspect.of), suspect.of)),
            _ => {}
        }
    }
    cuts.extend(of_experts.into_iter().flat_map(|of| inputs(Tensors::Experts(Projections::Down), of)));
    cuts
}

/// What each part's values give in the place of each: `[place][whose]`.
fn tables(bench: &Bench<'_, '_>, cut: Cut) -> Result<Vec<Vec<Array1<f64>>>, Failure> {
    let under = |order| bench.ideal_under(&[bench.assumed(&kinds::ZERO, cut.change(order))]);
    let nothing = under(vec![None; cut.parts])?;
    let of = |i: usize| {
        let (place, whose) = (i / cut.parts, i % cut.parts);
        let order = (0..cut.parts).map(|part| (part == place).then_some(whose)).collect();
        Ok(bench.weighed(&(under(order)? - &nothing)))
    };
    let all: Vec<Array1<f64>> = (0..cut.parts * cut.parts).into_par_iter().map(of).collect::<Result<_, Failure>>()?;
    Ok(all.chunks(cut.parts).map(<[_]>::to_vec).collect())
}

/// Whose values each part has, if any.
fn settle(bench: &Bench<'_, '_>, tables: &[Vec<Array1<f64>>]) -> Order {
    let parts = tables.len();
    let mut order: Order = (0..parts).map(Some).collect();
    let mut apart = bench.weighed(&(&bench.candidate - &bench.ideal));
    let least = NEARER * apart.dot(&apart);
    let nothing = Array1::zeros(apart.len());
    let of = |place: usize, from: Option<usize>| from.map_or(&nothing, |from| &tables[place][from]);
    for _ in 0..2 * parts {
        let places = (0..parts).flat_map(|place| (0..parts).map(Some).chain([None]).map(move |from| (place, from)));
        let moves = places.filter(|(place, from)| *from != order[*place]).map(|(place, from)| {
            let moved = of(place, from) - of(place, order[place]);
            // ‖r‖² − ‖r − m‖² = 2·r·m − ‖m‖²
            (2.0 * apart.dot(&moved) - moved.dot(&moved), place, from, moved)
        });
        let Some((gain, place, from, moved)) = moves.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        if gain <= least {
            break;
        }
        apart -= &moved;
        order[place] = from;
    }
    order
}

impl Cut {
    fn change(self, order: Order) -> TensorChange {
        match self.tensors {
            Tensors::One(of) if !self.are_inputs => TensorChange::Rows(of, self.each, order),
            tensors => TensorChange::Inputs(tensors, self.each, order),
        }
    }

    /// The order by as few parts as stay together.
    fn coarsest(mut self, bench: &Bench<'_, '_>, mut order: Order) -> Assumed {
        while self.are_inputs
            && self.parts.is_multiple_of(2)
            && let Some(halved) = rows::by_blocks(&order, 2)
        {
            (self.parts, self.each, order) = (self.parts / 2, 2 * self.each, halved);
        }
        let is_moved = order.iter().enumerate().any(|(part, from)| from.is_some_and(|from| from != part));
        let kind = match (is_moved, self.are_inputs) {
            (false, _) => &kinds::ZERO,
            (true, true) => &kinds::COLUMNS,
            (true, false) => &kinds::ROWS,
        };
        bench.assumed(kind, self.change(order))
    }
}
