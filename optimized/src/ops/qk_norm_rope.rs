//! Launches `kernels/qk_norm_rope.cu`.

use cudarc::driver::{CudaView, PushKernelArg};
use half::bf16;

use reference::contract::{ContractError, EpsPlace, NormWeight, RmsNorm, Rope, RoundingContract, require};

use super::{HeadLayout, count, dimension, length, one, optional, optional_mut};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::QK_NORM_ROPE;
use crate::tensor::Matrix;

/// Threads of the block that owns a token.
const THREADS: u32 = QK_NORM_ROPE[0].constant("THREADS");

/// What the operator reads beside its token's projections.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// w \[1, heads·d\], or \[1, d\] for each head alike.
    pub query_norm: &'a Matrix<bf16>,
    /// u \[1, groups·d\], or \[1, d\].
    pub key_norm: &'a Matrix<bf16>,
    /// cos \[≥ n, 2h\], a row a position.
    pub cos: &'a Matrix<f32>,
    /// sin, likewise.
    pub sin: &'a Matrix<f32>,
    /// The row of cos and sin of the first of the n tokens.
    pub first_row: usize,
    /// ε.
    pub eps: f32,
}

impl Weights<'_> {
    /// `rope`'s C1 to C3, of n tokens' heads of d channels; and K3, that there is a row of cos and sin for each token.
    fn check_table(&self, n: usize, d: usize) -> Result<(), ContractError> {
        let ((rows, rotary_dim), (rows_of_sin, of_sin)) = (self.cos.dim(), self.sin.dim());
        let rope = Rope { head_dim: d, rotary_dim, ..Rope::default() };
        rope.check((n, d), (n, rotary_dim), (n, of_sin))?;
        let (found, expected) = (rows.min(rows_of_sin), format!("at least first row + n = {}", self.first_row + n));
        require(self.first_row + n <= found, "qk_norm_rope K3", "rows(cos)", found, expected)
    }

    /// cos and sin from the first token's row on.
    fn table_rows(&self) -> [CudaView<'_, f32>; 2] {
        [self.cos, self.sin].map(|table| table.data().slice(self.first_row * table.ld()..))
    }
}

/// Keys and values of a layer \[positions, groups·D\], of which the first ones are written.
#[derive(Debug)]
pub struct KeysValues {
    /// K.
    pub keys: Matrix<bf16>,
    /// V.
    pub values: Matrix<bf16>,
}

/// q̃ \[n, heads·D\] of x \[n, (heads + 2·groups)·d\]; keys and values of tokens `first` and after go to `kept`.
///
/// C1: the reference's, and those of `rms_norm` and `rope`, which is given a row of cos and sin for each of x from `first_row`
/// on. K1: sizes are below 2³¹. K2: the norms are one row each. K5: the kept positions are enough.
pub fn qk_norm_rope(
    gpu: &Gpu,
    layout: &HeadLayout,
    x: &Matrix<bf16>,
    weights: Weights<'_>,
    first: usize,
    kept: &mut KeysValues,
) -> Result<Matrix<bf16>, Error> {
    let arguments = checked(layout, x, weights, first, kept)?;
    let n = x.dim().0;
    let mut q = gpu.uninitialised((n, layout.heads * layout.padded()))?;
    let kernel = QK_NORM_ROPE[layout.variant()];
    let function = gpu.function(&kernel, "qk_norm_rope")?;
    let grid = gpu.with_shared("qk_norm_rope K6", grid_of_heads(n, layout), PARTIAL_BYTES)?;
    let mut launch = gpu.launch(&function);
    let [cos, sin] = weights.table_rows();
    launch.arg(x.data()).arg(weights.query_norm.data()).arg(weights.key_norm.data()).arg(&cos).arg(&sin);
    launch.arg(q.data_mut()).arg(kept.keys.data_mut()).arg(kept.values.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    launch.arg(&weights.eps);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1; K2 by `length` and `rms_norm`'s C2; K3 by `check_table`; K4 by `rope`'s C2 and `HeadLayout`; K5 as required,
    // and because q was just allocated; K6 by `with_shared`.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || kernel.label())?;
    Ok(q)
}

/// Shared memory of a block that sums squares.
const PARTIAL_BYTES: u32 = THREADS / 32 * 4 * 2;

/// Up to so many tokens, several blocks share one.
const FEW_TOKENS: usize = 16;
/// Channels that a block writes then: so many for each thread.
const OF_A_THREAD: usize = 4;

/// A block for each token.
fn grid(n: usize) -> Grid {
    Grid { blocks: (count(n), 1), threads: THREADS }
}

/// The same, or where there are few tokens, several.
fn grid_of_heads(n: usize, layout: &HeadLayout) -> Grid {
    let channels = (layout.heads + 2 * layout.groups) * layout.padded();
    let blocks = if n <= FEW_TOKENS { channels.div_ceil(THREADS as usize * OF_A_THREAD) } else { 1 };
    Grid { blocks: (count(n), count(blocks)), threads: THREADS }
}

/// C1 and K1 to K5 of whole rows, and their sizes.
fn checked(
    layout: &HeadLayout,
    x: &Matrix<bf16>,
    weights: Weights<'_>,
    first: usize,
    kept: &KeysValues,
) -> Result<[i32; 7], Error> {
    let HeadLayout { heads, groups, head_dim, .. } = *layout;
    let n = x.dim().0;
    check_width(layout, x)?;
    let [w, u] = [("rows(w)", weights.query_norm), ("rows(u)", weights.key_norm)]
        .map(|(rows, norm)| length("qk_norm_rope K2", rows, norm));
    let norm = RmsNorm::under(&RoundingContract::PARITY, weights.eps.into(), EpsPlace::Inside);
    norm.check((n, heads * head_dim), w?)?;
    norm.check((n, groups * head_dim), u?)?;
    weights.check_table(n, head_dim)?;
    let (positions, row) = kept.keys.dim();
    require(first + n <= positions, "qk_norm_rope K5", "positions", first + n, format!("at most {positions}"))?;
    require(
        row == groups * layout.padded() && kept.values.dim() == kept.keys.dim(),
        "qk_norm_rope K5",
        "cols(K)",
        row,
        "groups·D",
    )?;
    sizes([
        ("heads", heads),
        ("groups", groups),
        ("d", head_dim),
        ("h", weights.cos.dim().1 / 2),
        ("first", first),
        ("ld(x)", x.ld()),
        ("ld(cos)", weights.cos.ld()),
    ])
}

fn check_width(layout: &HeadLayout, x: &Matrix<bf16>) -> Result<(), ContractError> {
    let (width, expected) = (x.dim().1, (layout.heads + 2 * layout.groups) * layout.head_dim);
    require(width == expected, "qk_norm_rope C1", "columns of x", width, format!("(H + 2G)·d = {expected}"))
}

/// K1.
fn sizes<const N: usize>(sizes: [(&'static str, usize); N]) -> Result<[i32; N], Error> {
    let mut arguments = [0; N];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("qk_norm_rope K1", quantity, value)?;
    }
    Ok(arguments)
}

/// Sums of the squares of each token's queries and of its keys \[n, 2\]: what a rank has of those that norms divide.
///
/// C1: the reference's. K1: sizes are below 2³¹.
pub fn squares(gpu: &Gpu, layout: &HeadLayout, x: &Matrix<bf16>) -> Result<Matrix<f32>, Error> {
    check_width(layout, x)?;
    let n = x.dim().0;
    let mut sums = gpu.uninitialised((n, 2))?;
    let arguments = sizes([
        ("heads", layout.heads),
        ("groups", layout.groups),
        ("d", layout.head_dim),
        ("ld(x)", x.ld()),
        ("ld(sums)", sums.ld()),
    ])?;
    let kernel = QK_NORM_ROPE[layout.variant()];
    let function = gpu.function(&kernel, "qk_norm_rope_squares")?;
    let grid = gpu.with_shared("qk_norm_rope K6", grid(n), PARTIAL_BYTES)?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(sums.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1; K6 by `with_shared`; K8 because sums were just allocated, whose rows are shorter than a block.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} qk_norm_rope_squares", kernel.label()))?;
    Ok(sums)
}

/// What all ranks' rows have together.
#[derive(Debug, Clone, Copy)]
pub struct Squares<'a> {
    /// [`squares`], summed over ranks.
    pub sums: &'a Matrix<f32>,
    /// How many channels were counted of queries, and of keys.
    pub divisors: [usize; 2],
}

/// [`qk_norm_rope`] of a rank that has some of the heads, and the weights of these.
///
/// As there. K8: there is a sum for each token, and divisors are at least 1.
pub fn qk_norm_rope_sharded(
    gpu: &Gpu,
    layout: &HeadLayout,
    x: &Matrix<bf16>,
    (weights, squares): (Weights<'_>, Squares<'_>),
    first: usize,
    kept: &mut KeysValues,
) -> Result<Matrix<bf16>, Error> {
    let arguments = checked(layout, x, weights, first, kept)?;
    let (n, found) = (x.dim().0, squares.sums.dim());
    require(found == (n, 2), "qk_norm_rope K8", "shape of the sums", format!("{found:?}"), format!("({n}, 2)"))?;
    let least = squares.divisors[0].min(squares.divisors[1]);
    require(least >= 1, "qk_norm_rope K8", "D", least, "at least 1")?;
    let [of_queries, of_keys] = squares.divisors;
    let more = sizes([("ld(sums)", squares.sums.ld()), ("D", of_queries), ("D", of_keys)])?;
    let mut q = gpu.uninitialised((n, layout.heads * layout.padded()))?;
    let kernel = QK_NORM_ROPE[layout.variant()];
    let function = gpu.function(&kernel, "qk_norm_rope_sharded")?;
    let mut launch = gpu.launch(&function);
    let [cos, sin] = weights.table_rows();
    launch.arg(x.data()).arg(weights.query_norm.data()).arg(weights.key_norm.data()).arg(&cos).arg(&sin);
    launch.arg(squares.sums.data());
    launch.arg(q.data_mut()).arg(kept.keys.data_mut()).arg(kept.values.data_mut());
    for argument in arguments.iter().chain(&more) {
        launch.arg(argument);
    }
    launch.arg(&weights.eps);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 to K5 by `checked`, and because q was just allocated; K8 as required.
    let done = unsafe { launch.launch(grid_of_heads(n, layout).into()) };
    gpu.outcome(done, || format!("{} qk_norm_rope_sharded", kernel.label()))?;
    Ok(q)
}

/// The indexer's heads: G query heads and one key head, of a width of their own.
#[derive(Debug)]
pub struct IndexHeads<'a> {
    /// Their layout, of one group.
    pub layout: &'a HeadLayout,
    /// Index query norm \[1, d\].
    pub query_norm: &'a Matrix<bf16>,
    /// Index key norm \[1, d\].
    pub key_norm: &'a Matrix<bf16>,
    /// Index keys of a layer \[positions, D\].
    pub keys: &'a mut Matrix<bf16>,
}

/// How the heads of a row of x follow each other.
struct Parts {
    index_heads: usize,
    index_dim: usize,
    index_padded: usize,
    /// All heads, keys and values included.
    heads: usize,
    /// Channels of them.
    width: usize,
}

impl Parts {
    fn of(layout: &HeadLayout, index: Option<&IndexHeads<'_>>) -> Self {
        let main = layout.heads + 2 * layout.groups;
        let (index_heads, index_dim, index_padded) =
            index.map_or((0, 0, 0), |index| (index.layout.heads, index.layout.head_dim, index.layout.padded()));
        let of_index = if index.is_some() { index_heads + 1 } else { 0 };
        let width = main * layout.head_dim + of_index * index_dim;
        Parts { index_heads, index_dim, index_padded, heads: main + of_index, width }
    }
}

/// The same where each head is normalized by itself, all with one weight: q̃, and the index queries \[n, G·D\], if x goes on
/// with the indexer's projections after its own.
///
/// C1: x is as wide as its heads; and those of `rms_norm` and `rope`. K1: sizes are below 2³¹. K5: the kept positions are enough.
/// K7: the norms are one row each, and index heads share a key head.
pub fn qk_norm_rope_per_head(
    gpu: &Gpu,
    layout: &HeadLayout,
    x: &Matrix<bf16>,
    (weights, weight): (Weights<'_>, NormWeight),
    first: usize,
    kept: &mut KeysValues,
    index: Option<IndexHeads<'_>>,
) -> Result<(Matrix<bf16>, Option<Matrix<bf16>>), Error> {
    let parts = Parts::of(layout, index.as_ref());
    check_per_head(layout, x, &weights, first, kept, index.as_ref())?;
    let (n, padded) = (x.dim().0, layout.padded());
    let mut q = gpu.uninitialised((n, layout.heads * padded))?;
    let mut index_q = match parts.index_heads {
        0 => None,
        heads => Some(gpu.uninitialised((n, heads * parts.index_padded))?),
    };
    let kernel = QK_NORM_ROPE[layout.variant()];
    let arguments = sizes([
        ("heads", layout.heads),
        ("groups", layout.groups),
        ("index heads", parts.index_heads),
        ("d", layout.head_dim),
        ("index d", parts.index_dim),
        ("index D", parts.index_padded),
        ("h", weights.cos.dim().1 / 2),
        ("first", first),
        ("ld(x)", x.ld()),
        ("ld(cos)", weights.cos.ld()),
    ])?;
    let function = gpu.function(&kernel, "qk_norm_rope_per_head")?;
    let warps = THREADS as usize / 32;
    let grid = Grid { blocks: (count(n), count(parts.heads.div_ceil(warps))), threads: THREADS };
    let one = one(weight);
    let [cos, sin] = weights.table_rows();
    let (index_norms, index_keys) = index.map(|index| ((index.query_norm, index.key_norm), index.keys)).unzip();
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(weights.query_norm.data()).arg(weights.key_norm.data());
    optional(&mut launch, index_norms.map(|(query, _)| query));
    optional(&mut launch, index_norms.map(|(_, key)| key));
    launch.arg(&cos).arg(&sin);
    launch.arg(q.data_mut()).arg(kept.keys.data_mut()).arg(kept.values.data_mut());
    optional_mut(&mut launch, index_q.as_mut());
    optional_mut(&mut launch, index_keys);
    for argument in &arguments {
        launch.arg(argument);
    }
    launch.arg(&weights.eps).arg(&one);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 and K7 by `check_per_head`; K3 by `check_table`; K4 by `rope`'s C2 and `HeadLayout`; K5 as required, and because q̃
    // was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || format!("{} qk_norm_rope_per_head", kernel.label()))?;
    Ok((q, index_q))
}

/// C1, those of the parts, K5 and K7.
fn check_per_head(
    layout: &HeadLayout,
    x: &Matrix<bf16>,
    weights: &Weights<'_>,
    first: usize,
    kept: &KeysValues,
    index: Option<&IndexHeads<'_>>,
) -> Result<(), ContractError> {
    let ((n, width), expected) = (x.dim(), Parts::of(layout, index).width);
    require(width == expected, "qk_norm_rope C1", "columns of x", width, format!("those of all heads, {expected}"))?;
    let p = RmsNorm::under(&RoundingContract::PARITY, weights.eps.into(), EpsPlace::Inside);
    let norm = |norm: &Matrix<bf16>, d: usize| p.check((n, d), length("qk_norm_rope K7", "rows(w)", norm)?);
    let reaches = |kept: &Matrix<bf16>, wide: usize| {
        let (positions, row) = kept.dim();
        require(first + n <= positions, "qk_norm_rope K5", "positions", first + n, format!("at most {positions}"))?;
        require(row == wide, "qk_norm_rope K5", "cols(K)", row, format!("those of padded heads, {wide}"))
    };
    norm(weights.query_norm, layout.head_dim)?;
    norm(weights.key_norm, layout.head_dim)?;
    weights.check_table(n, layout.head_dim)?;
    reaches(&kept.keys, layout.groups * layout.padded())?;
    reaches(&kept.values, layout.groups * layout.padded())?;
    let Some(index) = index else { return Ok(()) };
    let groups = index.layout.groups;
    require(groups == 1, "qk_norm_rope K7", "index groups", groups, "1: index heads share a key head")?;
    norm(index.query_norm, index.layout.head_dim)?;
    norm(index.key_norm, index.layout.head_dim)?;
    weights.check_table(n, index.layout.head_dim)?;
    reaches(index.keys, index.layout.padded())
}
