//! Models whose weights were altered, and what is said of them.

use fixtures::checkpoint::memory::MemoryWeights;
use ndarray::Array2;
use reference::RoundingContract;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use tests::mistaken::Setting;
use tests::seen::{Seen, modules};
use tools::diagnose::diagnosis::{Diagnosis, Explained};

/// A case of M2.
pub(super) fn setting(bf16: bool) -> Setting {
    if bf16 {
        Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16)
    } else {
        Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32)
    }
}

/// A projection of an expert.
pub(super) const fn expert(layer: usize, expert: usize, projection: Projection) -> Weight {
    Weight::Layer(layer, LayerWeight::Expert(expert, projection))
}

/// Puts what `f` makes of a weight in its place, in the type that it is stored in.
pub(super) fn map(weights: &mut MemoryWeights, weight: Weight, f: impl FnOnce(Array2<f64>) -> Array2<f64>) {
    let (values, storage) = {
        let matrix = weights.get(weight).expect("it is there");
        (matrix.dense(), matrix.storage())
    };
    weights.insert(weight, f(values).view(), storage);
}

/// Puts one weight in the place of another.
pub(super) fn exchange(weights: &mut MemoryWeights, a: Weight, b: Weight) {
    let [of_a, of_b] = [a, b].map(|weight| weights.get(weight).expect("it is there").dense::<f64>());
    map(weights, a, |_| of_b);
    map(weights, b, |_| of_a);
}

/// What is said where all sites are shown, and where modules' are.
pub(super) fn diagnoses(setting: &Setting, change: impl Fn(&mut MemoryWeights)) -> [Diagnosis; 2] {
    let live = setting.changed(|_, weights| change(weights));
    [setting.diagnose(&live), setting.diagnose(&Seen { live: &live, shows: modules, value: |_, value| value })]
}

/// The one mistake that leaves nothing unexplained, which is told so, first or among its equals.
pub(super) fn told(diagnosis: &Diagnosis, name: &str, way: &str) -> Explained {
    let [explained] = &diagnosis.explained[..] else { panic!("{diagnosis:#?}") };
    assert!(diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty(), "{diagnosis:#?}");
    let first = explained.name == name && explained.way.starts_with(way);
    let equal = explained.equivalent.iter().any(|other| other.starts_with(&format!("{name} ({way}")));
    assert!(
        first || equal,
        "{} ({}), {:?}: expected {name} ({way}",
        explained.name,
        explained.way,
        explained.equivalent
    );
    let [before, under] = explained.reproduced.expect("values were counted");
    assert!(under.equal > before.equal, "{explained:#?}");
    explained.clone()
}
