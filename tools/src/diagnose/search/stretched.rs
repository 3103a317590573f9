//! Frequencies that are scaled for longer contexts, as a configuration's `rope_scaling` of another model says.

use std::collections::HashSet;

use rayon::prelude::*;
use reference::ops::rope::inverse_frequencies;
use reference::semantics::{RopeScaling, Stretch};
use reference::{LayerSite, Site};

use super::bench::NEARER;
use super::numbers::ROTATED;
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change};

/// Factors that models are released with.
const FACTORS: [f64; 6] = [2.0, 4.0, 8.0, 16.0, 32.0, 40.0];

/// Of lengths that a model was trained on, the least; the others are twice as long, each as the one before.
const SHORTEST: usize = 16;

/// How far frequencies may be apart to be the same, as a share.
const ALIKE: f64 = 1e-6;

/// What comes nearest of those that make other tables, with all lengths that make the same.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let is_rotated = bench.suspects.iter().any(|site| match site {
        Site::Layer(_, site) => ROTATED.contains(site),
        other => matches!(other, Site::RopeCos | Site::RopeSin),
    });
    // What is seen of one rotated matrix has other names.
    let is_first = !matches!(bench.site, Site::Layer(_, LayerSite::IndexQRope | LayerSite::IndexKRope));
    if !is_rotated || !is_first || config.rotary_dim < 4 {
        return Vec::new();
    }
    let right = inverse_frequencies(config.rope_theta, config.rotary_dim, config.rotary_dim);
    let scaled = |scaling: &RopeScaling| scaling.of(&right, config.rotary_dim, config.rope_theta);
    let bits = |scaling: &RopeScaling| -> Vec<u64> {
        scaled(scaling).into_iter().chain([scaling.scale()]).map(f64::to_bits).collect()
    };
    // What leaves all frequencies as they are, or divides all, has a name of its own.
    let is_own = |scaling: &RopeScaling| {
        let times: Vec<f64> = scaled(scaling).iter().zip(&right).map(|(own, f)| own / f64::from(*f)).collect();
        let is = |of: f64| times.iter().all(|times| (times * of - 1.0).abs() <= ALIKE);
        !(is(1.0) || is(scaling.factor) && scaling.scale() == 1.0)
    };
    let lengths = std::iter::successors(Some(SHORTEST), |length| length.checked_mul(2));
    let lengths: Vec<usize> = lengths.take_while(|length| *length <= config.max_position_embeddings).collect();
    let stretches = [Stretch::Yarn, Stretch::YarnPlain, Stretch::Llama3];
    let all = stretches.into_iter().flat_map(|by| {
        let lengths = &lengths;
        FACTORS
            .into_iter()
            .flat_map(move |factor| lengths.iter().map(move |original| RopeScaling { by, factor, original: *original }))
    });
    let all: Vec<RopeScaling> = all.filter(is_own).collect();
    let mut tables = HashSet::new();
    let different: Vec<RopeScaling> = all.iter().copied().filter(|scaling| tables.insert(bits(scaling))).collect();
    let assumed = |scaling: &RopeScaling| {
        let change = Change::Reading("rope_scaling", scaling.to_string());
        bench.of_own_table(Assumed::everywhere(&kinds::ROPE_SCALING, change))
    };
    let off = |scaling: RopeScaling| {
        let values = bench.ideal_under(&[assumed(&scaling)]).ok()?;
        Some((bench.distance(&values), scaling))
    };
    let nearest = different.into_par_iter().filter_map(off).min_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some((_, nearest)) = nearest.filter(|(off, _)| *off <= NEARER * bench.off()) else { return Vec::new() };
    all.iter().filter(|scaling| bits(scaling) == bits(&nearest)).map(assumed).collect()
}
