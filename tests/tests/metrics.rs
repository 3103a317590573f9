//! `tools/src/compare/metrics.rs`.

use tools::compare::kind::Kind;
use tools::compare::metrics::{Elements, Metrics, metrics};

const TYPES: [Kind; 3] = [Kind::F32, Kind::F16, Kind::Bf16];

/// So many elements of a type; every ninth is a zero of this sign.
fn elements(kind: Kind, count: usize, zero: f32) -> Vec<u8> {
    let value = |i: usize| if i.is_multiple_of(9) { zero } else { (i * 37 % 1013) as f32 / 64.0 - 7.0 };
    let stored = |i: usize| match kind {
        Kind::F16 => half::f16::from_f32(value(i)).to_le_bytes().to_vec(),
        Kind::Bf16 => half::bf16::from_f32(value(i)).to_le_bytes().to_vec(),
        _ => value(i).to_le_bytes().to_vec(),
    };
    (0..count).flat_map(stored).collect()
}

fn found(kind: Kind, a: &[u8], b: &[u8]) -> Metrics {
    metrics(Elements { bytes: a, kind }, Elements { bytes: b, kind }).expect("there are as many")
}

/// Bytes that are the same are looked at in another way than zeros of either sign, which are the same numbers.
#[test]
fn the_same_bytes_and_the_same_numbers_have_the_same_figures() {
    for kind in TYPES {
        for count in [0, 1, 15, 4096, 10_007] {
            let (plus, minus) = (elements(kind, count, 0.0), elements(kind, count, -0.0));
            let same = found(kind, &plus, &plus);
            assert_eq!(same, found(kind, &minus, &plus), "{kind:?}, {count}");
            assert_eq!((same.unequal, same.max_absolute, same.snr), (0, 0.0, None), "{kind:?}, {count}");
        }
    }
}

/// An infinity in bytes that are the same is counted in both.
#[test]
fn the_same_bytes_may_hold_what_is_no_number() {
    let mut bytes = elements(Kind::F32, 5000, 0.0);
    bytes[4 * 11..][..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    bytes[4 * 4500..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let same = found(Kind::F32, &bytes, &bytes);
    assert_eq!((same.infinite, same.nan), ([1, 1], [1, 1]));
    assert_eq!((same.unequal, same.first_unequal), (1, Some(4500)));
}
