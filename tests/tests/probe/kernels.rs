//! Our kernels on the emulated device, whose orders and roundings `reference::contract` states.

use half::bf16;
use ndarray::{Array2, ArrayD, ArrayView2, Axis};
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::ops::HeadLayout;
use optimized::ops::add_rms_norm::add_rms_norm;
use optimized::ops::attention::attention;
use optimized::ops::linear::{Tiling, linear_tiled};
use optimized::ops::qk_norm_rope::KeysValues;
use optimized::ops::rms_norm::rms_norm;
use optimized::tensor::Matrix;
use reference::Storage;
use reference::contract::{ORDERS, RoundingContract, Tiles};
use reference::semantics::NormWeight;
use tests::device::emulated;
use tools::probe::form::Form as Order;
use tools::probe::function::Kind;
use tools::probe::tree::Tree;

use super::{field, found, matrix, said};

fn upload(gpu: &Gpu, x: ArrayView2<'_, f64>) -> Matrix<bf16> {
    gpu.upload(x.mapv(bf16::from_f64).view()).expect("memory")
}

fn download(gpu: &Gpu, y: &Matrix<bf16>) -> Array2<f64> {
    gpu.download(y).expect("memory").mapv(f64::from)
}

/// Steps of 16 products, of which 25 bits are kept, cut off to 23, promoted every 512: what a precision calls `hopper_512`.
#[test]
fn a_product_adds_in_steps_of_16_and_chunks_of_512() {
    let gpu = emulated(Form::Fast);
    let found = found((Kind::Product, Storage::Bf16, 544), Storage::F32, |inputs| {
        let (a, b) = (matrix(&inputs[0]), matrix(&inputs[1]));
        // The right side's 16 columns are the few rows of x.
        let (x, w) = (upload(&gpu, b.t()), upload(&gpu, a.view()));
        let y = linear_tiled::<f32>(&gpu, Tiling::FewRows, &x, &w).expect("it runs");
        gpu.download(&y).expect("memory").mapv(f64::from).reversed_axes().as_standard_layout().into_owned().into_dyn()
    });
    let own = "(512 in steps that add 16 at once) + (32 in steps that add 16 at once)";
    assert_eq!(said(&found, "order"), own, "{found}");
    assert_eq!(found.precision.accumulator, RoundingContract::PARITY.accumulator, "{found}");
    assert_eq!(field(&found, "accumulator"), Some("hopper_512"));
    assert_eq!(found.foretold, Some((64, 64)), "{found}");
}

#[test]
fn a_norm_rounds_once_and_adds_in_lanes() {
    let gpu = emulated(Form::Fast);
    let found = found((Kind::Norm, Storage::Bf16, 2304), Storage::Bf16, |inputs| {
        let (x, w) = (matrix(&inputs[0]), inputs[1].view().insert_axis(Axis(0)));
        let w = upload(&gpu, w.into_dimensionality().expect("a row"));
        let y = rms_norm(&gpu, &upload(&gpu, x.view()), &w, NormWeight::Plain, 1e-6).expect("it runs");
        download(&gpu, &y).into_dyn()
    });
    let own = Tree::of_lanes(ORDERS.row, 2304).and_then(|own| own.among(found.places.as_deref()?));
    assert_eq!(found.order.as_ref().map(Tree::sorted), own.map(|own| own.sorted()), "{found}");
    assert_eq!((found.bits, field(&found, "reduction"), field(&found, "rms")), (Some(24), Some("parity"), Some("one")));
}

#[test]
fn a_norm_after_an_addition_reads_what_was_stored() {
    let gpu = emulated(Form::Fast);
    let found = found((Kind::AddNorm, Storage::Bf16, 64), Storage::Bf16, |inputs| {
        let [x, f] = [0, 1].map(|i| upload(&gpu, matrix(&inputs[i]).view()));
        let w = inputs[2].view().insert_axis(Axis(0));
        let w = upload(&gpu, w.into_dimensionality().expect("a row"));
        let (_, y) = add_rms_norm(&gpu, &x, &f, &w, NormWeight::OnePlus, 1e-6).expect("it runs");
        download(&gpu, &y).into_dyn()
    });
    let told = ["norm_input", "rms", "one_plus"].map(|name| field(&found, name));
    assert_eq!(told, [Some("stored"), Some("one"), Some("norm")], "{found}");
}

/// Tiles of 64 keys in steps of 16, each added to what its group has, and the groups' sums.
#[test]
fn attention_adds_tiles_and_rounds_before_the_division() {
    const KEYS: usize = 512;
    let gpu = emulated(Form::Fast);
    let layout = HeadLayout::new(8, 8, 64).expect("heads");
    let beside = |input: &ArrayD<f64>| {
        let rows = input.len_of(Axis(1));
        Array2::from_shape_fn((rows, 512), |(row, column)| input[[column / 64, row, column % 64]])
    };
    let found = found((Kind::Attention, Storage::Bf16, KEYS), Storage::Bf16, |inputs| {
        let [q, keys, values] = [0, 1, 2].map(|i| upload(&gpu, beside(&inputs[i]).view()));
        let kept = KeysValues { keys, values };
        let o = download(&gpu, &attention(&gpu, &layout, &q, KEYS - 1, &kept).expect("it runs"));
        ArrayD::from_shape_fn(vec![8, 1, 64], |at| o[[0, at[0] * 64 + at[2]]])
    });
    let Tiles { keys, group, .. } = ORDERS.tiles;
    let tile = |first: usize| {
        let step = |at: usize| (at..at + 16).map(Tree::Term).collect::<Vec<_>>();
        (first + 16..first + keys)
            .step_by(16)
            .fold(Tree::Sum(step(first)), |sum, at| Tree::Sum(std::iter::once(sum).chain(step(at)).collect()))
    };
    let groups = (0..KEYS)
        .step_by(keys * group)
        .map(|first| Tree::one_by_one((0..group).map(|at| tile(first + at * keys))).expect("tiles"));
    assert_eq!(
        found.order,
        Tree::one_by_one(groups),
        "{}\n{found}",
        found.order.as_ref().map(Order::of).expect("a tree")
    );
    let known = found.precision.attention == RoundingContract::PARITY.attention;
    assert!(known && field(&found, "attention") == Some("flash"), "{found}");
}
