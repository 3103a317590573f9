//! Encodings: how the numbers of a stored matrix are written as bytes. No other file reads or writes such bytes.

use multiversion::multiversion;

use super::eight_bits;
use crate::{Real, Storage};

/// How a matrix's elements are stored, each by itself, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// Four bits of exponent, three of significand, no infinity; up to 448.
    E4m3,
    /// A power of two from 2⁻¹²⁷ to 2¹²⁷: the scale of a block.
    E8m0,
}

/// The encoding that holds every value of a storage type; values that are not rounded are stored in f32.
impl From<Storage> for Encoding {
    fn from(storage: Storage) -> Self {
        match storage {
            Storage::Real | Storage::F32 | Storage::Tf32(_) => Encoding::F32,
            Storage::F16 | Storage::E5m2 => Encoding::F16,
            Storage::Bf16 => Encoding::Bf16,
            Storage::E4m3 => Encoding::E4m3,
        }
    }
}

impl Encoding {
    /// A storage type that has each of its values.
    pub fn storage(self) -> Storage {
        match self {
            Encoding::F32 => Storage::F32,
            Encoding::F16 => Storage::F16,
            Encoding::Bf16 | Encoding::E8m0 => Storage::Bf16,
            Encoding::E4m3 => Storage::E4m3,
        }
    }

    /// Bytes of so many elements; `None` if there is no such number.
    pub fn bytes_of(self, elements: usize) -> Option<usize> {
        elements.checked_mul(match self {
            Encoding::F32 => 4,
            Encoding::F16 | Encoding::Bf16 => 2,
            Encoding::E4m3 | Encoding::E8m0 => 1,
        })
    }

    /// The `out.len()` elements that `bytes` hold, exactly where T holds them, else rounded to nearest.
    pub fn widen<T: Real>(self, bytes: &[u8], out: &mut [T]) {
        match self {
            Encoding::F32 => decode(bytes, out, |b: [u8; 4]| T::of(f64::from(f32::from_le_bytes(b)))),
            Encoding::F16 => decode(bytes, out, |b: [u8; 2]| T::of(half::f16::from_le_bytes(b).to_f64())),
            Encoding::Bf16 => widen_bf16(bytes, out),
            Encoding::E4m3 => widen_e4m3(bytes, out),
            Encoding::E8m0 => decode(bytes, out, |[bits]: [u8; 1]| T::of(eight_bits::power(bits))),
        }
    }

    /// The bytes of values, each rounded to nearest; in eight bits, to ±448 beyond that, and up to a power of two.
    #[expect(clippy::cast_possible_truncation, reason = "a rounded value is one of f32, too")]
    pub fn narrow(self, values: impl IntoIterator<Item = f64>) -> Vec<u8> {
        if self == Encoding::E8m0 {
            return values.into_iter().map(eight_bits::byte_of_power).collect();
        }
        let rounded = values.into_iter().map(|x| self.storage().nearest(x) as f32);
        match self {
            Encoding::F32 => rounded.flat_map(f32::to_le_bytes).collect(),
            Encoding::F16 => rounded.flat_map(|x| half::f16::from_f32_const(x).to_le_bytes()).collect(),
            Encoding::E4m3 => rounded.map(|x| eight_bits::e4m3(f64::from(x))).collect(),
            Encoding::Bf16 | Encoding::E8m0 => rounded
                .flat_map(|x| {
                    let [_, _, high @ ..] = x.to_le_bytes();
                    high
                })
                .collect(),
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn widen_bf16<T: Real>(bytes: &[u8], out: &mut [T]) {
    for (out, &bits) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = T::of(f64::from(f32::from_bits(u32::from(u16::from_le_bytes(bits)) << 16)));
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn widen_e4m3<T: Real>(bytes: &[u8], out: &mut [T]) {
    // In f32 first, in which more are decoded at a time than T may have.
    let ((parts, rest), (of_parts, of_rest)) = (bytes.as_chunks::<16>(), out.as_chunks_mut::<16>());
    for (out, bytes) in of_parts.iter_mut().zip(parts) {
        let mut values = [0.0_f32; 16];
        values.iter_mut().zip(bytes).for_each(|(value, &bits)| *value = eight_bits::number(bits));
        out.iter_mut().zip(values).for_each(|(out, value)| *out = T::of(f64::from(value)));
    }
    for (out, &bits) in of_rest.iter_mut().zip(rest) {
        *out = T::of(f64::from(eight_bits::number(bits)));
    }
}

fn decode<const N: usize, T>(bytes: &[u8], out: &mut [T], element: impl Fn([u8; N]) -> T) {
    let (elements, rest) = bytes.as_chunks();
    debug_assert!(rest.is_empty() && elements.len() == out.len());
    for (out, &bytes) in out.iter_mut().zip(elements) {
        *out = element(bytes);
    }
}
