//! Quantized weights, and what they are in bf16.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, concatenate};
use optimized::device::Gpu;
use optimized::weight::Quantized;
use reference::Storage;
use reference::matrix::{Encoding, Matrix, Scales};

use crate::values::Draw;

/// How a weight is quantized: rows and columns of a block, and the type of its scales.
pub type Scheme = ((usize, usize), Encoding);

/// As M2.7 and M3 are released, and in smaller blocks.
pub const SCHEMES: [Scheme; 4] =
    [((128, 128), Encoding::F32), ((1, 32), Encoding::E8m0), ((16, 16), Encoding::F32), ((48, 64), Encoding::E8m0)];

/// A weight of any finite codes, and of scales of several magnitudes; so many rows of its first blocks lie above it.
pub fn weight(seed: u64, dim: (usize, usize), (block, encoding): Scheme, above: usize) -> Matrix<'static> {
    let mut draw = Draw::new(seed);
    let finite = |code: u8| if code & 0x7f == 0x7f { code - 1 } else { code };
    let elements: Vec<u8> = (0..dim.0 * dim.1).map(|_| finite(draw.bits16().to_le_bytes()[0])).collect();
    let of_scales = Scales::count(dim, block, above);
    let drawn = Array2::from_shape_simple_fn(of_scales, || {
        let power = i32::try_from(draw.below(9)).expect("below 9") - 12;
        f64::from(1.0 + draw.signed_unit() / 2.0) * 2.0_f64.powi(power)
    });
    let values = Matrix::new(of_scales, encoding, encoding.narrow(drawn.iter().copied())).expect("one for each block");
    let elements = Matrix::new(dim, Encoding::E4m3, elements).expect("a byte each");
    elements.scaled(Scales { block, above, values }).expect("every block has a scale")
}

/// Some, one below the other, on a device as they are stored.
pub fn stored(gpu: &Gpu, parts: &[Matrix<'_>]) -> Quantized {
    Quantized::stacked(gpu, parts).expect("memory").expect("the kernels take them so")
}

/// The same in bf16, as the host rounds.
pub fn in_bf16(parts: &[Matrix<'_>]) -> Array2<bf16> {
    let rounded = |part: &Matrix<'_>| part.view().held_in(Storage::Bf16).dense::<f32>().mapv(bf16::from_f32);
    let all: Vec<Array2<bf16>> = parts.iter().map(rounded).collect();
    let views: Vec<ArrayView2<'_, bf16>> = all.iter().map(|part| part.view()).collect();
    concatenate(Axis(0), &views).expect("of one width")
}
