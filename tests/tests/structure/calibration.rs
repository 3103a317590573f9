//! A run that is one more of those in other orders has a probability of at most α with a probability of at most α: in all rows, in
//! those of an expert, which err otherwise than others do, in a head and in a column.

use std::collections::BTreeMap;

use fixtures::golden::Golden;
use ndarray::{Array2, Axis};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::config::Config;
use reference::{LayerSite, Site, Storage};
use tools::judge::structure::{Group, Shown, Structure, Structures};

const SITE: Site = Site::Layer(0, LayerSite::QProj);
const TOKENS: usize = 12;
const EXPERTS: usize = 3;
const HEADS: usize = 2;

/// Draws of the candidate with its replays, of which there are as many as the judge makes.
const DRAWS: usize = 4000;
const REPLAYS: usize = 11;

/// How far sums are drawn apart in the rows of each expert, in distances of neighbours: from rows of which one value in a run is
/// another to rows of which half of them are.
const WIDTHS: [f64; EXPERTS] = [0.005, 0.05, 0.5];

fn config() -> Config {
    let case = Golden::embedded().case("m2-gqa3-f32").expect("it is built in");
    case.checkpoint().expect("it is whole").config().clone()
}

/// Values at a site: the twin's, those of runs whose sums are drawn anew each time, and the expert of each token.
struct Drawn {
    own: Array2<f64>,
    runs: Vec<Array2<f64>>,
    experts: Array2<usize>,
}

impl Drawn {
    fn new(config: &Config, rng: &mut ChaCha8Rng) -> Self {
        let experts = Array2::from_shape_fn((TOKENS, 1), |(token, _)| token % EXPERTS);
        let exact = Array2::from_shape_simple_fn((TOKENS, HEADS * config.head_dim), || rng.random_range(-1.0..1.0));
        let stored = |x: f64| Storage::Bf16.nearest(x);
        let runs = (0..=REPLAYS).map(|_| {
            let mut run: Array2<f64> = exact.clone();
            for (mut row, expert) in run.rows_mut().into_iter().zip(&experts) {
                let width = WIDTHS[*expert] * Storage::Bf16.spacing(0.5);
                row.mapv_inplace(|x| stored(x + width * rng.random_range(-1.0..1.0)));
            }
            run
        });
        Drawn { runs: runs.collect(), own: exact.mapv(stored), experts }
    }

    /// Each token so many times.
    fn repeated(&self, times: usize) -> Self {
        let tokens: Vec<usize> = (0..times * TOKENS).map(|row| row % TOKENS).collect();
        Drawn {
            own: self.own.select(Axis(0), &tokens),
            runs: self.runs.iter().map(|run| run.select(Axis(0), &tokens)).collect(),
            experts: self.experts.select(Axis(0), &tokens),
        }
    }

    /// What is looked at where the first of the runs is the candidate.
    fn looked_at(&self, config: &Config) -> Vec<Structure> {
        let mut structures = Structures::default();
        let shown = Shown {
            site: SITE,
            own: &self.own,
            candidate: &self.runs[0],
            replays: self.runs[1..].iter().collect(),
            storage: Storage::Bf16,
            is_known: true,
            way: &[],
            tokens: self.own.nrows(),
            experts: Some(&self.experts),
        };
        structures.add(config, shown);
        structures.looked_at().map(|(_, structure)| structure).collect()
    }
}

/// What is counted together: the kind of a group, and whether it is a gain; experts apart, whose rows differ.
fn kind(structure: &Structure) -> String {
    let group = match structure.of {
        Group::Head(_) => "in a head".to_owned(),
        Group::Channel(_) => "in a channel".to_owned(),
        of => format!("{of:?}"),
    };
    format!("{group}, {}", if structure.gain.is_some() { "gain" } else { "other values" })
}

#[test]
fn a_right_run_is_as_improbable_as_is_said() {
    let (config, mut rng) = (config(), ChaCha8Rng::seed_from_u64(1));
    let mut probabilities: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for draw in 0..DRAWS {
        let mut of_draw: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for structure in Drawn::new(&config, &mut rng).looked_at(&config) {
            of_draw.entry(kind(&structure)).or_default().push(structure.probability);
        }
        // One of each kind, so that those that are counted are independent.
        for (kind, of_kind) in of_draw {
            probabilities.entry(kind).or_default().push(of_kind[draw % of_kind.len()]);
        }
    }
    assert_eq!(probabilities.len(), 2 * (1 + EXPERTS) + 2 + 1, "{:?}", probabilities.keys());
    for (kind, of_kind) in &probabilities {
        assert_eq!(of_kind.len(), DRAWS, "{kind}");
        for alpha in [0.1, 0.01, 0.001] {
            let expected = alpha * DRAWS as f64;
            let seen = of_kind.iter().filter(|probability| **probability <= alpha).count();
            // Five standard deviations, and as many more, of so few that they are no normal number.
            let most = expected + 5.0 * expected.sqrt() + 5.0;
            assert!(seen as f64 <= most, "{kind}: {seen} of {DRAWS} have {alpha} or less, expected at most {most:.0}");
        }
        let small = of_kind.iter().filter(|probability| **probability <= 0.5).count();
        assert!(small > DRAWS / 100, "{kind}: {small} of {DRAWS} have 0.5 or less: nothing was looked at");
    }
}

/// Its rows are the same in every run, so that they say the same again.
#[test]
fn a_repeated_token_counts_once() {
    let (config, mut rng) = (config(), ChaCha8Rng::seed_from_u64(2));
    for _ in 0..20 {
        let drawn = Drawn::new(&config, &mut rng);
        assert_eq!(drawn.repeated(3).looked_at(&config), drawn.looked_at(&config));
    }
}
