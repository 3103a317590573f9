//! What gives what goes into it, as where a layer, or a norm, is left out.
//!
//! ```text
//! y = x        with x what is before it, as wide
//! ```

use reference::site::{VisionLayerSite, VisionSite};
use reference::{LayerSite, Site};

use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    for (site, what) in before(bench.site) {
        let Some(x) = bench.in_all_steps(site)?.filter(|x| x.dim() == bench.candidate.dim()) else { continue };
        let is_row = |row: usize| {
            let (own, apart) = (x.row(row), &bench.candidate.row(row) - &x.row(row));
            apart.dot(&apart).sqrt() <= bench.rounding() * own.dot(&own).sqrt()
        };
        if (0..x.nrows()).all(is_row) {
            let said = format!("values are those that go into it, of {site}, as they are: {what} is left out");
            return Ok(Some(Solution::new(vec![said], x)));
        }
    }
    Ok(None)
}

/// What goes into a site, as wide, and what is between the two.
fn before(site: Site) -> Vec<(Site, &'static str)> {
    use LayerSite as S;
    use VisionLayerSite as V;
    let norm = "the norm";
    match site {
        Site::Layer(0, S::Output) => vec![(Site::InputsEmbeds, "the layer"), (Site::Embedding, "the layer")],
        Site::Layer(layer, S::Output) => vec![(Site::Layer(layer - 1, S::Output), "the layer")],
        Site::Layer(0, S::InputNorm) => vec![(Site::InputsEmbeds, norm), (Site::Embedding, norm)],
        Site::Layer(layer, S::InputNorm) => vec![(Site::Layer(layer - 1, S::Output), norm)],
        Site::Layer(layer, S::PostAttentionNorm) => vec![(Site::Layer(layer, S::Residual), norm)],
        Site::Vision(pass, VisionSite::PreNorm) => vec![(Site::Vision(pass, VisionSite::Embeddings), norm)],
        Site::Vision(pass, VisionSite::Layer(layer, V::Output)) => vec![(stream(pass, layer), "the layer")],
        Site::Vision(pass, VisionSite::Layer(layer, V::Norm1)) => vec![(stream(pass, layer), norm)],
        _ => Vec::new(),
    }
}

/// What goes into a layer of the tower.
fn stream(pass: usize, layer: usize) -> Site {
    let of = |layer| VisionSite::Layer(layer, VisionLayerSite::Output);
    Site::Vision(pass, layer.checked_sub(1).map_or(VisionSite::PreNorm, of))
}
