//! Products, and the operators that consist of them.

use half::bf16;
use ndarray::{Array2, Axis, s};
use optimized::device::Gpu;
use optimized::kernel::Kernel;
use optimized::ops::dense_ffn::{self as dense, dense_ffn_tiled};
use optimized::ops::linear::{Tiling, linear_tiled};
use optimized::ops::moe::{Experts, moe_tiled};
use optimized::ops::{Activation as OnDevice, router as device};
use optimized::tensor::Matrix;
use optimized::tiles::Tiles;
use reference::ops::dense_ffn::{Activation, DenseFfn};
use reference::ops::linear::Linear;
use reference::ops::moe::{Moe, rows_of};
use reference::ops::router::{self, Router};
use reference::ops::{dense_ffn as twin_network, linear as twin_linear, moe as twin_moe};
use reference::{Semantics, Storage};

use super::twin::{Draw, NoTrial, Trial, contract, size, stored, wide};

/// More chunks than one, and more tiles of k than a ring has stages.
const LONG: usize = 600;
/// Rows that are few.
const FEW: usize = 16;

const RELEASED: Semantics = Semantics::RELEASED;

/// Rows and columns of more than one tile, and a part.
fn beyond_a_tile(variant: &Kernel) -> (usize, usize) {
    (size(variant, "TILE_ROWS") + 3, size(variant, "TILE_COLS") + 9)
}

pub(super) fn linear(gpu: &Gpu, mut draw: Draw, (kernel, variant): (&Kernel, &Kernel)) -> Result<Trial, NoTrial> {
    let (n, m) = beyond_a_tile(variant);
    let (x, w) = (draw.values((n, LONG)), draw.values((m, LONG)));
    let twin = twin_linear::linear(&Linear::under(&contract()), wide(&x).view(), &stored(&w))?;
    let w = gpu.upload(w.view())?;
    let mut trial = Trial { got: Vec::new(), twin: Vec::new() };
    for &tiling in Tiling::of_kernel(kernel) {
        let rows = if tiling == Tiling::FewRows { FEW.min(n) } else { n };
        let x = gpu.upload(x.slice(s![..rows, ..]))?;
        let y: Array2<bf16> = gpu.download(&linear_tiled(gpu, tiling, &x, &w)?)?;
        trial = trial.and(Trial::of(&y, &twin.slice(s![..rows, ..]).to_owned()));
    }
    Ok(trial)
}

/// Gate, up and down of a network of some widths.
fn network(draw: &mut Draw, h: usize, m: usize) -> [Array2<bf16>; 3] {
    [draw.values((m, h)), draw.values((m, h)), draw.values((h, m))]
}

/// Gate over up.
fn stacked(parts: &[&Array2<bf16>]) -> Array2<bf16> {
    let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
    ndarray::concatenate(Axis(0), &views).expect("all are as wide")
}

/// What the twin makes of rows, as the kernels do: what comes before the activation is not rounded.
fn fed(x: &Array2<f32>, [gate, up, down]: &[Array2<bf16>; 3]) -> Result<Array2<f32>, NoTrial> {
    let contract = contract();
    let p = DenseFfn::under(&contract, Activation::under(&contract, &RELEASED, None));
    let p = DenseFfn { gate_up: Linear::before_activation(&contract), ..p };
    let weights = [stored(gate), stored(up), stored(down)];
    Ok(twin_network::dense_ffn(&p, x.view(), [&weights[0], &weights[1], &weights[2]])?)
}

pub(super) fn dense_ffn(gpu: &Gpu, mut draw: Draw, (kernel, variant): (&Kernel, &Kernel)) -> Result<Trial, NoTrial> {
    let (n, m) = beyond_a_tile(variant);
    let (x, weights) = (draw.values((n, LONG)), network(&mut draw, LONG, m));
    let [gate, up, down] = &weights;
    let on_device = dense::DenseFfn {
        gate_up: gpu.upload(stacked(&[gate, up]).view())?.into(),
        down: gpu.upload(down.view())?.into(),
    };
    let got = dense_ffn_tiled(gpu, Tiles::of(kernel), &gpu.upload(x.view())?, &on_device, OnDevice::Swiglu)?;
    Ok(Trial::of(&gpu.download(&got.output)?, &fed(&wide(&x), &weights)?))
}

/// Three experts, of which one gets more rows than a tile has, and one none.
pub(super) fn moe(gpu: &Gpu, mut draw: Draw, (kernel, variant): (&Kernel, &Kernel)) -> Result<Trial, NoTrial> {
    const EXPERTS: usize = 3;
    let (n, m) = beyond_a_tile(variant);
    let x = draw.values((n, LONG));
    let weights: Vec<_> = (0..EXPERTS).map(|_| network(&mut draw, LONG, m)).collect();
    let chosen = Array2::from_shape_fn((n, 2), |(i, slot)| if i % 7 == 0 { 1 - slot } else { slot });
    let shares = Array2::from_shape_simple_fn((n, 2), || f32::from(draw.values((1, 1))[[0, 0]]));
    let gate_up: Vec<&Array2<bf16>> = weights.iter().flat_map(|[gate, up, _]| [gate, up]).collect();
    let down: Vec<&Array2<bf16>> = weights.iter().map(|[.., down]| down).collect();
    let experts = Experts {
        gate_up: gpu.upload(stacked(&gate_up).view())?.into(),
        down: gpu.upload(stacked(&down).view())?.into(),
        first: 0,
        count: EXPERTS,
        activation: OnDevice::Swiglu,
    };
    let scores = || gpu.zeros((n, EXPERTS));
    let routed = device::Routed {
        logits: scores()?,
        scores: scores()?,
        choice: scores()?,
        chosen: gpu.upload(chosen.mapv(|e: usize| i32::try_from(e).expect("small")).view())?,
        weights: gpu.upload(shares.view())?,
    };
    let got = moe_tiled(gpu, Tiles::of(kernel), &gpu.upload(x.view())?, &routed, &experts, None)?;

    let mut outputs = Array2::zeros((2 * n, LONG));
    for (expert, weights) in weights.iter().enumerate() {
        let rows = rows_of(expert, chosen.view());
        if rows.is_empty() {
            continue;
        }
        let tokens: Vec<usize> = rows.iter().map(|row| row / 2).collect();
        let fed = fed(&wide(&x.select(Axis(0), &tokens)), weights)?;
        for (from, to) in fed.rows().into_iter().zip(rows) {
            outputs.row_mut(to).assign(&from);
        }
    }
    let sum = twin_moe::moe(&Moe::under(&contract()), outputs.view(), shares.view(), chosen.view())?;
    Ok(Trial::of(&gpu.download(&got.outputs)?, &outputs).and(Trial::of(&gpu.download(&got.sum)?, &sum)))
}

/// The router, in both cuts.
pub(super) fn router(gpu: &Gpu, mut draw: Draw, variant: &Kernel) -> Result<Trial, NoTrial> {
    const K: usize = 4;
    let n = 2 * size(variant, "BLOCK_TOKENS") + 3;
    let experts = size(variant, "BLOCK_WARPS") * size(variant, "WARP_EXPERTS") + 5;
    let (x, gate) = (draw.values((n, 333)), wide(&draw.values((experts, 333))));
    let bias = wide(&draw.values((1, experts)));
    let upload = |matrix: &Array2<f32>| -> Result<Matrix<f32>, NoTrial> { Ok(gpu.upload(matrix.view())?) };
    let on_device = (gpu.upload(x.view())?, upload(&gate)?, upload(&bias)?);

    let contract = contract();
    let p = Router::under(&contract, &RELEASED, K);
    let gate = reference::matrix::Matrix::stored(gate.mapv(f64::from).view(), Storage::F32);
    let z = twin_linear::linear(&Linear::router(&contract), wide(&x).view(), &gate)?;
    let r = router::scores(&p, z.view());
    let c = router::choice(&p, r.view(), bias.row(0))?;
    let chosen = router::chosen(&p, c.view());
    let w = router::weights(&p, r.view(), c.view(), chosen.view());
    let mut trial = Trial { got: Vec::new(), twin: Vec::new() };
    for tokens in [device::Tokens::Few, device::Tokens::Many] {
        let (x, gate, bias) = &on_device;
        let routed = device::router_cut(gpu, tokens, x, (gate, bias), K)?;
        let got = [&routed.logits, &routed.scores, &routed.choice, &routed.weights];
        for (got, twin) in got.into_iter().zip([&z, &r, &c, &w]) {
            trial.got.extend(gpu.download(got)?.iter());
            trial.twin.extend(twin.iter());
        }
        trial.got.extend(gpu.download(&routed.chosen)?.iter().map(|&expert| expert as f32));
        trial.twin.extend(chosen.iter().map(|&expert| expert as f32));
    }
    Ok(trial)
}
