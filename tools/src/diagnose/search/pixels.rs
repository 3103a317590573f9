//! Frames and colours of patches that the patch embedding leaves out.

use reference::Site;
use reference::config::Patch;
use reference::site::VisionSite;
use reference::weights::{VisionWeight, Weight};

use super::{Bench, kinds};
use crate::diagnose::catalogue::fit::Fit;
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::{Part, Scaled};
use crate::diagnose::catalogue::tensors::TensorChange;

/// Each frame and each colour, where patches are embedded on the way.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let is_there = bench.suspects.iter().any(|site| matches!(site, Site::Vision(_, VisionSite::Embeddings)));
    let Some(patch) = bench.config().vision.filter(|_| is_there).map(|vision| vision.patch) else { return Vec::new() };
    let Patch { channels, frames, side } = patch;
    let columns = |is: &dyn Fn(usize, usize) -> bool| -> Vec<usize> {
        let of = |column: usize| column / (side * side);
        (0..patch.values()).filter(|column| is(of(*column) / frames, of(*column) % frames)).collect()
    };
    let of_frames = (0..frames).map(|frame| Part::Pixels("frame", frame, columns(&|_, own| own == frame)));
    let of_colours = (0..channels).map(|colour| Part::Pixels("colour", colour, columns(&|own, _| own == colour)));
    let zero = |part| {
        let factor = Fit { value: 0.0, error: 0.0 };
        let scaled = Scaled { of: Weight::Vision(VisionWeight::Patches), part, factor, stored: false };
        bench.assumed(&kinds::ZERO, TensorChange::Scaled(scaled))
    };
    let several = |count: usize| count > 1;
    let parts = of_frames.filter(|_| several(frames)).chain(of_colours.filter(|_| several(channels)));
    parts.map(zero).collect()
}
