//! Input channels in another order: heads, patches that are merged, the axes of a patch, neighbours, and halves by turns.

use reference::config::Vision;
use reference::weights::{LayerWeight, Part, Projection, Stage, VisionLayerWeight, VisionWeight, Weight};

use super::{Bench, kinds, suspects};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::order::ColumnOrder;
use crate::diagnose::catalogue::tensors::{Projections, TensorChange, Tensors};

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
    let standing_out = suspects::standing_out(bench, 1);
    let mut of_experts: Vec<Tensors> = Vec::new();
    let mut changes = Vec::new();
    for of in suspects::of(bench).into_iter().map(|suspect| suspect.of) {
        changes.extend(orders(of).into_iter().map(|order| TensorChange::Columns(Tensors::One(of), order)));
        let tensors = match of {
            Weight::Layer(_, LayerWeight::Expert(e, projection)) => {
                let which = if projection == Projection::Down { Projections::Down } else { Projections::GateUp };
                let all = Some(Tensors::Experts(which)).filter(|all| !of_experts.contains(all));
                of_experts.extend(all);
                all.into_iter().chain(standing_out.contains(&e).then_some(Tensors::One(of))).collect()
            }
            Weight::Layer(..) if !of.is_norm() => vec![Tensors::One(of)],
            _ => Vec::new(),
        };
        let Some((rows, columns)) = suspects::dim(of, &config) else { continue };
        let packed = tensors
            .into_iter()
            .filter(|_| rows > 1)
            .flat_map(|tensors| of_packed(columns).into_iter().map(move |order| TensorChange::Columns(tensors, order)));
        changes.extend(packed);
    }
    changes.into_iter().map(|change| bench.assumed(&kinds::COLUMNS, change)).collect()
}

/// Two in a byte in the other order, or a byte's two taken from the halves of a row.
fn of_packed(columns: usize) -> Vec<ColumnOrder> {
    if !columns.is_multiple_of(2) || columns < 4 {
        return Vec::new();
    }
    let neighbours = ColumnOrder::Reversed { axis: "pair", size: 2, within: 1 };
    [vec![neighbours], both(["half", "channel"], [2, columns / 2])].concat()
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
    let last = |first: usize| {
        let size = |axes: &[(&str, usize)]| axes.iter().map(|(_, size)| size).product();
        both(["colour", "pixel"], [size(&sizes[..first]), size(&sizes[first..])])
    };
    let colours_last = [1, 2].into_iter().flat_map(last);
    let reversed = reversed.filter(|order| !matches!(order, ColumnOrder::Reversed { size: 1, .. }));
    reversed.chain([of_image]).chain(colours_last).collect()
}
