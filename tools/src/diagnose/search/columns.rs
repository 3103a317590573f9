//! Input channels in another order: heads, patches that are merged, the axes of a patch.

use reference::config::Vision;
use reference::weights::{LayerWeight, Part, Stage, VisionLayerWeight, VisionWeight, Weight};

use super::{Bench, kinds, suspects};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::order::ColumnOrder;
use crate::diagnose::catalogue::tensors::TensorChange;

/// Every tensor on the way whose input channels have several axes.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let of_heads = |heads, each| both(["head", "channel"], [heads, each]);
    let orders = |of| match (of, &config.vision) {
        (Weight::Layer(_, LayerWeight::OProj), _) => of_heads(config.num_attention_heads, config.head_dim),
        (Weight::Vision(VisionWeight::Patches), Some(vision)) => of_patch(vision),
        (Weight::Vision(VisionWeight::Layer(_, VisionLayerWeight::Out, Part::Weight)), Some(vision)) => {
            of_heads(vision.num_attention_heads, vision.head_dim())
        }
        (Weight::Vision(VisionWeight::Projector(Stage::Merge1, Part::Weight)), Some(vision)) => {
            both(["patch", "channel"], [vision.merged(), config.hidden_size])
        }
        _ => Vec::new(),
    };
    let changes = suspects::of(bench)
        .into_iter()
        .flat_map(|suspect| orders(suspect.of).into_iter().map(move |order| TensorChange::Columns(suspect.of, order)));
    changes.map(|change| bench.assumed(&kinds::COLUMNS, change)).collect()
}

/// Two axes taken for each other: what is stored along one is read along the other, in either direction.
fn both([a, b]: [&'static str; 2], [m, n]: [usize; 2]) -> Vec<ColumnOrder> {
    let orders = [([a, b], [m, n]), ([b, a], [n, m])];
    orders.map(|(axes, sizes)| ColumnOrder::Exchanged { axes, sizes }).to_vec()
}

/// A patch's values are numbered by colour, frame, row and column.
fn of_patch(vision: &Vision) -> Vec<ColumnOrder> {
    let patch = vision.patch;
    let sizes = [("colour", patch.channels), ("frame", patch.frames), ("row", patch.side), ("column", patch.side)];
    let within = |i: usize| sizes[i + 1..].iter().map(|(_, size)| size).product();
    let reversed = (0..sizes.len()).map(|i| {
        let (axis, size) = sizes[i];
        ColumnOrder::Reversed { axis, size, within: within(i) }
    });
    let of_image = ColumnOrder::Exchanged { axes: ["row", "column"], sizes: [patch.side; 2] };
    reversed.filter(|order| !matches!(order, ColumnOrder::Reversed { size: 1, .. })).chain([of_image]).collect()
}
