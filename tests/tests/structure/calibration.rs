//! A run that is one more of those in other orders has a probability of at most α with a probability of at most α: in all rows, in
//! those of an expert, which err otherwise than others do, in a head and in a column, and where tokens read keys of one another.

use std::collections::BTreeMap;

use fixtures::golden::Golden;
use ndarray::{Array2, Axis};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::config::Config;
use reference::{LayerSite, Real, Site, Storage};
use tools::judge::significance::Structures;
use tools::judge::structure::{Group, Shown, Structure};

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
    is_known: bool,
    /// Of keys that tokens read of one another, how many are others in each of the runs, the candidate's first.
    read: Option<Vec<usize>>,
}

impl Drawn {
    fn new(config: &Config, rng: &mut ChaCha8Rng) -> Self {
        Drawn::apart(config, rng, 1.0)
    }

    /// With a candidate whose sums are drawn apart so many times as far, by roundings that nobody knows.
    fn apart(config: &Config, rng: &mut ChaCha8Rng, times: f64) -> Self {
        let experts = Array2::from_shape_fn((TOKENS, 1), |(token, _)| token % EXPERTS);
        let exact = Array2::from_shape_simple_fn((TOKENS, HEADS * config.head_dim), || rng.random_range(-1.0..1.0));
        let stored = |x: f64| Storage::Bf16.nearest(x);
        let runs = (0..=REPLAYS).map(|run| {
            let times = if run == 0 { times } else { 1.0 };
            let mut run: Array2<f64> = exact.clone();
            for (mut row, expert) in run.rows_mut().into_iter().zip(&experts) {
                let width = times * WIDTHS[*expert] * Storage::Bf16.spacing(0.5);
                row.mapv_inplace(|x| stored(x + width * rng.random_range(-1.0..1.0)));
            }
            run
        });
        Drawn { runs: runs.collect(), own: exact.mapv(stored), experts, is_known: times == 1.0, read: None }
    }

    /// Where each token's key is another in so many runs of 1, and moves some of the values of all tokens from its own on: each such
    /// key as many as it likes, up to twenty times what another does.
    fn reading(config: &Config, rng: &mut ChaCha8Rng, often: f64) -> Self {
        let mut drawn = Drawn { is_known: false, ..Drawn::new(config, rng) };
        let read = drawn.runs.iter_mut().map(|run| {
            run.assign(&drawn.own);
            let others: Vec<usize> = (0..TOKENS).filter(|_| rng.random_bool(often)).collect();
            for key in &others {
                let moves = 0.005 * 20_f64.powf(rng.random());
                for token in *key..TOKENS {
                    let moved =
                        |x: &mut f64| *x += if rng.random_bool(moves) { Storage::Bf16.spacing(*x) } else { 0.0 };
                    run.row_mut(token).iter_mut().for_each(moved);
                }
            }
            others.len()
        });
        drawn.read = Some(read.collect());
        drawn
    }

    /// Each token so many times.
    fn repeated(&self, times: usize) -> Self {
        let tokens: Vec<usize> = (0..times * TOKENS).map(|row| row % TOKENS).collect();
        Drawn {
            own: self.own.select(Axis(0), &tokens),
            runs: self.runs.iter().map(|run| run.select(Axis(0), &tokens)).collect(),
            experts: self.experts.select(Axis(0), &tokens),
            is_known: self.is_known,
            read: self.read.clone(),
        }
    }

    /// What is looked at where the first of the runs is the candidate.
    fn looked_at(&self, config: &Config) -> Vec<Structure> {
        let mut structures = Structures::default();
        let shown = Shown {
            site: SITE,
            own: &self.own,
            candidate: &self.runs[0],
            replays: self.runs[1..].iter().map(|run| run.mapv(f32::of)).collect(),
            storage: Storage::Bf16,
            is_known: self.is_known,
            read: self.read.as_ref().map(|read| read[1..].to_vec()),
            way: &[],
            tokens: self.own.nrows(),
            experts: Some(&self.experts),
        };
        structures.add(config, &shown);
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

/// Probabilities that are said, by kind, in so many draws.
fn probabilities(drawn: impl Fn(&Config, &mut ChaCha8Rng) -> Drawn) -> BTreeMap<String, Vec<f64>> {
    let (config, mut rng) = (config(), ChaCha8Rng::seed_from_u64(1));
    let mut probabilities: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for draw in 0..DRAWS {
        let mut of_draw: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for structure in drawn(&config, &mut rng).looked_at(&config) {
            of_draw.entry(kind(&structure)).or_default().push(structure.probability);
        }
        // One of each kind, so that those that are counted are independent.
        for (kind, of_kind) in of_draw {
            probabilities.entry(kind).or_default().push(of_kind[draw % of_kind.len()]);
        }
    }
    probabilities
}

/// Of each kind, as many are as small as that says, or fewer.
fn require_calibrated(probabilities: &BTreeMap<String, Vec<f64>>) {
    require_no_less_probable(probabilities);
    for (kind, of_kind) in probabilities {
        let small = of_kind.iter().filter(|probability| **probability <= 0.5).count();
        assert!(small > DRAWS / 100, "{kind}: {small} of {DRAWS} have 0.5 or less: nothing was looked at");
    }
}

/// Of each kind, no more are as small as that says.
fn require_no_less_probable(probabilities: &BTreeMap<String, Vec<f64>>) {
    for (kind, of_kind) in probabilities {
        assert_eq!(of_kind.len(), DRAWS, "{kind}");
        for alpha in [0.1, 0.01, 0.001] {
            let expected = alpha * DRAWS as f64;
            let seen = of_kind.iter().filter(|probability| **probability <= alpha).count();
            // Five standard deviations, and as many more, of so few that they are no normal number.
            let most = expected + 5.0 * expected.sqrt() + 5.0;
            assert!(seen as f64 <= most, "{kind}: {seen} of {DRAWS} have {alpha} or less, expected at most {most:.0}");
        }
    }
}

#[test]
fn a_right_run_is_as_improbable_as_is_said() {
    let probabilities = probabilities(Drawn::new);
    assert_eq!(probabilities.len(), 2 * (1 + EXPERTS) + 2 + 1, "{:?}", probabilities.keys());
    require_calibrated(&probabilities);
}

/// Gains alone are looked at there.
#[test]
fn a_right_run_of_unknown_roundings_is_no_less_probable() {
    let probabilities = probabilities(|config, rng| Drawn::apart(config, rng, 3.0));
    assert_eq!(probabilities.len(), 1 + EXPERTS + 1, "{:?}", probabilities.keys());
    require_calibrated(&probabilities);
}

/// Tokens do not err independently: that few keys are others is one chance for all of them.
#[test]
fn a_right_run_whose_keys_are_others_is_no_less_probable() {
    for often in [1.0 / 200.0, 1.0 / 30.0, 1.0 / 8.0, 0.5] {
        let probabilities = probabilities(|config, rng| Drawn::reading(config, rng, often));
        assert_eq!(probabilities.len(), 1 + 1 + EXPERTS + 1, "{:?}", probabilities.keys());
        require_no_less_probable(&probabilities);
    }
}

/// One percent, where roundings of a bf16 are an eighth of that.
#[test]
fn a_gain_behind_unknown_roundings_is_seen() {
    let (config, mut rng) = (config(), ChaCha8Rng::seed_from_u64(3));
    for _ in 0..20 {
        let mut drawn = Drawn::apart(&config, &mut rng, 3.0);
        drawn.runs[0].mapv_inplace(|x| Storage::Bf16.nearest(1.01 * x));
        let all = drawn.looked_at(&config).into_iter().find(|one| one.of == Group::All).expect("all are looked at");
        assert!(all.gain.is_some_and(|gain| (0.008..0.012).contains(&gain)) && all.probability < 1e-6, "{all:?}");
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
