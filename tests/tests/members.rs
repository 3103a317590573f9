//! Runs that measure a floor, side by side and one after another.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use reference::config::Config;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::models::decoder::Decoder;
use reference::weights::{Weight, Weights};
use reference::{RoundingContract, Semantics, Site};
use tests::memory::{Memory, tiny};
use tests::mistaken::computed;
use tests::seen::Seen;
use tools::judge::lens::Lens;
use tools::judge::verdict::SiteReport;
use tools::judge::verification::Verification;

/// Weights that know who asks for them.
struct Asked {
    weights: Memory,
    by: Mutex<HashSet<ThreadId>>,
}

impl Weights for Asked {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        self.by.lock().expect("free").insert(thread::current().id());
        self.weights.get(weight)
    }
}

/// What is said of a right candidate in bf16 whose layers are as wide as those that runs go through together, and how many threads ran it.
fn judged() -> (Vec<SiteReport>, usize) {
    let config = Config { hidden_size: 1024, ..tiny() };
    let weights = Asked { weights: Memory::random(&config, 3), by: Mutex::default() };
    let steps: [Vec<u32>; 1] = [(0..9).map(|i| i * 7 % 40).collect()];
    let model = Decoder::new(&config, Semantics::DOCUMENTS, &weights).expect("a model");
    let live = computed(&model, &steps[0], RoundingContract::EAGER_BF16);
    weights.by.lock().expect("free").clear();
    let candidate = Seen { live: &live, shows: |_| true, value: |_: Site, value| value };
    let verification = Verification {
        model: &model,
        candidate: &candidate,
        contract: RoundingContract::EAGER_BF16,
        steps: &steps,
        prompt: steps[0].len(),
        lenses: &[Lens::Layer, Lens::Global],
        layers: 0..config.num_hidden_layers,
        keep: None,
    };
    let sites = verification.run(|| ()).expect("it can be put next to the reference").sites;
    let asked = weights.by.lock().expect("free").len();
    (sites, asked)
}

/// On a worker, which others wait for, runs go alone. Roundings are drawn by values, so that the last digits of sums make other runs of
/// them: these differ from one another by tenths.
#[test]
fn together_or_alone_floors_are_the_same() {
    let (together, threads) = judged();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    let (alone, one) = pool.install(judged);
    assert!(threads > 12 && one <= 2, "{threads} threads and {one}");
    assert_eq!(together.len(), alone.len());
    let mut measured = 0;
    for (together, alone) in together.iter().zip(&alone) {
        assert_eq!((together.site, together.verdict), (alone.site, alone.verdict));
        let (Some(a), Some(b)) = (together.floor, alone.floor) else { continue };
        if b == 0.0 {
            assert!(a == 0.0, "{}: {a}", alone.site);
            continue;
        }
        measured += 1;
        assert!(a < 1.5 * b && b < 1.5 * a, "{}: {a} and {b}", alone.site);
    }
    assert!(measured > 3, "{measured} of {}", alone.len());
}
