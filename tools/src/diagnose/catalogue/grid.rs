//! What weights are rounded to.

use std::fmt;

use fixtures::quantize::quantize;
use ndarray::Array2;
use reference::Storage;
use reference::config::Quantization;
use reference::matrix::Matrix;

/// What values are rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// E4M3, scaled so that the largest of each 128 × 128 block is the largest that there is.
    E4m3,
    /// E4M3 with one scale for the tensor.
    E4m3Tensor,
    /// E4M3 with a power of two for each 32 input channels.
    Mxfp8,
    /// 8-bit integers, scaled so that the largest of each row is 127.
    Int8,
    /// bf16.
    Bf16,
    /// f16.
    F16,
}

impl Grid {
    /// Every one.
    pub const ALL: [Grid; 6] = [Grid::E4m3, Grid::E4m3Tensor, Grid::Mxfp8, Grid::Int8, Grid::Bf16, Grid::F16];

    pub(super) fn round(self, w: &Matrix<'_>) -> Matrix<'static> {
        let scheme = |name| Quantization::released(name).expect("a scheme that is known");
        match self {
            Grid::E4m3 => quantized(w, &scheme("fp8")),
            Grid::E4m3Tensor => quantized(w, &Quantization { block: w.dim(), ..scheme("fp8") }),
            Grid::Mxfp8 => quantized(w, &scheme("mxfp8")),
            Grid::Bf16 => stored(w, Storage::Bf16),
            Grid::F16 => stored(w, Storage::F16),
            Grid::Int8 => {
                let mut rounded: Array2<f64> = w.dense();
                for mut row in rounded.rows_mut() {
                    let scale = row.fold(0.0, |most: f64, w| most.max(w.abs())) / 127.0;
                    if scale > 0.0 {
                        row.mapv_inplace(|w| scale * (w / scale).round_ties_even());
                    }
                }
                Matrix::stored(rounded.view(), Storage::F32)
            }
        }
    }
}

fn stored(w: &Matrix<'_>, storage: Storage) -> Matrix<'static> {
    Matrix::stored(w.dense::<f64>().mapv(|w| storage.nearest(w)).view(), w.storage())
}

fn quantized(w: &Matrix<'_>, how: &Quantization) -> Matrix<'static> {
    quantize(w.dense().view(), how).matrix(w.dim(), how)
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grid::E4m3 => "E4M3 by blocks of 128 × 128",
            Grid::E4m3Tensor => "E4M3 with one scale",
            Grid::Mxfp8 => "E4M3 by blocks of 1 × 32 with powers of two",
            Grid::Int8 => "8-bit integers by rows",
            Grid::Bf16 => "bf16",
            Grid::F16 => "f16",
        })
    }
}
