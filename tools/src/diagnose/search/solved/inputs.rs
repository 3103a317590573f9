//! The layer of the vision tower whose output the projector reads.
//!
//! ```text
//! y = W·x(l) + b        of a layer l; solved for l, where the last is right
//! ```
//!
//! - Shapes: x(l) \[N, d\] of the candidate, W \[h, d\], b \[h\], y \[N, h\], for N patches.

use ndarray::{Array1, Array2};
use reference::site::{VisionLayerSite, VisionSite};
use reference::weights::{Part, Stage, VisionWeight, Weight};
use reference::{Error, Site};

use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Site::Vision(pass, VisionSite::Linear1) = bench.site else { return Ok(Vec::new()) };
    let Some((vision, _)) = bench.vision(pass) else { return Ok(Vec::new()) };
    let tensor = |part| {
        bench.with_model(|model| {
            let of = Weight::Vision(VisionWeight::Projector(Stage::Linear1, part));
            Ok(model.weights().get(of).map_err(Error::from)?.dense::<f64>())
        })
    };
    let (w, b) = (tensor(Part::Weight)?, tensor(Part::Bias)?.into_iter().collect::<Array1<f64>>());
    let read = (bench.candidate.nrows(), w.ncols());
    let last = vision.num_hidden_layers.saturating_sub(1);
    let layers = (0..last)
        .map(|layer| (format!("the output of layer {layer}"), VisionSite::Layer(layer, VisionLayerSite::Output)));
    for (what, site) in layers.chain([("what goes into layer 0".to_owned(), VisionSite::PreNorm)]) {
        let Some(x) = bench.shown(Site::Vision(pass, site))?.filter(|x| x.dim() == read) else { continue };
        let values: Array2<f64> = x.dot(&w.t()) + &b;
        let is = values.rows().into_iter().zip(bench.candidate.rows()).all(|(values, own)| {
            let apart = &values - &own;
            apart.dot(&apart).sqrt() <= bench.rounding() * own.dot(&own).sqrt()
        });
        if is {
            return Ok(vec![Solution::new(vec![format!("the projector reads {what}, not of layer {last}")], values)]);
        }
    }
    Ok(Vec::new())
}
