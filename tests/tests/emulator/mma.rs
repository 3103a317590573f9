//! The emulated tensor core against its definition, to the bit.

use std::sync::LazyLock;

use half::bf16;
use ndarray::{Array2, ArrayView2};
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::error::Error;
use optimized::kernel::{Kernel, Sources};
use proptest::prelude::*;
use tests::device::{Argument, Grid, address, emulated, launch};
use tests::tensor_core::{STEP, step};
use tests::values::Draw;

/// The kernels and their text.
pub(crate) const SOURCE: (Kernel, &str) = (KERNEL, include_str!("mma.cu"));

const KERNEL: Kernel = Kernel { op: "mma", entries: &["multiply"], constants: &[] };

/// Rows of a and of b.
const ROWS: usize = 16;

/// The device with the kernel, which is compiled once.
fn device() -> &'static Gpu {
    static DEVICE: LazyLock<Gpu> = LazyLock::new(|| {
        let gpu = emulated(Form::Fast);
        let sources = Sources::embedded().with("mma.cu", SOURCE.1);
        gpu.replace(&KERNEL, &sources).unwrap_or_else(|error| panic!("{error}"));
        gpu
    });
    &DEVICE
}

/// c + a·bᵀ for a, b \[16, 16\] and c \[16, 16\].
fn multiply(
    gpu: &Gpu,
    a: ArrayView2<'_, bf16>,
    b: ArrayView2<'_, bf16>,
    c: ArrayView2<'_, f32>,
) -> Result<Array2<f32>, Error> {
    let (a, b, c) = (gpu.upload(a)?, gpu.upload(b)?, gpu.upload(c)?);
    let grid = Grid { blocks: (1, 1), threads: 32, shared_bytes: 1024 };
    launch(gpu, &KERNEL, "multiply", grid, &[address(&a), address(&b), address(&c)].map(Argument::Address))?;
    gpu.download(&c)
}

/// Demands that the device computes what the definition says.
fn check(gpu: &Gpu, a: &Array2<bf16>, b: &Array2<bf16>, c: &Array2<f32>) -> Result<(), TestCaseError> {
    let got = multiply(gpu, a.view(), b.view(), c.view()).map_err(|error| TestCaseError::fail(error.to_string()))?;
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
    assert_eq!(multiply(gpu, zeros.view(), zeros.view(), c.view()).expect("no fault"), c);
    let negative_zeros = Array2::from_elem((ROWS, ROWS), -0.0_f32);
    let got = multiply(gpu, zeros.view(), zeros.view(), negative_zeros.view()).expect("no fault");
    assert!(got.iter().all(|value| value.to_bits() == 0));
}
