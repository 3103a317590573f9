//! What a device may compute instead of the truth: sums in other orders, truncating tensor cores, inexact exponentials,
//! and an attention kernel made of these. All of it in f32, none of it by the reference's own code.

use ndarray::{Array2, ArrayView2};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::accumulator::{Accumulator, TensorCore};
use reference::ops::attention::Attention;
use reference::rounding::{self, AttentionRound};
use reference::{Real, Rounding, Storage};

use crate::torch;

/// The order in which a dot product is added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// From the first to the last, products rounded.
    Sequential,
    /// From the last to the first.
    Reversed,
    /// From the first to the last, products fused with the additions.
    Fused,
    /// In some other order.
    Shuffled(u64),
    /// Halves, and halves of these.
    Pairwise,
    /// So many at a time, then the blocks.
    Blocked(usize),
    /// As a tensor core does.
    TensorCore(TensorCore),
    /// As `VDPBF16PS` does: sixteen lanes, two products to each at a time, and subnormal numbers are zero.
    DotProductInstruction,
    /// As our kernels sum a row: a block of threads, vectors to a thread, then the lanes of each warp, then the warps.
    Block,
    /// As PyTorch sums a row on a processor: vectors of eight lanes, four side by side, in runs of 16 and runs of runs.
    Cascade,
}

/// Lanes of a vector of 512 bits.
const LANES: usize = 16;

/// Threads of a block of our kernels that sum rows, values of a vector, lanes of a warp.
const BLOCK: [usize; 3] = [256, 8, 32];

impl Order {
    /// Those that add in f32, to nearest.
    pub const ROUNDING: [Order; 6] =
        [Order::Sequential, Order::Reversed, Order::Fused, Order::Shuffled(1), Order::Pairwise, Order::Blocked(8)];

    /// Those in which a device with this accumulator may add.
    pub fn of(accumulator: Accumulator) -> Vec<Order> {
        match accumulator {
            Accumulator::F32 | Accumulator::F64 => Order::ROUNDING.to_vec(),
            Accumulator::F32Flushed => vec![Order::DotProductInstruction],
            Accumulator::TensorCore(core) => vec![Order::TensorCore(core)],
            Accumulator::Unknown => {
                let others =
                    [Accumulator::F32Flushed, Accumulator::HOPPER, Accumulator::HOPPER_512, Accumulator::AMPERE];
                Order::ROUNDING.into_iter().chain(others.into_iter().flat_map(Order::of)).collect()
            }
        }
    }

    /// Σ aₖ·bₖ.
    pub fn dot(self, a: &[f32], b: &[f32]) -> f32 {
        let products = || a.iter().zip(b).map(|(a, b)| a * b);
        match self {
            Order::Sequential => products().fold(0.0, |sum, p| sum + p),
            Order::Reversed => products().rev().fold(0.0, |sum, p| sum + p),
            Order::Fused => a.iter().zip(b).fold(0.0, |sum, (a, b)| a.mul_add(*b, sum)),
            Order::Shuffled(seed) => {
                let mut products: Vec<f32> = products().collect();
                products.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
                products.iter().fold(0.0, |sum, p| sum + p)
            }
            Order::Pairwise => pairwise(&products().collect::<Vec<_>>()),
            Order::Blocked(block) => {
                let blocks = a.chunks(block).zip(b.chunks(block));
                blocks.fold(0.0, |sum, (a, b)| sum + Order::Sequential.dot(a, b))
            }
            Order::TensorCore(core) => {
                let promote = core.promote.map_or(a.len().max(1), |promote| promote as usize);
                let chunks = a.chunks(promote).zip(b.chunks(promote));
                chunks.fold(0.0, |sum, (a, b)| {
                    let k = core.k as usize;
                    sum + a.chunks(k).zip(b.chunks(k)).fold(0.0, |sum, (a, b)| step(core, sum, a, b))
                })
            }
            Order::DotProductInstruction => in_pairs(a, b),
            Order::Block => in_a_block(a, b),
            Order::Cascade => cascade(&products().collect::<Vec<_>>()),
        }
    }

    /// x·wᵀ.
    pub fn product(self, x: ArrayView2<'_, f32>, w: ArrayView2<'_, f32>) -> Array2<f32> {
        let rows = |a: ArrayView2<'_, f32>| a.rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>();
        let (x, w) = (rows(x), rows(w));
        Array2::from_shape_fn((x.len(), w.len()), |(i, j)| self.dot(&x[i], &w[j]))
    }
}

fn pairwise(x: &[f32]) -> f32 {
    match x {
        [] => 0.0,
        [x] => *x,
        _ => {
            let (left, right) = x.split_at(x.len() / 2);
            pairwise(left) + pairwise(right)
        }
    }
}

/// 0 for a subnormal number.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0 } else { x }
}

/// Two products at a time to each lane, the odd one first; then the lanes, halves to halves.
fn in_pairs(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in a.chunks(2 * LANES).zip(b.chunks(2 * LANES)) {
        for ((a, b), lane) in a.chunks(2).zip(b.chunks(2)).zip(&mut lanes) {
            for (&a, &b) in a.iter().zip(b).rev() {
                *lane = flushed(flushed(a).mul_add(flushed(b), *lane));
            }
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = flushed(lanes[lane] + lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

fn in_a_block(a: &[f32], b: &[f32]) -> f32 {
    let [threads, vector, lanes] = BLOCK;
    let mut sums = vec![0.0_f32; threads];
    for (i, (a, b)) in a.chunks(vector).zip(b.chunks(vector)).enumerate() {
        let sum = &mut sums[i % threads];
        *sum = a.iter().zip(b).fold(*sum, |sum, (a, b)| a.mul_add(*b, sum));
    }
    sums.chunks(lanes).fold(0.0, |sum, warp| sum + pairwise(warp))
}

/// `vectorized_inner_sum` of PyTorch's `SumKernel.cpp`.
fn cascade(x: &[f32]) -> f32 {
    const WIDTH: usize = 8;
    const RUN: usize = 16;
    let at_once = 4 * WIDTH;
    let (mut levels, zero) = ([[0.0_f32; 4 * WIDTH]; 4], [0.0; 4 * WIDTH]);
    let add = |to: &mut [f32; 4 * WIDTH], x: &[f32]| to.iter_mut().zip(x).for_each(|(to, x)| *to += x);
    let whole = x.len() / at_once;
    for i in 0..whole {
        add(&mut levels[0], &x[i * at_once..(i + 1) * at_once]);
        let runs = (i + 1) / RUN * usize::from((i + 1) % RUN == 0);
        let full = [1, RUN, RUN * RUN].into_iter().take_while(|run| runs > 0 && runs.is_multiple_of(*run)).count();
        for level in 0..full {
            let below = std::mem::replace(&mut levels[level], zero);
            add(&mut levels[level + 1], &below);
        }
    }
    let mut sums = levels[0];
    levels[1..].iter().for_each(|level| add(&mut sums, level));
    // Whole vectors beyond those go to the first of the four; then the four are added, and their lanes to what is left.
    let rest = x[whole * at_once..].chunks_exact(WIDTH);
    let left = rest.remainder().iter().fold(0.0, |sum, x| sum + x);
    let mut lanes: Vec<f32> = sums[..WIDTH].to_vec();
    for vector in rest.chain(sums[WIDTH..].chunks_exact(WIDTH)) {
        lanes.iter_mut().zip(vector).for_each(|(lane, x)| *lane += x);
    }
    lanes.iter().fold(left, |sum, lane| sum + lane)
}

/// One step: all addends cut off F bits below the largest one's exponent, added exactly, cut off after f bits (MMA-Sim).
fn step(core: TensorCore, sum: f32, a: &[f32], b: &[f32]) -> f32 {
    let products = a.iter().zip(b).map(|(&a, &b)| a.wide() * b.wide());
    let addends: Vec<f64> = std::iter::once(sum.wide()).chain(products).collect();
    let largest = addends.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return f32::of(addends.iter().sum());
    }
    let quantum = 2.0_f64.powi(exponent(largest) - core.fraction);
    let total: f64 = addends.iter().map(|x| (x / quantum).trunc()).sum::<f64>() * quantum;
    if total == 0.0 {
        return 0.0;
    }
    let quantum = 2.0_f64.powi(exponent(total) - core.result);
    f32::of((total / quantum).trunc() * quantum)
}

/// e of 2ᵉ ≤ |x| < 2ᵉ⁺¹; no product of two f32 is below f64's normal numbers.
fn exponent(x: f64) -> i32 {
    i32::try_from(x.to_bits() >> 52 & 0x7ff).expect("eleven bits") - 1023
}

/// An exponential that is off by up to two ulps, in either direction, as a device's may be.
#[derive(Debug, Clone)]
pub struct Exponential(ChaCha8Rng);

impl Exponential {
    /// The errors follow from the seed.
    pub fn new(seed: u64) -> Self {
        Exponential(ChaCha8Rng::seed_from_u64(seed))
    }

    /// eˣ.
    pub fn of(&mut self, x: f32) -> f32 {
        f32::of(x.wide().exp() * (1.0 + self.error()))
    }

    /// 2ˣ.
    pub fn base_2(&mut self, x: f32) -> f32 {
        f32::of(x.wide().exp2() * (1.0 + self.error()))
    }

    /// Two ulps are at most 4·u; the rounding to f32 takes one of these.
    fn error(&mut self) -> f64 {
        3.0 * f32::UNIT_ROUNDOFF * self.0.random_range(-1.0..=1.0)
    }
}

/// An attention kernel.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Of both products.
    pub order: Order,
    /// Keys taken at a time (flash only).
    pub tile: usize,
    /// Of the exponential's errors.
    pub seed: u64,
}

impl Kernel {
    /// o of q, k and v, with the roundings of `p`.
    pub fn attention(&self, p: &Attention, q: &Array2<f64>, k: &Array2<f64>, v: &Array2<f64>) -> Array2<f64> {
        let (q, k, v) = (q.mapv(f32::of), k.mapv(f32::of), v.mapv(f32::of));
        let (n, s, d) = (q.nrows(), k.nrows(), p.head_dim);
        let mut exp = Exponential::new(self.seed);
        let mut o = Array2::zeros(q.dim());
        for head in 0..p.query_heads {
            let group = head / (p.query_heads / p.key_heads);
            let columns = |x: &Array2<f32>, row: usize, head: usize| -> Vec<f32> {
                x.row(row).iter().skip(head * d).take(d).copied().collect()
            };
            for i in 0..n {
                let query = columns(&q, i, head);
                let keys: Vec<Vec<f32>> = (0..=s - n + i).map(|j| columns(&k, j, group)).collect();
                let values: Vec<Vec<f32>> = (0..=s - n + i).map(|j| columns(&v, j, group)).collect();
                let dots: Vec<f32> = keys.iter().map(|key| self.order.dot(&query, key)).collect();
                let out = match p.order {
                    // Eager stores its scores, too, which `p.scores` says.
                    AttentionRound::Eager | AttentionRound::Operands => self.eager(p, &dots, &values, &mut exp),
                    AttentionRound::Flash | AttentionRound::Uncast => self.flash(p, &dots, &values, &mut exp),
                    AttentionRound::Sdpa => self.sdpa(p, &dots, &values),
                    AttentionRound::FlashF16 => flash_f16(p, &dots, &values, &mut exp),
                };
                for (channel, &x) in out.iter().enumerate() {
                    o[[i, head * d + channel]] = p.output.round(x).wide();
                }
            }
        }
        o
    }

    /// Scores and probabilities are stored.
    fn eager(&self, p: &Attention, dots: &[f32], values: &[Vec<f32>], exp: &mut Exponential) -> Vec<f32> {
        let scale = f32::of(p.scale);
        let scores: Vec<f32> = dots.iter().map(|&x| p.scores.round(p.scores.round(x) * scale)).collect();
        let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|x| exp.of(x - top)).collect();
        let sum = self.order_of_sums().dot(&weights, &vec![1.0; weights.len()]);
        let probabilities: Vec<f32> = weights.iter().map(|w| p.probabilities.round(w / sum)).collect();
        self.mean(p.head_dim, &probabilities, values, None)
    }

    /// Tile by tile, in base 2, with a running maximum.
    fn flash(&self, p: &Attention, dots: &[f32], values: &[Vec<f32>], exp: &mut Exponential) -> Vec<f32> {
        let scale = f32::of(p.scale * std::f64::consts::LOG2_E);
        let (mut top, mut sum, mut out) = (f32::NEG_INFINITY, 0.0_f32, vec![0.0; p.head_dim]);
        for (dots, values) in dots.chunks(self.tile).zip(values.chunks(self.tile)) {
            let scores: Vec<f32> = dots.iter().map(|x| x * scale).collect();
            let new = scores.iter().copied().fold(top, f32::max);
            let rescale = exp.base_2(top - new);
            let weights: Vec<f32> = scores.iter().map(|x| exp.base_2(x - new)).collect();
            sum = sum * rescale + self.order_of_sums().dot(&weights, &vec![1.0; weights.len()]);
            for x in &mut out {
                *x *= rescale;
            }
            let weights: Vec<f32> = weights.iter().map(|&w| p.probabilities.round(w)).collect();
            out = self.mean(p.head_dim, &weights, values, Some(&out));
            top = new;
        }
        out.iter().map(|x| x / sum).collect()
    }

    /// torch's flash attention on a CPU, of fewer keys than a tile: the sum is of weights that are not yet rounded.
    fn sdpa(&self, p: &Attention, dots: &[f32], values: &[Vec<f32>]) -> Vec<f32> {
        let scores: Vec<f32> = dots.iter().map(|x| x * f32::of(p.scale)).collect();
        let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponential = if p.exponential == rounding::Exponential::Cubic { torch::fexp_u20 } else { torch::exp_u20 };
        let weights: Vec<f32> = scores.iter().map(|x| exponential(x - top)).collect();
        let sum = self.order_of_sums().dot(&weights, &vec![1.0; weights.len()]);
        let weights: Vec<f32> = weights.iter().map(|&w| p.probabilities.round(w)).collect();
        self.mean(p.head_dim, &weights, values, None).iter().map(|x| x * sum.recip()).collect()
    }

    /// Σ wⱼ·vⱼ, and what was there before as one more product.
    fn mean(&self, d: usize, weights: &[f32], values: &[Vec<f32>], before: Option<&[f32]>) -> Vec<f32> {
        let channel = |c: usize| {
            let mut column: Vec<f32> = values.iter().map(|v| v[c]).collect();
            let mut weights = weights.to_vec();
            if let Some(before) = before {
                column.insert(0, before[c]);
                weights.insert(0, 1.0);
            }
            self.order.dot(&weights, &column)
        };
        (0..d).map(channel).collect()
    }

    /// Sums of weights are not a tensor core's.
    fn order_of_sums(&self) -> Order {
        match self.order {
            Order::TensorCore(_) | Order::DotProductInstruction => Order::Sequential,
            order => order,
        }
    }
}

/// llama.cpp's flash attention for few rows: key by key, with a running maximum, and a running sum of values in f16.
fn flash_f16(p: &Attention, dots: &[f32], values: &[Vec<f32>], exp: &mut Exponential) -> Vec<f32> {
    let kept = |x: f32| f32::of(Storage::F16.nearest(x.wide()));
    let (mut top, mut sum, mut out) = (f32::NEG_INFINITY, 0.0_f32, vec![0.0_f32; p.head_dim]);
    for (dot, value) in dots.iter().zip(values) {
        let score = dot * f32::of(p.scale);
        if score > top {
            let rescale = exp.of(top - score);
            for x in &mut out {
                *x = kept(*x * rescale);
            }
            sum *= rescale;
            top = score;
        }
        let weight = exp.of(score - top);
        out.iter_mut().zip(value).for_each(|(x, v)| *x = kept(*x + v * weight));
        sum += weight;
    }
    out.iter().map(|x| x / sum).collect()
}

/// The roundings of an f32 that a contract asks for, in f64.
pub fn rounded(x: &Array2<f32>, rounding: Rounding) -> Array2<f64> {
    x.mapv(|x| rounding.round(x).wide())
}
