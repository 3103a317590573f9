//! Encodings: how the numbers of a stored matrix are written as bytes. No other file reads or writes such bytes.

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
}

/// The encoding that holds every value of a storage type; values that are not rounded are stored in f32.
impl From<Storage> for Encoding {
    fn from(storage: Storage) -> Self {
        match storage {
            Storage::Real | Storage::F32 => Encoding::F32,
            Storage::F16 => Encoding::F16,
            Storage::Bf16 => Encoding::Bf16,
        }
    }
}

impl Encoding {
    /// The storage type whose values it holds.
    pub fn storage(self) -> Storage {
        match self {
            Encoding::F32 => Storage::F32,
            Encoding::F16 => Storage::F16,
            Encoding::Bf16 => Storage::Bf16,
        }
    }

    /// Bytes of so many elements; `None` if there is no such number.
    pub fn bytes_of(self, elements: usize) -> Option<usize> {
        elements.checked_mul(match self {
            Encoding::F32 => 4,
            Encoding::F16 | Encoding::Bf16 => 2,
        })
    }

    /// The `out.len()` elements that `bytes` hold, exactly where T holds them, else rounded to nearest.
    pub fn widen<T: Real>(self, bytes: &[u8], out: &mut [T]) {
        match self {
            Encoding::F32 => decode(bytes, out, |b: [u8; 4]| T::of(f64::from(f32::from_le_bytes(b)))),
            Encoding::F16 => decode(bytes, out, |b: [u8; 2]| T::of(half::f16::from_le_bytes(b).to_f64())),
            Encoding::Bf16 => decode(bytes, out, |[a, b]: [u8; 2]| {
                T::of(f64::from(f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << 16)))
            }),
        }
    }

    /// The bytes of values, each rounded to nearest.
    #[expect(clippy::cast_possible_truncation, reason = "a rounded value is one of f32, too")]
    pub fn narrow(self, values: impl IntoIterator<Item = f64>) -> Vec<u8> {
        let rounded = values.into_iter().map(|x| self.storage().nearest(x) as f32);
        match self {
            Encoding::F32 => rounded.flat_map(f32::to_le_bytes).collect(),
            Encoding::F16 => rounded.flat_map(|x| half::f16::from_f32_const(x).to_le_bytes()).collect(),
            Encoding::Bf16 => rounded
                .flat_map(|x| {
                    let [_, _, high @ ..] = x.to_le_bytes();
                    high
                })
                .collect(),
        }
    }
}

fn decode<const N: usize, T>(bytes: &[u8], out: &mut [T], element: impl Fn([u8; N]) -> T) {
    let (elements, rest) = bytes.as_chunks();
    debug_assert!(rest.is_empty() && elements.len() == out.len());
    for (out, &bytes) in out.iter_mut().zip(elements) {
        *out = element(bytes);
    }
}
