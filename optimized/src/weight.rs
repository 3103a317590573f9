//! Weights of products on a device, as they are stored: in bf16, or quantized.

use cudarc::driver::{DevicePtr, DeviceRepr};
use half::bf16;
use ndarray::Array2;
use reference::contract::{Encoding, Matrix as Stored, Quantization, Scales as BlockScales, Storage, require};

use crate::device::Gpu;
use crate::error::Error;
use crate::tensor::{Element, Matrix};

/// A weight \[m, k\] on the device that made it.
#[derive(Debug)]
pub enum WeightMatrix {
    /// In bf16.
    Bf16(Matrix<bf16>),
    /// In E4M3, with a scale for each block.
    Quantized(Quantized),
}

impl From<Matrix<bf16>> for WeightMatrix {
    fn from(matrix: Matrix<bf16>) -> Self {
        Self::Bf16(matrix)
    }
}

impl From<Quantized> for WeightMatrix {
    fn from(quantized: Quantized) -> Self {
        Self::Quantized(quantized)
    }
}

/// A weight in E4M3 as a checkpoint has it: a byte a value, and the scales of its blocks. Kernels take q·s in f32 and round it to
/// bf16, where it is multiplied.
#[derive(Debug)]
pub struct Quantized {
    elements: Matrix<u8>,
    scales: Scales,
    /// The row of the scales of each row \[1, m\].
    scale_rows: Matrix<i32>,
    /// A scale is that of 2 to the power of it columns.
    block_bits: i32,
}

/// Scales, a row for each row of blocks.
#[derive(Debug)]
enum Scales {
    F32(Matrix<f32>),
    /// Exponents of powers of two, as a byte less 127.
    E8m0(Matrix<u8>),
}

/// Values that a thread of a kernel dequantizes by one scale.
const PIECE_BITS: u32 = 4;

impl Quantized {
    /// Quantized weights of equal width, one below the other, as they are stored; none of others: where one is not in E4M3, or
    /// held in another type than bf16, where scales are not all of one type, or their blocks not of one width, which must be a power
    /// of two and at least 16.
    pub fn stacked(gpu: &Gpu, parts: &[Stored<'_>]) -> Result<Option<Self>, Error> {
        let Some((first, columns)) = parts.first().and_then(|part| Some((part.scales()?, part.dim().1))) else {
            return Ok(None);
        };
        let (width, kind) = (first.block.1, first.values.encoding());
        let fits = width.is_power_of_two() && width.ilog2() >= PIECE_BITS;
        let alike = |part: &Stored<'_>| {
            let scales = part.scales().is_some_and(|it| it.block.1 == width && it.values.encoding() == kind);
            scales && part.encoding() == Encoding::E4m3 && [Storage::F32, Storage::Bf16].contains(&part.storage())
        };
        if !fits || ![Encoding::F32, Encoding::E8m0].contains(&kind) || !parts.iter().all(alike) {
            return Ok(None);
        }
        for part in parts {
            require(part.dim().1 == columns, "weight K1", "columns", part.dim().1, format!("those above, {columns}"))?;
        }
        let scales = || parts.iter().filter_map(Stored::scales);
        let mut scale_rows = Vec::new();
        let mut above = 0;
        for (part, scales) in parts.iter().zip(scales()) {
            scale_rows.extend((0..part.dim().0).map(|row| above + (scales.above + row) / scales.block.0));
            above += scales.values.dim().0;
        }
        let narrow = scale_rows.into_iter().map(|row| i32::try_from(row).expect("fewer than the rows, below 2³¹"));
        let scale_columns = columns.div_ceil(width);
        Ok(Some(Quantized {
            elements: uploaded(gpu, columns, parts.iter().map(Stored::bytes).collect::<Vec<_>>().concat())?,
            scales: if kind == Encoding::E8m0 {
                let bytes: Vec<&[u8]> = scales().map(|scales| scales.values.bytes()).collect();
                Scales::E8m0(uploaded(gpu, scale_columns, bytes.concat())?)
            } else {
                let values = scales().flat_map(|scales| scales.values.dense::<f32>().into_raw_vec_and_offset().0);
                Scales::F32(uploaded(gpu, scale_columns, values.collect())?)
            },
            scale_rows: gpu.upload_row(narrow)?,
            block_bits: width.ilog2().cast_signed(),
        }))
    }

    /// A weight whose elements are `codes` over and over, or none where it is never read, in blocks whose scales are all 2 to the
    /// power of `scale`: for timing, not for computing. Columns of a block are a power of two, at least 16.
    pub fn repeated(
        gpu: &Gpu,
        dim: (usize, usize),
        (how, scale): (&Quantization, i8),
        codes: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let of_scales = BlockScales::count(dim, how.block, 0);
        let scale = f32::from(scale).exp2();
        let rows_of_scales = (0..dim.0).map(|row| i32::try_from(row / how.block.0).expect("below 2³¹"));
        Ok(Quantized {
            elements: codes.map_or_else(|| gpu.uninitialised(dim), |codes| gpu.repeated(dim, codes))?,
            scales: if how.powers {
                Scales::E8m0(gpu.repeated(of_scales, &Encoding::E8m0.narrow([f64::from(scale)]))?)
            } else {
                Scales::F32(gpu.repeated(of_scales, &[scale])?)
            },
            scale_rows: gpu.upload_row(rows_of_scales)?,
            block_bits: how.block.1.ilog2().cast_signed(),
        })
    }
}

fn uploaded<T: Element>(gpu: &Gpu, columns: usize, values: Vec<T>) -> Result<Matrix<T>, Error> {
    let rows = values.len() / columns;
    let values = Array2::from_shape_vec((rows, columns), values).expect("whole rows");
    gpu.upload(values.view())
}

/// A weight that is to be read.
#[derive(Debug, Clone, Copy)]
pub enum WeightView<'a> {
    /// In bf16.
    Bf16(&'a Matrix<bf16>),
    /// In E4M3, with a scale for each block.
    Quantized(&'a Quantized),
}

impl<'a> From<&'a Matrix<bf16>> for WeightView<'a> {
    fn from(matrix: &'a Matrix<bf16>) -> Self {
        Self::Bf16(matrix)
    }
}

impl<'a> From<&'a Quantized> for WeightView<'a> {
    fn from(quantized: &'a Quantized) -> Self {
        Self::Quantized(quantized)
    }
}

impl<'a> From<&'a WeightMatrix> for WeightView<'a> {
    fn from(weight: &'a WeightMatrix) -> Self {
        match weight {
            WeightMatrix::Bf16(matrix) => Self::Bf16(matrix),
            WeightMatrix::Quantized(quantized) => Self::Quantized(quantized),
        }
    }
}

impl WeightView<'_> {
    /// Rows and columns.
    pub fn dim(self) -> (usize, usize) {
        match self {
            Self::Bf16(matrix) => matrix.dim(),
            Self::Quantized(quantized) => quantized.elements.dim(),
        }
    }

    /// Whether it is in E4M3.
    pub fn is_quantized(self) -> bool {
        matches!(self, Self::Quantized(_))
    }

    /// What is given to a kernel of such weights.
    pub(crate) fn argument(self, label: &'static str) -> Result<Argument, Error> {
        match self {
            Self::Bf16(matrix) => {
                Ok(Argument { values: address(matrix), ld: ld(label, matrix)?, ..Argument::default() })
            }
            Self::Quantized(Quantized { elements, scales, scale_rows, block_bits }) => {
                let (scales, scale_ld, scale_bytes) = match scales {
                    Scales::F32(scales) => (address(scales), ld(label, scales)?, 4),
                    Scales::E8m0(scales) => (address(scales), ld(label, scales)?, 1),
                };
                let (values, ld) = (address(elements), ld(label, elements)?);
                let (scale_rows, block_bits) = (address(scale_rows), *block_bits);
                Ok(Argument { values, scales, scale_rows, ld, scale_ld, block_bits, scale_bytes })
            }
        }
    }
}

/// `Weight` of `weights.cuh`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Argument {
    values: u64,
    scales: u64,
    scale_rows: u64,
    ld: i32,
    scale_ld: i32,
    block_bits: i32,
    scale_bytes: i32,
}

#[expect(unsafe_code, reason = "a type that kernels take")]
// SAFETY: the fields are the kernels', in their order.
unsafe impl DeviceRepr for Argument {}

fn address<T>(matrix: &Matrix<T>) -> u64 {
    matrix.data().device_ptr(matrix.data().stream()).0
}

fn ld<T>(label: &'static str, matrix: &Matrix<T>) -> Result<i32, Error> {
    let narrow = i32::try_from(matrix.ld());
    require(narrow.is_ok(), label, "ld(w)", matrix.ld(), "below 2³¹")?;
    Ok(narrow.unwrap_or(i32::MAX))
}
