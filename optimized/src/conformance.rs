//! What each instruction gives on a device, bit for bit: `simt.cuh`'s, and the collectives that kernels use.
//!
//! A process drives one driver, so a GPU and the emulated device are put next to each other by what each of them gave.

use cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg};
use half::bf16;
use ndarray::{Array2, ArrayView2};

use crate::device::Gpu;
use crate::emulated;
use crate::error::Error;
use crate::kernel::Sources;
use crate::kernel::instructions::INSTRUCTIONS;
use crate::tensor::{Element, Matrix};

/// The text of [`INSTRUCTIONS`].
pub const SOURCE: &str = include_str!("conformance/instructions.cu");

/// Values that are rounded to bf16.
const ROUNDED: usize = 4096;
/// Products of 16 × 16 of each kind.
const PRODUCTS: usize = 64;
/// Rows and columns of one.
const TILE: usize = 16;
/// Products of each kind of a warpgroup, and their rows and columns.
const OF_WARPGROUPS: usize = 8;
const WARPGROUP: (usize, usize) = (64, 128);

/// What an instruction gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Which, and of what.
    pub name: String,
    /// Everything that it wrote.
    pub bits: Vec<u32>,
}

/// Factors and accumulators of products.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Exponents from −e to e, an eighth of them zeros.
    Spread(i32),
    /// Of one sign, so that what is truncated adds up.
    Positive,
    /// Whole numbers up to 15, whose sums are exact.
    Whole,
    /// Products that are subnormal, or vanish, in f32; where exponents are too few for that, of subnormal factors.
    Tiny,
    /// Any bits at all: infinities and NaN among them.
    Any,
}

/// How a factor's bits are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Format {
    /// Bits of the exponent.
    exponent: u32,
    /// Bits of the significand.
    fraction: u32,
}

/// Factors of products: their names, the entries that multiply them, and from which compute capability on there are such.
const FORMATS: [(&str, &str, Format, (i32, i32)); 3] = [
    ("bf16", "multiply", Format { exponent: 8, fraction: 7 }, (8, 0)),
    ("f16", "multiply_f16", Format { exponent: 5, fraction: 10 }, (8, 0)),
    ("e4m3", "multiply_e4m3", Format { exponent: 4, fraction: 3 }, (8, 9)),
];

const KINDS: [(Kind, &str); 7] = [
    (Kind::Whole, "whole numbers"),
    (Kind::Spread(1), "exponents to 1"),
    (Kind::Spread(8), "exponents to 8"),
    (Kind::Spread(30), "exponents to 30"),
    (Kind::Positive, "one sign"),
    (Kind::Tiny, "subnormal products"),
    (Kind::Any, "any bits"),
];

/// Makes [`INSTRUCTIONS`] ready on a device.
pub fn load(gpu: &Gpu) -> Result<(), Error> {
    match gpu.form().and_then(|form| emulated::image(&INSTRUCTIONS, form)) {
        Some(image) => gpu.replace_by_image(&INSTRUCTIONS, image),
        None => gpu.replace(&INSTRUCTIONS, &Sources::embedded().with(&INSTRUCTIONS.file(), SOURCE)),
    }
}

/// Runs each instruction that the device has, on inputs that are the same everywhere.
pub fn given(gpu: &Gpu) -> Result<Vec<Given>, Error> {
    load(gpu)?;
    let mut all = Vec::new();
    let alone = [
        ("indices", ((3, 2), 64), (2 * 3 * 64, 8)),
        ("shuffles", ((1, 1), 32), (32, 8)),
        ("votes", ((1, 1), 32), (32, 16)),
        ("block_votes", ((1, 1), 96), (12, 32)),
        ("barriers", ((1, 1), 128), (32, 8)),
        ("matrices", ((1, 1), 32), (32, 16)),
        ("e4m3_pairs", ((1, 1), 32), (64, 8)),
    ];
    for (entry, grid, dim) in alone {
        let out = gpu.zeros::<i32>(dim)?;
        launch(gpu, entry, grid, &[address(&out)], None)?;
        all.push(named(
            match entry {
                "matrices" => "ldmatrix, plain and transposed",
                "barriers" => "barrier.sync",
                "e4m3_pairs" => "E4M3 to f32, in pairs",
                other => other,
            },
            words(gpu, &out)?,
        ));
    }
    all.push(copies(gpu)?);
    all.push(atomics(gpu)?);
    all.push(rounding(gpu)?);
    for (name, entry, format, from) in FORMATS {
        let of = Products { entry, blocks: PRODUCTS, threads: 32, dim: (TILE, TILE) };
        for (kind, what) in KINDS.into_iter().filter(|_| gpu.capability() >= from) {
            all.push(named(&format!("mma {name}, {what}"), products(gpu, &of, format, kind)?));
        }
    }
    let of = Products { entry: "multiply_by_warpgroup", blocks: OF_WARPGROUPS, threads: 128, dim: WARPGROUP };
    for (kind, what) in KINDS.into_iter().filter(|_| gpu.has_warpgroups()) {
        all.push(named(&format!("wgmma bf16, {what}"), products(gpu, &of, FORMATS[0].2, kind)?));
    }
    Ok(all)
}

/// `cp.async` of 0 to 16 bytes.
fn copies(gpu: &Gpu) -> Result<Given, Error> {
    let mut draw = Draw(1);
    let input = gpu.upload(Array2::from_shape_simple_fn((16, 8), || draw.bits().cast_signed()).view())?;
    let out = gpu.zeros::<i32>((16, 8))?;
    launch(gpu, "copies", ((1, 1), 32), &[address(&input), address(&out)], None)?;
    Ok(named("cp.async", words(gpu, &out)?))
}

fn atomics(gpu: &Gpu) -> Result<Given, Error> {
    let start = [0, 100, -100, 0, 0xff, 7, 9, 5];
    let counters = gpu.upload(ArrayView2::from_shape((1, 8), &start).expect("eight"))?;
    let wide = gpu.zeros::<i32>((1, 8))?;
    launch(gpu, "atomics", ((4, 1), 64), &[address(&counters), address(&wide)], None)?;
    Ok(named("atomics", [words(gpu, &counters)?, words(gpu, &wide)?].concat()))
}

/// To bf16, alone and in pairs: any bits, and ties.
fn rounding(gpu: &Gpu) -> Result<Given, Error> {
    let mut draw = Draw(2);
    let value =
        |i: usize, bits: u32| f32::from_bits(if i.is_multiple_of(4) { bits & 0xffff_0000 | 0x8000 } else { bits });
    let values = Array2::from_shape_fn((1, ROUNDED), |(_, i)| value(i, draw.bits()));
    let input = gpu.upload(values.view())?;
    let out = gpu.zeros::<i32>((1, ROUNDED))?;
    let count = i32::try_from(ROUNDED).expect("a small number");
    launch(gpu, "rounding", ((1, 1), 32), &[address(&input), address(&out)], Some(count))?;
    Ok(named("rounding to bf16", words(gpu, &out)?))
}

/// Blocks of products, each of so many threads, rows and columns.
struct Products {
    entry: &'static str,
    blocks: usize,
    threads: u32,
    dim: (usize, usize),
}

/// c + a·bᵀ of one kind.
fn products(gpu: &Gpu, of: &Products, format: Format, kind: Kind) -> Result<Vec<u32>, Error> {
    let mut draw = Draw(3);
    let (rows, cols) = (of.blocks * of.dim.0, of.blocks * of.dim.1);
    let mut factors =
        |count| Array2::from_shape_simple_fn((count, TILE), || bf16::from_bits(kind.word(format, &mut draw)));
    let (a, b) = (gpu.upload(factors(rows).view())?, gpu.upload(factors(cols).view())?);
    let accumulator = || f32::from_bits(kind.accumulator(format, &mut draw));
    let c = gpu.upload(Array2::from_shape_simple_fn((rows, of.dim.1), accumulator).view())?;
    let blocks = u32::try_from(of.blocks).expect("a small number");
    launch(gpu, of.entry, ((blocks, 1), of.threads), &[address(&a), address(&b), address(&c)], None)?;
    Ok(gpu.download(&c)?.iter().map(|c| c.to_bits()).collect())
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn of(self, sign: u32, exponent: i32, fraction: u32) -> u16 {
        let exponent = exponent.clamp(0, 2 * self.bias()).cast_unsigned();
        let sign = sign << (self.exponent + self.fraction);
        u16::try_from(sign | exponent << self.fraction | fraction & ((1 << self.fraction) - 1)).expect("16 bits")
    }

    /// A whole number of few bits.
    fn whole(self, x: i32) -> u16 {
        let sign = u32::from(x < 0);
        match x.unsigned_abs().checked_ilog2() {
            None => 0,
            Some(log) => self.of(sign, self.bias() + log.cast_signed(), x.unsigned_abs() << self.fraction >> log),
        }
    }
}

impl Kind {
    /// As many factors as 16 bits hold.
    fn word(self, format: Format, draw: &mut Draw) -> u16 {
        let one = self.factor(format, draw);
        if format.exponent + format.fraction < 8 { one | self.factor(format, draw) << 8 } else { one }
    }

    /// The bits of a factor.
    fn factor(self, format: Format, draw: &mut Draw) -> u16 {
        let bits = draw.bits();
        let of = |sign: u32, exponent: i32| format.of(sign, exponent, bits >> 16);
        let is_wide = format.exponent == 8;
        match self {
            Kind::Spread(_) if bits.is_multiple_of(8) => 0,
            Kind::Spread(most) => of(bits >> 31, format.bias() + draw.within(most)),
            Kind::Positive => of(0, format.bias() + draw.within(2)),
            Kind::Whole => format.whole((bits % 31).cast_signed() - 15),
            Kind::Tiny => of(bits >> 31, if is_wide { 60 + draw.within(8) } else { draw.within(2) }),
            Kind::Any => u16::try_from(bits >> (31 - format.exponent - format.fraction)).expect("16 bits"),
        }
    }

    /// The bits of an f32.
    fn accumulator(self, format: Format, draw: &mut Draw) -> u32 {
        let bits = draw.bits();
        let of = |exponent: i32| bits & 0x807f_ffff | exponent.cast_unsigned() << 23;
        // A product of factors with the smallest exponent.
        let tiny = if format.exponent == 8 { 9 } else { 127 - 2 * format.bias() };
        match self {
            Kind::Spread(_) if bits.is_multiple_of(8) => 0,
            Kind::Spread(most) => of(127 + draw.within(2 * most)),
            Kind::Positive => of(127 + draw.within(4)) & 0x7fff_ffff,
            Kind::Whole => ((bits % 2001) as f32 - 1000.0).to_bits(),
            Kind::Tiny => of((tiny + draw.within(9)).max(0)),
            Kind::Any => bits,
        }
    }
}

/// Numbers that are the same everywhere (`SplitMix64`).
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ z >> 31) >> 32).expect("32 bits")
    }

    /// From −most to most.
    fn within(&mut self, most: i32) -> i32 {
        let count = 2 * most.cast_unsigned() + 1;
        (self.bits() % count).cast_signed() - most
    }
}

fn named(name: &str, bits: Vec<u32>) -> Given {
    Given { name: name.to_owned(), bits }
}

fn words(gpu: &Gpu, out: &Matrix<i32>) -> Result<Vec<u32>, Error> {
    Ok(gpu.download(out)?.iter().map(|word| word.cast_unsigned()).collect())
}

/// Where the elements of a matrix are.
fn address<T: Element>(matrix: &Matrix<T>) -> u64 {
    matrix.data().device_ptr(matrix.data().stream()).0
}

/// Launches an entry that is given addresses, and a count after them.
fn launch(
    gpu: &Gpu,
    entry: &str,
    (blocks, threads): ((u32, u32), u32),
    addresses: &[u64],
    count: Option<i32>,
) -> Result<(), Error> {
    let function = gpu.function(&INSTRUCTIONS, entry)?;
    let mut launch = gpu.launch(&function);
    for address in addresses {
        launch.arg(address);
    }
    if let Some(count) = &count {
        launch.arg(count);
    }
    let grid_dim = (blocks.0, blocks.1, 1);
    let grid = LaunchConfig { grid_dim, block_dim: (threads, 1, 1), shared_mem_bytes: SHARED_BYTES };
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: each caller gives addresses of matrices that are as large as the entry's comment says, which live on.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} {entry}", INSTRUCTIONS.label()))?;
    Ok(())
}

/// As much as any entry has.
const SHARED_BYTES: u32 = 24 << 10;
