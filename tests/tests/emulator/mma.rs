//! The emulated tensor core against its definition, and against MMA-Sim's model of several, to the bit.

use std::sync::LazyLock;

use fixtures::formats::safetensors::header;
use half::bf16;
use ndarray::{Array2, Array3, ArrayView2, Axis};
use optimized::device::Gpu;
use optimized::emulated::{Form, TensorCores, with_tensor_cores};
use optimized::error::Error;
use optimized::kernel::{Kernel, Sources};
use optimized::tensor::Element;
use proptest::prelude::*;
use tests::device::{Argument, Grid, address, emulated, launch};
use tests::repository;
use tests::tensor_core::{STEP, step};
use tests::values::Draw;

/// The kernels, of each type of factors.
pub(crate) const KERNELS: [Kernel; 3] =
    [kernel(&[("FACTORS", 0)]), kernel(&[("FACTORS", 1)]), kernel(&[("FACTORS", 2)])];

/// Their text.
pub(crate) const SOURCE: &str = include_str!("mma.cu");

const fn kernel(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "mma", entries: &["multiply"], constants }
}

/// Rows of a and of b.
const ROWS: usize = 16;
/// Bytes of such a row.
const BYTES: usize = 32;

/// The device with the kernels, which are compiled once.
fn device() -> &'static Gpu {
    static DEVICE: LazyLock<Gpu> = LazyLock::new(|| {
        let gpu = emulated(Form::Fast);
        let sources = Sources::embedded().with("mma.cu", SOURCE);
        for kernel in &KERNELS {
            gpu.replace(kernel, &sources).unwrap_or_else(|error| panic!("{error}"));
        }
        gpu
    });
    &DEVICE
}

/// c + a·bᵀ for a, b \[16, 32 bytes\] and c \[16, 16\].
fn multiply<T: Element>(
    gpu: &Gpu,
    kernel: &Kernel,
    [a, b]: [ArrayView2<'_, T>; 2],
    c: ArrayView2<'_, f32>,
) -> Result<Array2<f32>, Error> {
    let (a, b, c) = (gpu.upload(a)?, gpu.upload(b)?, gpu.upload(c)?);
    let grid = Grid { blocks: (1, 1), threads: 32, shared_bytes: 1024 };
    launch(gpu, kernel, "multiply", grid, &[address(&a), address(&b), address(&c)].map(Argument::Address))?;
    gpu.download(&c)
}

/// Demands that the device computes what the definition says.
fn check(gpu: &Gpu, a: &Array2<bf16>, b: &Array2<bf16>, c: &Array2<f32>) -> Result<(), TestCaseError> {
    let got = multiply(gpu, &KERNELS[0], [a.view(), b.view()], c.view())
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let row = |matrix: &Array2<bf16>, i| <[bf16; STEP]>::try_from(matrix.row(i).to_vec()).expect("16 columns");
    for ((i, j), &got) in got.indexed_iter() {
        let want = step(&row(a, i), &row(b, j), c[[i, j]]);
        prop_assert_eq!(got.to_bits(), want.to_bits(), "[{}, {}]: {:e} against {:e}", i, j, got, want);
    }
    Ok(())
}

/// bf16 with exponents from −`spread` to `spread` around 0, and zeros.
fn spread(draw: &mut Draw, spread: u64) -> bf16 {
    if draw.below(8) == 0 {
        return bf16::ZERO;
    }
    let exponent = i32::try_from(draw.below(2 * spread + 1)).expect("small") - i32::try_from(spread).expect("small");
    bf16::from_f32(draw.signed_unit() * 2.0_f32.powi(exponent))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// From values of one magnitude, where nothing is truncated, to values of which most are.
    #[test]
    fn ordinary_values(seed: u64, width in 0..30_u64) {
        let gpu = device();
        let mut draw = Draw::new(seed);
        for _ in 0..8 {
            let mut factors = || Array2::from_shape_simple_fn((ROWS, STEP), || spread(&mut draw, width));
            let (a, b) = (factors(), factors());
            let c = Array2::from_shape_simple_fn((ROWS, ROWS), || {
                f32::from(spread(&mut draw, 2 * width)) * (1.0 + draw.signed_unit() / 256.0)
            });
            check(gpu, &a, &b, &c)?;
        }
    }

    /// Any bits at all: subnormals, infinities, NaN, and exponents at both ends.
    #[test]
    fn any_bits(seed: u64) {
        let gpu = device();
        let mut draw = Draw::new(seed);
        for _ in 0..8 {
            let mut factors = || Array2::from_shape_simple_fn((ROWS, STEP), || bf16::from_bits(draw.bits16()));
            let (a, b) = (factors(), factors());
            let c = Array2::from_shape_simple_fn((ROWS, ROWS), || f32::from_bits(draw.bits32()));
            check(gpu, &a, &b, &c)?;
        }
    }

    /// Without infinities and NaN, but near the ends of the range, where products vanish or overflow.
    #[test]
    fn values_at_the_ends_of_the_range(seed: u64, exponent in prop_oneof![0..40_u16, 100..154_u16, 200..254_u16]) {
        let gpu = device();
        let mut draw = Draw::new(seed);
        for _ in 0..8 {
            let mut near = || {
                let field = exponent + u16::try_from(draw.below(2)).expect("0 or 1");
                bf16::from_bits(field << 7 | draw.bits16() & 0x807f)
            };
            let a = Array2::from_shape_simple_fn((ROWS, STEP), &mut near);
            let b = Array2::from_shape_simple_fn((ROWS, STEP), &mut near);
            let mut small = Draw::new(!seed);
            let c = Array2::from_shape_simple_fn((ROWS, ROWS), || {
                [0.0, -0.0, 1e-45, 1e-38, 1.0, 3e38][usize::try_from(small.below(6)).expect("below 6")]
            });
            check(gpu, &a, &b, &c)?;
        }
    }
}

/// c·1 + 0 is c, for every pattern that a chain of steps can leave; a zero has no sign.
#[test]
fn zero_products_leave_the_accumulator() {
    let gpu = device();
    let zeros = Array2::from_elem((ROWS, STEP), bf16::ZERO);
    let c = Array2::from_shape_fn((ROWS, ROWS), |(i, j)| {
        (i as f32 - 8.0) * 1.000_001_f32.powi(i32::try_from(j).expect("small"))
    });
    assert_eq!(multiply(gpu, &KERNELS[0], [zeros.view(); 2], c.view()).expect("no fault"), c);
    let negative_zeros = Array2::from_elem((ROWS, ROWS), -0.0_f32);
    let got = multiply(gpu, &KERNELS[0], [zeros.view(); 2], negative_zeros.view()).expect("no fault");
    assert!(got.iter().all(|value| value.to_bits() == 0));
}

/// What the instructions of each generation make of operands of all ranges, by MMA-Sim's model, which was held against the hardware
/// bit for bit (`tools/oracle/make_instructions.py`).
#[test]
fn instructions_are_those_of_mma_sim() {
    let of_files = [
        ("hopper-bf16", TensorCores::Hopper, 0),
        ("hopper-f16", TensorCores::Hopper, 1),
        ("hopper-e4m3", TensorCores::Hopper, 2),
        ("ampere-bf16", TensorCores::Ada, 0),
        ("ampere-f16", TensorCores::Ada, 1),
        ("ada-e4m3", TensorCores::Ada, 2),
    ];
    let gpu = device();
    for (name, generation, kernel) in of_files {
        let path = repository::path(&format!("fixtures/golden-instructions/{name}.safetensors"));
        let bytes = std::fs::read(&path).expect("it is there");
        let entries = header(&path, &bytes).expect("it is whole").entries;
        let tensor = |name: &str| {
            let entry = entries.iter().find(|entry| entry.name == name).expect("it is there");
            bytes[entry.range.clone()].to_vec()
        };
        let [a, b] = ["a", "b"].map(|name| {
            let values = tensor(name);
            Array3::from_shape_vec((values.len() / (ROWS * BYTES), ROWS, BYTES), values).expect("tiles")
        });
        let [c, d] = ["c", "d"].map(|name| {
            let of_bytes = |four: &[u8; 4]| f32::from_le_bytes(*four);
            let values: Vec<f32> = tensor(name).as_chunks().0.iter().map(of_bytes).collect();
            Array3::from_shape_vec((a.dim().0, ROWS, ROWS), values).expect("a tile for each")
        });
        assert!(a.dim().0 >= 16, "{name}");
        for tile in 0..a.dim().0 {
            let of = |x: &Array3<u8>| x.index_axis(Axis(0), tile).to_owned();
            let (a, b, c) = (of(&a), of(&b), c.index_axis(Axis(0), tile));
            let factors = [a.view(), b.view()];
            let got = with_tensor_cores(generation, || multiply(gpu, &KERNELS[kernel], factors, c)).expect("no fault");
            for ((at, got), want) in got.indexed_iter().zip(d.index_axis(Axis(0), tile)) {
                assert_eq!(got.to_bits(), want.to_bits(), "{name} tile {tile} {at:?}: {got:e} against {want:e}");
            }
        }
    }
}
