//! The experts' products, each with the others made transparent.
//!
//! silu(g) is g in f32 from g = 64 on, and 0 at 0. So gates of 64 pass on what the up projection says, sixty-four times;
//! ups of 1 pass on what whole gates of 64 say; and a projection of ones hands on one column.

use half::bf16;
use ndarray::{Array2, Axis, s};
use optimized::device::Gpu;
use optimized::ops::Activation;
use optimized::ops::moe::{Experts, moe_tiled};
use optimized::ops::router::Routed;
use optimized::tiles::Tiles;
use reference::matrix::Matrix;
use reference::ops::linear::{Linear, linear};
use reference::ops::moe::{Moe, moe, rows_of};
use reference::ops::swiglu::{Swiglu, swiglu};
use reference::semantics::Expert;
use reference::{RoundingContract, Storage};
use tests::bounds::wide;
use tests::cuts::tiles;

use super::product::{Grid, Shape};
use super::{ROWS, device};

/// A gate that is open, as a weight.
const OPEN: f32 = 64.0;

/// What a layer's experts are given.
pub(super) struct Layer {
    x: Array2<bf16>,
    gate_up: Array2<bf16>,
    down: Array2<bf16>,
    chosen: Array2<usize>,
    weights: Array2<f32>,
}

/// The product that is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    Gate,
    Up,
    Down,
    Combine,
}

/// Who chooses whom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Choice {
    /// Each token all experts, each in an order of its own.
    All,
    /// Each token two, most of them the first two; one expert nobody.
    Uneven,
}

/// A part of a layer of so many experts, whose tokens choose.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) part: Part,
    pub(super) choice: Choice,
    pub(super) experts: usize,
}

impl Case {
    fn chosen(&self, tokens: usize) -> Array2<usize> {
        let e = self.experts;
        match self.choice {
            Choice::All => Array2::from_shape_fn((tokens, e), |(i, s)| (i + s) % e),
            Choice::Uneven => Array2::from_shape_fn((tokens, 2), |(i, s)| match i % 5 {
                4 => (i + s) % (e - 1),
                _ => (i + s) % 2,
            }),
        }
    }

    /// The layer whose part computes x·wᵀ: gate, up: w \[E·I, k\], down: \[E·(k + 1), k\], combine: x \[n, E\], w \[·, E\].
    fn layer(&self, x: &Array2<bf16>, w: &Array2<bf16>) -> Layer {
        let (n, e, one) = (x.nrows(), self.experts, bf16::ONE);
        let open = bf16::from_f32(OPEN);
        let chosen = self.chosen(n);
        let weights = Array2::from_elem(chosen.dim(), 1.0);
        // x, then a column of ones.
        let mut with_one = Array2::from_elem((n, x.ncols() + 1), one);
        with_one.slice_mut(s![.., ..x.ncols()]).assign(x);
        let last = x.ncols();
        match self.part {
            Part::Gate | Part::Up => {
                let intermediate = w.nrows() / e;
                let mut gate_up = Array2::from_elem((e * 2 * intermediate, last + 1), bf16::ZERO);
                for ((row, k), &value) in w.indexed_iter() {
                    let (expert, column) = (row / intermediate, row % intermediate);
                    let (gate, up) = (2 * expert * intermediate + column, (2 * expert + 1) * intermediate + column);
                    if self.part == Part::Gate {
                        (gate_up[[gate, k]], gate_up[[up, last]]) = (value * open, one);
                    } else {
                        (gate_up[[up, k]], gate_up[[gate, last]]) = (value, open);
                    }
                }
                let down = Array2::from_elem((e * (last + 1), intermediate), bf16::ZERO);
                Layer { x: with_one, gate_up, down, chosen, weights }
            }
            Part::Down => {
                let mut gate_up = Array2::from_elem((e * 2 * last, last + 1), bf16::ZERO);
                for (expert, column) in ndarray::indices((e, last)) {
                    gate_up[[2 * expert * last + column, last]] = open;
                    gate_up[[(2 * expert + 1) * last + column, column]] = one;
                }
                Layer { x: with_one, gate_up, down: w.clone(), chosen, weights }
            }
            Part::Combine => {
                let width = w.nrows();
                let mut gate_up = Array2::from_elem((e * 2, width), bf16::ZERO);
                let mut down = Array2::from_elem((e * width, 1), bf16::ZERO);
                for expert in 0..e {
                    (gate_up[[2 * expert, 0]], gate_up[[2 * expert + 1, 0]]) = (open, one);
                    down.slice_mut(s![expert * width..(expert + 1) * width, 0]).assign(&w.column(expert));
                }
                let weights = Array2::from_shape_fn(chosen.dim(), |(i, s)| f32::from(x[[i, chosen[[i, s]]]]));
                Layer { x: Array2::from_elem((n, width), one), gate_up, down, chosen, weights }
            }
        }
    }

    /// x·wᵀ as the part computes it; what no token asks for is not a number.
    fn product(&self, run: impl Fn(&Layer) -> [Array2<f64>; 3], x: &Array2<bf16>, w: &Array2<bf16>) -> Array2<f64> {
        let layer = self.layer(x, w);
        let [hidden, outputs, sum] = run(&layer).map(|values| values / f64::from(OPEN));
        let rows = match self.part {
            Part::Gate | Part::Up => hidden,
            Part::Down => outputs,
            Part::Combine => return sum,
        };
        let mut y = Array2::from_elem((x.nrows(), w.nrows()), f64::NAN);
        for ((token, slot), &expert) in layer.chosen.indexed_iter() {
            let row = rows.row(token * layer.chosen.ncols() + slot);
            y.slice_mut(s![token, expert * row.len()..(expert + 1) * row.len()]).assign(&row);
        }
        y
    }

    /// On the device, and by the reference.
    pub(super) fn demand(&self, gpu: &Gpu, tiles: Tiles, (n, k): (usize, usize)) -> Result<(), String> {
        let (e, chosen) = (self.experts, self.chosen(n));
        let (m, k) = match self.part {
            Part::Gate | Part::Up => (e * 37, k),
            Part::Down => (e * (k + 1), k),
            Part::Combine => (k, e),
        };
        let shape: Shape = (n, m, k);
        let is_chosen = |i: usize, j: usize| chosen.row(i).iter().any(|&expert| expert == j / (m / e));
        let grid = Grid {
            shape,
            device: &|x, w| self.product(|layer| on(gpu, tiles, layer), x, w),
            reference: &|x, w| self.product(reference, x, w),
            // A gate below 0 is neither 0 nor itself.
            range: if self.part == Part::Gate { (0, 1) } else { (-1, 1) },
            made: &|i, j| self.part == Part::Combine || is_chosen(i, j),
        };
        grid.demand(n as u64).map_err(|error| format!("{tiles:?} {self:?} {shape:?}: {error}"))
    }
}

/// Activations, outputs and sum on the device.
fn on(gpu: &Gpu, tiles: Tiles, layer: &Layer) -> [Array2<f64>; 3] {
    let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory");
    let count = layer.down.nrows() / layer.x.ncols();
    let scores = || gpu.zeros((layer.x.nrows(), count)).expect("memory");
    let chosen = layer.chosen.mapv(|expert| i32::try_from(expert).expect("a few experts"));
    let routed = Routed {
        logits: scores(),
        scores: scores(),
        choice: scores(),
        chosen: gpu.upload(chosen.view()).expect("memory"),
        weights: gpu.upload(layer.weights.view()).expect("memory"),
    };
    let experts = Experts {
        gate_up: upload(&layer.gate_up).into(),
        down: upload(&layer.down).into(),
        first: 0,
        count,
        activation: Activation::Swiglu,
    };
    let fed =
        moe_tiled(gpu, tiles, &upload(&layer.x), &routed, &experts, None).unwrap_or_else(|error| panic!("{error}"));
    [fed.hidden, fed.outputs, fed.sum].map(|matrix| gpu.download(&matrix).expect("memory").mapv(f64::from))
}

/// The same by the reference.
fn reference(layer: &Layer) -> [Array2<f64>; 3] {
    let contract = RoundingContract::PARITY;
    let (h, intermediate, k) = (layer.x.ncols(), layer.down.ncols(), layer.chosen.ncols());
    let experts = layer.down.nrows() / h;
    let mut hidden = Array2::zeros((layer.chosen.len(), intermediate));
    let mut outputs = Array2::zeros((layer.chosen.len(), h));
    for expert in 0..experts {
        let rows = rows_of(expert, layer.chosen.view());
        if rows.is_empty() {
            continue;
        }
        let tokens: Vec<usize> = rows.iter().map(|row| row / k).collect();
        let x = wide(&layer.x.select(Axis(0), &tokens));
        let part = |w: &Array2<bf16>, first: usize, count: usize| {
            Matrix::stored(wide(&w.slice(s![first..first + count, ..]).to_owned()).view(), Storage::Bf16)
        };
        let project = |first| {
            let w = part(&layer.gate_up, first, intermediate);
            linear(&Linear::before_activation(&contract), x.view(), &w).expect("shapes fit")
        };
        let (gate, up) = (project(2 * expert * intermediate), project((2 * expert + 1) * intermediate));
        let a = swiglu(&Swiglu::under(&contract, Expert::Gated), gate.view(), up.view()).expect("shapes fit");
        let e = linear(&Linear::under(&contract), a.view(), &part(&layer.down, expert * h, h)).expect("shapes fit");
        for (from, &to) in rows.iter().enumerate() {
            hidden.row_mut(to).assign(&a.row(from));
            outputs.row_mut(to).assign(&e.row(from));
        }
    }
    let weights = layer.weights.mapv(f64::from);
    let sum = moe(&Moe::under(&contract), outputs.view(), weights.view(), layer.chosen.view()).expect("shapes fit");
    [hidden, outputs, sum]
}

fn demand_all(gpu: &Gpu, part: Part, columns: [usize; 3]) {
    for (&n, &k) in ROWS.iter().zip(columns.iter().cycle()) {
        for tiles in tiles(gpu) {
            let all = Case { part, choice: Choice::All, experts: 3 };
            all.demand(gpu, tiles, (n, k)).unwrap_or_else(|error| panic!("{error}"));
            if part != Part::Combine {
                let uneven = Case { part, choice: Choice::Uneven, experts: 5 };
                uneven.demand(gpu, tiles, (n, k)).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

#[test]
fn gates_are_exact() {
    demand_all(&device(), Part::Gate, [515, 63, 130]);
}

#[test]
fn ups_are_exact() {
    demand_all(&device(), Part::Up, [64, 7, 128]);
}

#[test]
fn downs_are_exact() {
    demand_all(&device(), Part::Down, [17, 65, 40]);
}

#[test]
fn combinations_are_exact() {
    demand_all(&device(), Part::Combine, [5, 70, 1]);
}
