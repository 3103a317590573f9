//! The released models' numbers, as their repositories on the hub have them (spec C1, C2).

use tools::claims::hyperparameters::{Hyperparameters, Releases};
use tools::claims::memory::BF16;
use tools::claims::parameters::Part;
use tools::claims::sizing::Sizing;

fn bytes(stored: f64) -> u64 {
    format!("{stored:.0}").parse().expect("a whole number")
}

#[test]
fn parameters_and_bytes_are_those_of_the_files() {
    let Releases { m27, m3 } = Releases::read();
    for (model, parameters, stored) in
        [(&m27, 228_689_764_864, 230_121_630_720), (&m3, 427_040_140_160, 443_742_085_120)]
    {
        assert_eq!(model.total(), parameters);
        assert_eq!(bytes(model.stored()), stored);
    }
}

/// Spec A8.
#[test]
fn the_cache_by_hand() {
    let Releases { m27, m3 } = Releases::read();
    assert_eq!(m27.cache_of_token(BF16), 253_952.0);
    assert_eq!(m3.cached_values() * BF16, 122_880.0);
    assert_eq!(m3.cached_index_keys() * BF16, 14_592.0);
    assert_eq!(m3.cache_of_token(BF16), 137_472.0);
}

/// Every part of each model, by the equations that its shapes follow from.
#[test]
fn parts_by_hand() {
    let Releases { m27, m3 } = Releases::read();
    let of = |model: &Hyperparameters, parts: &[(Part, usize)]| {
        for (part, parameters) in parts {
            assert_eq!(model.part(*part), *parameters, "{part}");
        }
        assert_eq!(parts.iter().map(|(_, parameters)| parameters).sum::<usize>(), model.total());
    };
    let (h, v) = (3072, 200_064);
    of(
        &m27,
        &[
            (Part::Embedding, v * h),
            (Part::Attention, 62 * (2 * 6144 * h + 2 * 1024 * h + 6144 + 1024)),
            (Part::Router, 62 * (256 * h + 256)),
            (Part::RoutedExperts, 62 * 256 * 3 * h * 1536),
            (Part::Norms, (2 * 62 + 1) * h),
            (Part::LmHead, v * h),
        ],
    );
    let (h, c) = (6144, 1280);
    let vit_layer = 4 * (c * c + c) + (c * 5120 + 5120) + (5120 * c + c) + 4 * c;
    of(
        &m3,
        &[
            (Part::Embedding, v * h),
            (Part::Attention, 60 * (2 * 8192 * h + 2 * 512 * h + 2 * 128)),
            (Part::Index, 57 * (512 * h + 128 * h + 2 * 128)),
            (Part::Router, 57 * (128 * h + 128)),
            (Part::RoutedExperts, 57 * 128 * 3 * h * 3072),
            (Part::SharedExperts, 57 * 3 * h * 3072),
            (Part::Dense, 3 * 3 * h * 12288),
            (Part::Norms, (2 * 60 + 1) * h),
            (Part::LmHead, v * h),
            (Part::VisionTower, c * 3 * 2 * 14 * 14 + 2 * c + 32 * vit_layer),
            (Part::Projector, (c * h + h) + 2 * (h * h + h) + (4 * h * h + h)),
        ],
    );
    assert_eq!(m27.active_in_layers(), m27.total() - 2 * v * 3072 - 62 * 248 * 3 * 3072 * 1536);
}

#[test]
fn parts_that_a_model_lacks_are_left_out() {
    let m27 = Sizing::of(&Releases::read().m27, 1000);
    assert_eq!(m27.parameters.len(), 6);
    assert_eq!(m27.operations.len(), 5);
    assert_eq!(m27.cache.index_of_token, 0.0);
}
