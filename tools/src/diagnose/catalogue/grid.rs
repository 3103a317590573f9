//! What weights are rounded to, or what goes into a product or comes out.

use std::fmt;

use fixtures::quantize::quantize;
use ndarray::{Array2, Axis};
use reference::Storage;
use reference::config::Quantization;
use reference::matrix::Matrix;

/// Channels of a row that share a scale, where activations are rounded by groups.
const CHANNELS: usize = 128;

/// Rows and columns of a block with a scale of its own, where blocks are smaller than the released files'.
const SMALL: (usize, usize) = (32, 32);

/// Input channels that share a scale in MXFP4, and fewer where a matrix has no multiple of these; and in NVFP4.
const MXFP4: [usize; 3] = [32, 16, 8];
const NVFP4: usize = 16;

/// What E2M1 has, but for signs.
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// What values are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// E4M3 with scales.
    E4m3(E4m3),
    /// E4M3 with a power of two for each 32 input channels.
    Mxfp8,
    /// 8-bit integers, scaled so that the largest of each row is 127.
    Int8,
    /// 8-bit integers, scaled so that the largest of the tensor is 127.
    Int8Tensor,
    /// The same of each column.
    Int8Columns,
    /// E2M1 with a power of two for each so many input channels.
    Mxfp4(Mxfp4),
    /// E2M1 with a scale in E4M3 for each 16 input channels, and one of the tensor.
    Nvfp4,
    /// 4-bit integers by groups of input channels.
    Int4(Int4),
    /// bf16.
    Bf16,
    /// f16.
    F16,
    /// E4M3 as it is, without a scale.
    PlainE4m3,
    /// E5M2 as it is, without a scale.
    PlainE5m2,
}

/// E4M3, scaled so that the largest of some elements is the largest that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct E4m3 {
    /// What has a scale of its own.
    each: Each,
    /// Whether elements are divided by it; else they are multiplied by its reciprocal, as the released files' were.
    is_divided: bool,
    /// Whether what they stand for was rounded to the type that the checkpoint has.
    is_stored: bool,
}

/// What has a scale of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Each {
    /// A block of 128 × 128.
    Block,
    /// A block of 32 × 32.
    Small,
    /// The tensor.
    Tensor,
    /// A row.
    Row,
    /// 128 channels of a row.
    Group,
    /// The same, by a scale that is a power of two.
    GroupPower,
}

/// 4-bit integers by groups of input channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int4 {
    /// Input channels that have a scale of their own.
    group: usize,
    /// Whether they are from 0 to 15, the least and the largest of a group among them; else the largest is 7.
    is_from_zero: bool,
    /// Whether their products with scales were rounded to the type that the checkpoint has.
    is_stored: bool,
}

/// E2M1 with powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mxfp4 {
    /// Input channels that have a scale of their own.
    group: usize,
    /// Whether the scale is the least by which no element is beyond the largest there is; else, as OCP's specification has it, the
    /// largest element has the largest power of two there is, and is cut where it is beyond.
    is_wide: bool,
}

impl Grid {
    /// Those of eight bits.
    pub fn eight_bits() -> impl Iterator<Item = Grid> {
        let ways = [(false, false), (false, true), (true, false), (true, true)];
        let of = move |each| ways.map(|(is_divided, is_stored)| Grid::E4m3(E4m3 { each, is_divided, is_stored }));
        [Each::Block, Each::Tensor, Each::Row]
            .into_iter()
            .flat_map(of)
            .chain([Grid::Mxfp8, Grid::Int8])
            .chain(Grid::PLAIN)
    }

    /// Those that any tensor may have.
    pub fn all() -> impl Iterator<Item = Grid> {
        Grid::eight_bits().chain([Grid::Bf16, Grid::F16])
    }

    /// Those of eight bits, and bf16 and f16, that activations may have: by rows, or by 128 channels of them, first.
    pub fn of_activations() -> impl Iterator<Item = Grid> {
        let of = |each| [false, true].map(|is_divided| Grid::E4m3(E4m3 { each, is_divided, is_stored: true }));
        let each = [Each::Row, Each::Group, Each::GroupPower, Each::Tensor, Each::Block];
        let others = [Grid::Mxfp8, Grid::Int8, Grid::Int8Tensor, Grid::Bf16, Grid::F16];
        each.into_iter().flat_map(of).chain(others).chain(Grid::PLAIN)
    }

    /// Those of eight bits without a scale.
    const PLAIN: [Grid; 2] = [Grid::PlainE4m3, Grid::PlainE5m2];

    /// Groups of input channels that have a scale of their own.
    const GROUPS: [usize; 6] = [4, 8, 16, 32, 64, 128];

    /// 4-bit integers and numbers of matrices with so many input channels, and what else is rarer than eight bits by rows and blocks.
    pub fn of_few_bits(columns: usize) -> impl Iterator<Item = Grid> {
        let powers = MXFP4
            .into_iter()
            .flat_map(|group| [false, true].map(|is_wide| (Grid::Mxfp4(Mxfp4 { group, is_wide }), group)));
        let numbers = powers.chain([(Grid::Nvfp4, NVFP4)]);
        let numbers = numbers.filter(move |(_, group)| columns.is_multiple_of(*group)).map(|(grid, _)| grid);
        let small = |is_stored| Grid::E4m3(E4m3 { each: Each::Small, is_divided: true, is_stored });
        Grid::of_four_bits(columns).chain(numbers).chain([Grid::Int8Columns]).chain([false, true].map(small))
    }

    /// 4-bit integers.
    fn of_four_bits(columns: usize) -> impl Iterator<Item = Grid> {
        let groups = Grid::GROUPS.into_iter().filter(move |group| columns.is_multiple_of(*group));
        let ways = [(false, false), (false, true), (true, false), (true, true)];
        let of = move |group| ways.map(|(is_from_zero, is_stored)| Grid::Int4(Int4 { group, is_from_zero, is_stored }));
        groups.flat_map(of)
    }

    pub(in crate::diagnose) fn round(self, w: &Matrix<'_>) -> Matrix<'static> {
        let scheme = |name| Quantization::released(name).expect("a scheme that is known");
        match self {
            Grid::E4m3(how) => how.round(w, &scheme("fp8")),
            Grid::Mxfp8 => quantized(w, &scheme("mxfp8")),
            Grid::Bf16 => stored(w, Storage::Bf16),
            Grid::F16 => stored(w, Storage::F16),
            Grid::PlainE4m3 => stored(w, Storage::E4m3),
            Grid::PlainE5m2 => stored(w, Storage::E5m2),
            Grid::Int4(how) => how.round(w),
            Grid::Int8Columns => {
                let turned = Matrix::stored(w.dense::<f64>().t(), w.storage());
                Matrix::stored(Grid::Int8.round(&turned).dense::<f64>().t(), Storage::F32)
            }
            Grid::Mxfp4(how) => by_groups(w, how.group, w.storage(), |group| to_e2m1(group, how.scale(group))),
            Grid::Nvfp4 => {
                let whole = in_f32(largest(w) / (Storage::E4m3.largest() * E2M1[7]));
                by_groups(w, NVFP4, w.storage(), |group| {
                    let scale = Storage::E4m3.nearest(in_f32(in_f32(most(group) / E2M1[7]) / whole));
                    to_e2m1(group, in_f32(scale * whole));
                })
            }
            Grid::Int8 => by_groups(w, w.dim().1, Storage::F32, |group| symmetric(group, 127.0)),
            Grid::Int8Tensor => {
                let mut rounded: Array2<f64> = w.dense();
                symmetric(rounded.as_slice_mut().expect("a dense matrix"), 127.0);
                Matrix::stored(rounded.view(), Storage::F32)
            }
        }
    }
}

impl E4m3 {
    fn round(self, w: &Matrix<'_>, released: &Quantization) -> Matrix<'static> {
        let block = match self.each {
            Each::Block => released.block,
            Each::Small => SMALL,
            Each::Tensor => w.dim(),
            Each::Row => (1, w.dim().1),
            Each::Group | Each::GroupPower => (1, CHANNELS),
        };
        let powers = self.each == Each::GroupPower;
        let storage = if self.is_stored { w.storage() } else { Storage::F32 };
        if !self.is_divided {
            let rounded = quantized(w, &Quantization { block, powers, ..released.clone() });
            return if self.is_stored { Matrix::stored(rounded.dense::<f64>().view(), storage) } else { rounded };
        }
        let mut rounded: Array2<f64> = w.dense();
        for mut rows in rounded.axis_chunks_iter_mut(Axis(0), block.0) {
            for mut of_block in rows.axis_chunks_iter_mut(Axis(1), block.1) {
                let largest = of_block.iter().fold(0.0, |most: f64, w| most.max(w.abs()));
                let scale = in_f32(largest / Storage::E4m3.largest());
                let scale = if powers { scale.log2().ceil().exp2() } else { scale };
                of_block.mapv_inplace(|w| scaled(w, [scale; 2]));
            }
        }
        Matrix::stored(rounded.view(), storage)
    }
}

impl Mxfp4 {
    /// The largest power of two in E2M1 is 2².
    fn scale(self, group: &[f64]) -> f64 {
        let power = if self.is_wide { (most(group) / E2M1[7]).log2().ceil() } else { most(group).log2().floor() - 2.0 };
        power.exp2()
    }
}

impl Int4 {
    fn round(self, w: &Matrix<'_>) -> Matrix<'static> {
        let storage = if self.is_stored { w.storage() } else { Storage::F32 };
        let round = if self.is_from_zero { from_zero } else { up_to_seven };
        by_groups(w, self.group, storage, round)
    }
}

fn stored(w: &Matrix<'_>, storage: Storage) -> Matrix<'static> {
    Matrix::stored(w.dense::<f64>().mapv(|w| storage.nearest(w)).view(), w.storage())
}

/// Each group of so many input channels rounded.
fn by_groups(w: &Matrix<'_>, channels: usize, storage: Storage, round: impl Fn(&mut [f64])) -> Matrix<'static> {
    let mut rounded: Array2<f64> = w.dense();
    for mut row in rounded.rows_mut() {
        row.as_slice_mut().expect("a dense row").chunks_mut(channels).for_each(&round);
    }
    Matrix::stored(rounded.view(), storage)
}

/// What f32 computes.
fn in_f32(x: f64) -> f64 {
    Storage::F32.nearest(x)
}

/// The largest size in a group.
fn most(group: &[f64]) -> f64 {
    group.iter().fold(0.0, |most, w| most.max(w.abs()))
}

/// To integers, of which the largest size is `largest`.
fn symmetric(group: &mut [f64], largest: f64) {
    let scale = in_f32(most(group) / largest);
    if scale > 0.0 {
        for w in group {
            *w = in_f32(scale * in_f32(*w / scale).round_ties_even().clamp(-largest - 1.0, largest));
        }
    }
}

/// To E2M1 by a scale, ties to the even fraction.
fn to_e2m1(group: &mut [f64], scale: f64) {
    let nearest = |x: f64| {
        let above = E2M1.iter().position(|e| *e >= x).unwrap_or(7);
        let below = above.saturating_sub(1);
        let (down, up) = (x - E2M1[below], E2M1[above] - x);
        if down < up || down == up && below.is_multiple_of(2) { E2M1[below] } else { E2M1[above] }
    };
    if scale > 0.0 {
        for w in group {
            *w = in_f32(scale * nearest((*w / scale).abs()).copysign(*w));
        }
    }
}

fn up_to_seven(group: &mut [f64]) {
    symmetric(group, 7.0);
}

/// To 0 … 15 less the number that stands for 0.
fn from_zero(group: &mut [f64]) {
    let (least, most) = group.iter().fold((0.0, 0.0), |(a, b), w| (f64::min(a, *w), f64::max(b, *w)));
    let scale = in_f32(in_f32(most - least) / 15.0);
    if scale > 0.0 {
        let zero = in_f32(-least / scale).round_ties_even().clamp(0.0, 15.0);
        let round = |w: f64| (in_f32(w / scale).round_ties_even() + zero).clamp(0.0, 15.0) - zero;
        for w in group {
            *w = in_f32(scale * round(*w));
        }
    }
}

/// The largest size of an element.
pub(super) fn largest(w: &Matrix<'_>) -> f64 {
    w.dense::<f64>().iter().fold(0.0, |most, w| most.max(w.abs()))
}

/// E4M3 by a scale, times another; `stored` says whether in the type that the checkpoint has.
pub(super) fn to_e4m3(w: &Matrix<'_>, [by, times]: [f64; 2], stored: bool) -> Matrix<'static> {
    let scales = [in_f32(by), in_f32(times)];
    let round = |w: f64| scaled(w, scales);
    Matrix::stored(w.dense::<f64>().mapv(round).view(), if stored { w.storage() } else { Storage::F32 })
}

/// An element in E4M3 by a scale, times another.
fn scaled(w: f64, [by, times]: [f64; 2]) -> f64 {
    if by > 0.0 { in_f32(Storage::E4m3.nearest(in_f32(w / by)) * times) } else { w }
}

fn quantized(w: &Matrix<'_>, how: &Quantization) -> Matrix<'static> {
    quantize(w.dense().view(), how).matrix(w.dim(), how)
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grid::E4m3(E4m3 { each: Each::Block, .. }) => "E4M3 by blocks of 128 × 128",
            Grid::E4m3(E4m3 { each: Each::Small, .. }) => "E4M3 by blocks of 32 × 32",
            Grid::E4m3(E4m3 { each: Each::Tensor, .. }) => "E4M3 with one scale",
            Grid::E4m3(E4m3 { each: Each::Row, .. }) => "E4M3 with a scale a row",
            Grid::E4m3(E4m3 { each: Each::Group, .. }) => "E4M3 with a scale for each 128 channels of a row",
            Grid::E4m3(E4m3 { each: Each::GroupPower, .. }) => {
                "E4M3 with a power of two for each 128 channels of a row"
            }
            Grid::Mxfp8 => "E4M3 by blocks of 1 × 32 with powers of two",
            Grid::Int8 => "8-bit integers by rows",
            Grid::Int8Tensor => "8-bit integers with one scale",
            Grid::Int8Columns => "8-bit integers by columns",
            Grid::Mxfp4(Mxfp4 { group: 32, .. }) => "E2M1 by groups of 32 with powers of two, as MXFP4 is",
            Grid::Mxfp4(Mxfp4 { group, .. }) => {
                return write!(f, "E2M1 by groups of {group} with powers of two, as MXFP4 is but for their size");
            }
            Grid::Nvfp4 => "E2M1 by groups of 16 with scales in E4M3, as NVFP4 is",
            Grid::Int4(Int4 { group, is_from_zero, .. }) => {
                let range = if *is_from_zero { "from 0 to 15" } else { "up to 7" };
                return write!(f, "4-bit integers {range} by groups of {group}");
            }
            Grid::Bf16 => "bf16",
            Grid::F16 => "f16",
            Grid::PlainE4m3 => "E4M3 without a scale",
            Grid::PlainE5m2 => "E5M2 without a scale",
        })
    }
}
