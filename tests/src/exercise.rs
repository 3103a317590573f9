//! Each kernel once, on a case that reaches all of its lines: partial tiles, more tiles than stages, several blocks.

mod vision;

use half::bf16;
use ndarray::s;
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::kernel::Kernel;
use optimized::ops::add_rms_norm::add_rms_norm;
use optimized::ops::all_reduce::{all_reduce, all_reduce_f32};
use optimized::ops::attention::{Cut, attention_cut};
use optimized::ops::block_sparse_attention::{Chosen, block_sparse_attention_cut};
use optimized::ops::dense_ffn::{DenseFfn, dense_ffn_tiled};
use optimized::ops::embedding::embedding;
use optimized::ops::indexer::indexer;
use optimized::ops::linear::{Output, Tiling, linear_tiled};
use optimized::ops::moe::{Experts, Shared, moe_tiled};
use optimized::ops::mtp::{Norms, mtp};
use optimized::ops::qk_norm_rope::{
    IndexHeads, KeysValues, Squares, Weights, qk_norm_rope, qk_norm_rope_per_head, qk_norm_rope_sharded, squares,
};
use optimized::ops::rms_norm::rms_norm;
use optimized::ops::router::{Routed, Tokens, router_cut};
use optimized::ops::sampling::argmax;
use optimized::ops::{Activation, HeadLayout};
use optimized::tensor::{Element, Matrix};
use optimized::tiles::Tiles;
use optimized::weight::WeightMatrix;
use reference::config::Blocks;
use reference::semantics::{MsaSelect, NormWeight};

use crate::quantized::{SCHEMES, stored, weight};
use crate::values::activations;

const EPS: f32 = 1e-6;

/// A device, and the bits of what it computed so far.
struct Exercise<'a> {
    gpu: &'a Gpu,
    bits: Vec<u64>,
}

/// Launches all entries of a kernel; the bits of what they compute.
pub fn exercise(gpu: &Gpu, kernel: &Kernel) -> Result<Vec<u64>, Error> {
    let mut exercise = Exercise { gpu, bits: Vec::new() };
    match kernel.op {
        "embedding" => exercise.embedding()?,
        "rms_norm" => exercise.rms_norm()?,
        "add_rms_norm" => exercise.add_rms_norm()?,
        "linear" if kernel.constant("OUT") == 16 => exercise.linear::<bf16>(kernel)?,
        "linear" => exercise.linear::<f32>(kernel)?,
        "qk_norm_rope" => exercise.qk_norm_rope(kernel)?,
        "attention" => exercise.attention(kernel)?,
        "indexer" => exercise.indexer(kernel)?,
        "block_sparse_attention" => exercise.block_sparse_attention(kernel)?,
        "router" => exercise.router()?,
        "moe" => exercise.moe(kernel)?,
        "dense_ffn" => exercise.dense_ffn(kernel)?,
        "sampling" => exercise.sampling()?,
        "layer_norm" => exercise.layer_norm()?,
        "gelu" => exercise.gelu()?,
        "residual" => exercise.residual()?,
        "linear_bias" => exercise.linear_bias(kernel)?,
        "rope" => exercise.rope()?,
        "vision_attention" => exercise.vision_attention(kernel)?,
        "patch_embedding" => exercise.patch_embedding()?,
        "mtp" => exercise.mtp()?,
        "masked_scatter" => exercise.masked_scatter()?,
        "all_reduce" => exercise.all_reduce()?,
        op => panic!("{op} has no exercise yet: give it one here"),
    }
    Ok(exercise.bits)
}

/// A value's bits.
trait Bits: Element {
    fn bits(self) -> u64;
}

impl Bits for bf16 {
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
}

impl Bits for f32 {
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
}

impl Bits for i32 {
    fn bits(self) -> u64 {
        self.cast_unsigned().into()
    }
}

impl Exercise<'_> {
    fn keep<T: Bits>(&mut self, matrix: &Matrix<T>) -> Result<(), Error> {
        self.bits.extend(self.gpu.download_padded(matrix)?.iter().map(|value| value.bits()));
        Ok(())
    }

    fn values(&self, seed: u64, dim: (usize, usize)) -> Result<Matrix<bf16>, Error> {
        self.gpu.upload(activations(seed, dim).view())
    }

    fn wide_values(&self, seed: u64, dim: (usize, usize)) -> Result<Matrix<f32>, Error> {
        self.gpu.upload(activations(seed, dim).mapv(f32::from).view())
    }

    /// A weight as the kernel takes it.
    fn weight(&self, kernel: &Kernel, seed: u64, dim: (usize, usize)) -> Result<WeightMatrix, Error> {
        match kernel.constant("WEIGHTS") {
            16 => self.values(seed, dim).map(WeightMatrix::from),
            _ => Ok(stored(self.gpu, &[weight(seed, dim, SCHEMES[0], 0)]).into()),
        }
    }

    fn embedding(&mut self) -> Result<(), Error> {
        let y = embedding(self.gpu, &[4, 0, 3], &self.values(1, (5, 1100))?)?;
        self.keep(&y)
    }

    /// A bit more than a vector for each thread.
    fn rms_norm(&mut self) -> Result<(), Error> {
        let y = rms_norm(self.gpu, &self.values(1, (3, 2100))?, &self.values(2, (1, 2100))?, NormWeight::Plain, EPS)?;
        self.keep(&y)
    }

    fn add_rms_norm(&mut self) -> Result<(), Error> {
        let (x, f, w) = (self.values(1, (3, 2100))?, self.values(2, (3, 2100))?, self.values(3, (1, 2100))?);
        let (s, y) = add_rms_norm(self.gpu, &x, &f, &w, NormWeight::OnePlus, EPS)?;
        self.keep(&s)?;
        self.keep(&y)
    }

    /// A bit more than a vector for each thread, and halves of which the second is not aligned.
    fn mtp(&mut self) -> Result<(), Error> {
        let (e, h) = (self.values(1, (3, 2101))?, self.values(2, (3, 2101))?);
        let (embedding, hidden) = (self.values(3, (1, 2101))?, self.values(4, (1, 2101))?);
        let norms = Norms { embedding: &embedding, hidden: &hidden, weight: NormWeight::OnePlus, eps: EPS };
        let y = mtp(self.gpu, &e, &h, norms, true)?;
        self.keep(&y)
    }

    /// More vectors, and more values, than threads.
    fn all_reduce(&mut self) -> Result<(), Error> {
        let parts = [1, 2, 3].map(|seed| self.values(seed, (3, 2101)));
        let [a, b, c] = parts;
        let y = all_reduce(self.gpu, &[&a?, &b?, &c?])?;
        self.keep(&y)?;
        let (a, b) = (self.wide_values(4, (150, 2))?, self.wide_values(5, (150, 2))?);
        let y = all_reduce_f32(self.gpu, &[&a, &b])?;
        self.keep(&y)
    }

    /// More tiles of k than stages, and a second chunk.
    fn linear<T: Output + Bits>(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let (x, w) = (self.values(1, (13, 600))?, self.weight(kernel, 2, (150, 600))?);
        for tiling in Tiling::of_kernel(kernel) {
            let y = linear_tiled::<T>(self.gpu, *tiling, &x, &w)?;
            self.keep(&y)?;
        }
        Ok(())
    }

    fn layout(kernel: &Kernel) -> Result<HeadLayout, Error> {
        HeadLayout::new(6, 2, kernel.constant("D") as usize * 3 / 4)
    }

    fn qk_norm_rope(&mut self, kernel: &Kernel) -> Result<(), Error> {
        const TOKENS: usize = 3;
        const FIRST: usize = 5;
        let layout = Self::layout(kernel)?;
        let (heads, groups, d) = (layout.heads(), layout.groups(), layout.head_dim());
        let x = self.values(1, (TOKENS, (heads + 2 * groups) * d))?;
        let (query_norm, key_norm) = (self.values(2, (1, heads * d))?, self.values(3, (1, groups * d))?);
        let table = |seed| self.wide_values(seed, (TOKENS, d / 2));
        let (cos, sin) = (table(4)?, table(5)?);
        let weights =
            Weights { query_norm: &query_norm, key_norm: &key_norm, cos: &cos, sin: &sin, first_row: 0, eps: EPS };
        let kept = (FIRST + TOKENS, groups * layout.padded());
        let mut kept = KeysValues { keys: self.gpu.zeros(kept)?, values: self.gpu.zeros(kept)? };
        let q = qk_norm_rope(self.gpu, &layout, &x, weights, FIRST, &mut kept)?;
        self.keep(&q)?;
        self.keep(&kept.keys)?;
        self.keep(&kept.values)?;

        let sums = squares(self.gpu, &layout, &x)?;
        self.keep(&sums)?;
        let squares = Squares { sums: &sums, divisors: [heads * d, groups * d] };
        let q = qk_norm_rope_sharded(self.gpu, &layout, &x, (weights, squares), FIRST, &mut kept)?;
        self.keep(&q)?;
        self.keep(&kept.keys)?;
        self.keep(&kept.values)?;

        let index_layout = HeadLayout::new(2, 1, d)?;
        let x = self.values(6, (TOKENS, (heads + 2 * groups + 3) * d))?;
        let norms = [7, 8, 9, 10].map(|seed| self.values(seed, (1, d)));
        let [query_norm, key_norm, index_query_norm, index_key_norm] = norms;
        let (query_norm, key_norm) = (query_norm?, key_norm?);
        let weights = Weights { query_norm: &query_norm, key_norm: &key_norm, ..weights };
        let mut index_keys = self.gpu.zeros((FIRST + TOKENS, index_layout.padded()))?;
        let (query_norm, key_norm) = (&index_query_norm?, &index_key_norm?);
        let index = IndexHeads { layout: &index_layout, query_norm, key_norm, keys: &mut index_keys };
        let weights = (weights, NormWeight::OnePlus);
        let (q, index_q) = qk_norm_rope_per_head(self.gpu, &layout, &x, weights, FIRST, &mut kept, Some(index))?;
        self.keep(&q)?;
        self.keep(&kept.keys)?;
        self.keep(&kept.values)?;
        self.keep(&index_q.expect("there are index heads"))?;
        self.keep(&index_keys)
    }

    /// Two blocks of rows and few rows; blocks of keys that share a tile, and such as take two, or more than a block has
    /// warps for; more blocks than a warp chooses from at once.
    fn indexer(&mut self, kernel: &Kernel) -> Result<(), Error> {
        const FIRST: usize = 400;
        let layout = HeadLayout::new(2, 1, kernel.constant("D") as usize * 3 / 4)?;
        for (tokens, size) in [(35, 7), (35, 100), (3, 3), (3, 200)] {
            let q = self.values(1, (tokens, layout.heads() * layout.padded()))?;
            let keys = self.values(2, (FIRST + tokens, layout.padded()))?;
            let blocks = Blocks { size, top_k: 5, local: 2, init: 1 };
            let select = if size < 64 { MsaSelect::PerGroup } else { MsaSelect::HeadMax };
            let indexed = indexer(self.gpu, &layout, (&blocks, select), &q, FIRST, &keys)?;
            self.keep(&indexed.maxima)?;
            self.keep(&indexed.chosen)?;
        }
        Ok(())
    }

    /// More than one group of tiles, blocks that several tokens chose, and such as only one did.
    fn block_sparse_attention(&mut self, kernel: &Kernel) -> Result<(), Error> {
        const TOKENS: usize = 6;
        const FIRST: usize = 250;
        const BLOCK: usize = 30;
        let layout = Self::layout(kernel)?;
        let q = self.values(1, (TOKENS, layout.heads() * layout.padded()))?;
        let kept = (FIRST + TOKENS, layout.groups() * layout.padded());
        let kept = KeysValues { keys: self.values(2, kept)?, values: self.values(3, kept)? };
        let block = |row: usize, slot: usize| i32::try_from((row * 2 + slot * 5) % 9).expect("a few blocks");
        let chosen = ndarray::Array2::from_shape_fn((TOKENS * layout.groups(), 7), |(row, slot)| block(row, slot));
        let blocks = self.gpu.upload(chosen.view())?;
        for cut in [Cut::Queries, Cut::Keys] {
            let chosen = Chosen { blocks: &blocks, size: BLOCK };
            let o = block_sparse_attention_cut(self.gpu, cut, &layout, &q, FIRST, &kept, chosen)?;
            self.keep(&o)?;
        }
        Ok(())
    }

    /// More than one group of keys, and a last tile that is not full.
    fn attention(&mut self, kernel: &Kernel) -> Result<(), Error> {
        const TOKENS: usize = 20;
        const FIRST: usize = 250;
        let layout = Self::layout(kernel)?;
        let q = self.values(1, (TOKENS, layout.heads() * layout.padded()))?;
        let kept = (FIRST + TOKENS, layout.groups() * layout.padded());
        let kept = KeysValues { keys: self.values(2, kept)?, values: self.values(3, kept)? };
        for cut in [Cut::Queries, Cut::Keys] {
            let o = attention_cut(self.gpu, cut, &layout, &q, FIRST, &kept)?;
            self.keep(&o)?;
        }
        Ok(())
    }

    /// Two blocks of tokens and of experts, more values than lanes.
    fn router(&mut self) -> Result<(), Error> {
        let (x, gate) = (self.values(1, (11, 70))?, self.wide_values(2, (41, 70))?);
        for tokens in [Tokens::Few, Tokens::Many] {
            let routed = router_cut(self.gpu, tokens, &x, (&gate, &self.wide_values(3, (1, 41))?), 5)?;
            self.keep(&routed.logits)?;
            self.keep(&routed.scores)?;
            self.keep(&routed.choice)?;
            self.keep(&routed.chosen)?;
            self.keep(&routed.weights)?;
        }
        Ok(())
    }

    /// More choices than a block has threads to place them, and few of them, more tiles of both widths than one, and more of k than
    /// stages.
    fn moe(&mut self, kernel: &Kernel) -> Result<(), Error> {
        const TOKENS: usize = 70;
        const FEW: usize = 30;
        const CHOICES: usize = 4;
        const EXPERTS: usize = 5;
        const WIDTH: usize = 270;
        const INTERMEDIATE: usize = 70;
        let chosen = ndarray::Array2::from_shape_fn((TOKENS, CHOICES), |(i, s)| (i + s) % EXPERTS);
        let chosen = chosen.mapv(|expert| i32::try_from(expert).expect("a few experts"));
        let scores = || self.gpu.zeros((TOKENS, EXPERTS));
        let routed = Routed {
            logits: scores()?,
            scores: scores()?,
            choice: scores()?,
            chosen: self.gpu.upload(chosen.view())?,
            weights: self.wide_values(1, (TOKENS, CHOICES))?,
        };
        let experts = Experts {
            gate_up: self.weight(kernel, 2, (EXPERTS * 2 * INTERMEDIATE, WIDTH))?,
            down: self.weight(kernel, 3, (EXPERTS * WIDTH, INTERMEDIATE))?,
            first: 0,
            count: EXPERTS,
            activation: Activation::Swiglu,
        };
        let tiles = Tiles::of(kernel);
        let output = self.values(5, (TOKENS, WIDTH))?;
        let shared = Some(Shared { output: &output, scale: 2.0 });
        let fed = moe_tiled(self.gpu, tiles, &self.values(4, (TOKENS, WIDTH))?, &routed, &experts, shared)?;
        self.keep(&fed.hidden)?;
        self.keep(&fed.outputs)?;
        self.keep(&fed.sum)?;
        self.keep(&fed.with_shared.expect("there is a shared expert"))?;

        let experts = Experts {
            gate_up: self.weight(kernel, 2, (2 * 2 * INTERMEDIATE, WIDTH))?,
            down: self.weight(kernel, 3, (2 * WIDTH, INTERMEDIATE))?,
            first: 2,
            count: 2,
            activation: Activation::Swiglu,
        };
        let fed = moe_tiled(self.gpu, tiles, &self.values(4, (TOKENS, WIDTH))?, &routed, &experts, None)?;
        self.keep(&fed.outputs)?;
        self.keep(&fed.sum)?;

        let few = Routed {
            chosen: self.gpu.upload(chosen.slice(s![..FEW, ..]))?,
            weights: self.wide_values(1, (FEW, CHOICES))?,
            ..routed
        };
        let fed = moe_tiled(self.gpu, tiles, &self.values(4, (FEW, WIDTH))?, &few, &experts, None)?;
        self.keep(&fed.outputs)?;
        self.keep(&fed.sum)
    }

    /// More tiles of k than stages, more tiles of both widths than one.
    fn dense_ffn(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let ffn = DenseFfn { gate_up: self.weight(kernel, 1, (300, 350))?, down: self.weight(kernel, 2, (350, 150))? };
        let fed = dense_ffn_tiled(self.gpu, Tiles::of(kernel), &self.values(3, (70, 350))?, &ffn, Activation::Swiglu)?;
        self.keep(&fed.hidden)?;
        self.keep(&fed.output)
    }

    fn sampling(&mut self) -> Result<(), Error> {
        let best = argmax(self.gpu, &self.values(1, (2, 700))?)?;
        self.bits.extend(best.iter().flat_map(|(token, margin)| [u64::from(*token), margin.bits()]));
        Ok(())
    }
}
