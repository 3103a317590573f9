//! The frequencies that the vision tower's rotation table has for times, heights and widths ([`frequencies`]), or
//! whose places patches have ([`places`]).
//!
//! ```text
//! αᵢ = [(tᵢ + o)·f, (hᵢ + o)·f, (wᵢ + o)·f]        of patches i at (t, h, w); solved for each axis' f and o
//! ```
//!
//! with the frequencies f \[m/2\] of an axis of m channels, and o the place that its first patches have: right is 0.

use ndarray::{Array2, Axis, s};
use reference::grid::{AXES, rotary_dim};
use reference::ops::rope::inverse_frequencies;
use reference::site::VisionSite;
use reference::{RoundingContract, Site};

use super::solution::Solution;
use super::{frequencies, places, rotation};
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// The names of the axes.
const NAMES: [&str; AXES] = ["times", "heights", "widths"];

/// How far two angles may be off that are the same: those of a table in f32 are within some of its roundings, and a patch's
/// place counts for 10⁻⁴ or more in one of them.
const SAME: f64 = 1e-5;

/// Places that an axis has to have for its frequencies to be told.
const PLACES: usize = 3;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Site::Vision(pass, at @ (VisionSite::RopeCos | VisionSite::RopeSin)) = bench.site else {
        return Ok(Vec::new());
    };
    let Some((vision, pixels)) = bench.vision(pass) else { return Ok(Vec::new()) };
    let wanted = [VisionSite::RopeCos, VisionSite::RopeSin].map(|site| Site::Vision(pass, site));
    let beside = bench.rerun(&[], RoundingContract::IDEAL, &wanted)?.beside;
    let (Some(cos), Some(sin)) = (beside.get(&wanted[0]), beside.get(&wanted[1])) else { return Ok(Vec::new()) };
    let (n, width) = bench.candidate.dim();
    let patches: Vec<[usize; AXES]> =
        pixels.grids.iter().flat_map(|grid| grid.coordinates(vision.spatial_merge_size)).collect();
    let axis = rotary_dim(vision.head_dim()) / 2 / AXES;
    let right: Vec<f64> =
        inverse_frequencies(vision.rope_theta, 2 * axis, 2 * axis).into_iter().map(f64::from).collect();
    let is_of_axes = vision.axes == AXES && axis > 0 && width == 2 * AXES * axis && right.len() == axis;
    if !is_of_axes || cos.dim() != (n, width) || sin.dim() != (n, width) || patches.len() != n {
        return Ok(Vec::new());
    }
    let angles = Array2::from_shape_fn((n, width / 2), |(i, j)| sin[[i, j]].atan2(cos[[i, j]]));
    let mut follow = Array2::from_shape_fn(angles.dim(), |(i, j)| patches[i][j / axis] as f64 * right[j % axis]);
    let mut said = Vec::new();
    for (of, name) in NAMES.iter().enumerate() {
        let columns = of * axis..(of + 1) * axis;
        let own = angles.slice(s![.., columns.clone()]).to_owned();
        let at: Vec<usize> = patches.iter().map(|patch| patch[of]).collect();
        if let Some((what, of_places)) = told(&own, &at, &right) {
            said.push(format!("of {name}, {what}"));
            for (i, place) in at.iter().enumerate() {
                follow.slice_mut(s![i, columns.clone()]).assign(&of_places.row(*place));
            }
        } else if let Some((what, of_patches)) = places::told(&own, &at, &right, "patches") {
            said.push(format!("of {name}, {what}"));
            follow.slice_mut(s![.., columns]).assign(&of_patches);
        }
    }
    let function = if at == VisionSite::RopeCos { f64::cos } else { f64::sin };
    let values = Array2::from_shape_fn((n, width), |(i, j)| function(follow[[i, j % (width / 2)]]));
    if said.is_empty() {
        let right = Array2::from_shape_fn(angles.dim(), |(i, j)| patches[i][j / axis] as f64 * right[j % axis]);
        return Ok(rotation::of_tables(bench, &right, AXES).into_iter().collect());
    }
    Ok(vec![Solution::new(said, values)])
}

/// What differs in the angles of patches at these places of an axis, and the angles of the places that follow from it.
fn told(angles: &Array2<f64>, at: &[usize], right: &[f64]) -> Option<(String, Array2<f64>)> {
    let count = at.iter().max()? + 1;
    let first = |place: usize| at.iter().position(|other| *other == place);
    let rows: Vec<usize> = (0..count).map(first).collect::<Option<_>>()?;
    let of_places = angles.select(Axis(0), &rows);
    let apart = |a: f64, b: f64| (a - b).sin().abs().max(1.0 - (a - b).cos());
    let alike = at
        .iter()
        .enumerate()
        .all(|(i, place)| angles.row(i).iter().zip(of_places.row(*place)).all(|(a, b)| apart(*a, *b) <= SAME));
    if !alike || count < PLACES {
        return None;
    }
    let start = of_places.row(0).to_owned();
    let origin = start.iter().zip(right).map(|(angle, f)| angle / f).next()?;
    if origin.abs() <= SAME {
        return frequencies::told(&of_places, right);
    }
    // All begin at the same place: the first frequency is 1, so that it tells within half a turn.
    let begins = start.iter().zip(right).all(|(angle, f)| apart(*angle, origin * f) <= SAME);
    let moved = Array2::from_shape_fn(of_places.dim(), |(p, i)| of_places[[p, i]] - start[i]);
    let (rest, follow) = match frequencies::told(&moved, right) {
        Some((rest, follow)) => (format!(", and {rest}"), follow),
        None => (String::new(), Array2::from_shape_fn(moved.dim(), |(p, i)| p as f64 * right[i])),
    };
    begins.then(|| (format!("places are counted from {origin:.4}{rest}"), follow + start))
}
