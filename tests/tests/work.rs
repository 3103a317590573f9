//! `tools/src/session/work.rs`: items can be done together or one by one, and yield the same. `tools/src/session/units.rs`: shards
//! have each unit once, and cost about the same.

use std::collections::BTreeSet;
use std::ops::Range;

use fixtures::checkpoint::memory::MemoryWeights;
use ndarray::Array2;
use proptest::collection::vec;
use proptest::prelude::*;
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{LayerSite, RoundingContract, Site, Storage};
use tests::mistaken::{Setting, computed};
use tests::seen::{Seen, modules};
use tools::judge::compared::Compared;
use tools::judge::comparison::Comparison;
use tools::judge::found::Found;
use tools::judge::lens::Lens;
use tools::judge::verdict::SiteReport;
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;
use tools::session::progress::Progress;
use tools::session::units::split;
use tools::session::work::{Item, Stretch, execute, list, stretches};

const LENSES: [Lens; 3] = [Lens::Local, Lens::Layer, Lens::Global];

#[test]
fn neighbouring_items_share_a_run() {
    let item = |request, layer, lens| Item { request, layer, lens };
    let items = [
        item(0, 2, Lens::Local),
        item(1, 0, Lens::Local),
        item(0, 1, Lens::Local),
        item(0, 1, Lens::Local),
        item(0, 4, Lens::Local),
        item(0, 5, Lens::Local),
        item(0, 5, Lens::Global),
    ];
    let stretch = |request, layers, lenses: &[Lens]| Stretch { request, layers, lenses: lenses.to_vec() };
    let want = [
        stretch(0, 1..3, &[Lens::Local]),
        stretch(0, 4..5, &[Lens::Local]),
        stretch(0, 5..6, &[Lens::Local, Lens::Global]),
        stretch(1, 0..1, &[Lens::Local]),
    ];
    assert_eq!(stretches(&items), want);
    assert_eq!(stretches(&[]), []);
}

/// All that is said of sites.
fn told(found: Vec<Found>) -> (Vec<String>, BTreeSet<Site>) {
    let mut all = Found::default();
    for part in found {
        all.add(part);
    }
    let all = all.concluded();
    let text = |report| serde_json::to_string(report).expect("it is plain data");
    (all.sites.iter().map(text).collect(), all.missing)
}

/// One request's items, done together and in parts of so many, from the last to the first.
fn assert_same(comparison: &Comparison<'_>, in_parts_of: usize) -> Vec<SiteReport> {
    let comparisons = [*comparison];
    let layers = 0..comparisons[0].model().expect("it fits").config().num_hidden_layers;
    let items = list(&comparisons, &layers, &LENSES).expect("it can be listed");
    assert_eq!(items.len(), layers.len() * LENSES.len());
    let mut told_of = [0, 0];
    let mut watch = |progress: Progress<'_>| match progress {
        Progress::Begins { steps, .. } => told_of[0] += steps,
        Progress::Step => told_of[1] += 1,
        Progress::Left(_) | Progress::Place(_) | Progress::Note(_) | Progress::Ends => {}
    };
    let together = execute(&comparisons, (&items, &LENSES), "together", &mut watch).expect("it can be done");
    assert!(told_of[0] > 0 && told_of[0] == told_of[1], "{told_of:?}: every step that was announced is told");
    let alone = items
        .chunks(in_parts_of)
        .rev()
        .map(|items| execute(&comparisons, (items, &LENSES), "alone", &mut |_| ()).expect("it can be done").remove(0));
    let alone = told(alone.collect());
    let sites = together[0].clone().concluded().sites;
    let together = told(together);
    assert!(!together.0.is_empty());
    for (alone, together) in alone.0.iter().zip(&together.0) {
        assert_eq!(alone, together);
    }
    assert_eq!((alone.0.len(), alone.1), (together.0.len(), together.1));
    sites
}

/// A case whose layers are of every kind, over a prompt and its decode.
#[test]
fn one_by_one_or_together_items_yield_the_same() {
    let model = Model::open("m3-gqa4-f32").expect("it is built in");
    let case = model.case.as_ref().expect("it is a case");
    let decoded = case.decoded().expect("it can be read").expect("it decodes");
    // Of all steps, some items of each layer together, and of neighbouring layers.
    for (dump, in_parts_of) in [(case.expected().expect("it has values"), 1), (decoded, 5)] {
        let requests = Dumped::of(dump, &Given::default(), &model).expect("it is a dump of the case");
        let [dumped] = &requests[..] else { panic!("{} requests, expected one", requests.len()) };
        let sites = assert_same(&dumped.comparison(&model), in_parts_of);
        assert!(sites.iter().any(|report| report.carried.is_some()), "what a layer carries is told");
    }
}

/// What only all sites together tell, and what one lens finds out for the others: an expert that is a percent larger in a bf16
/// model, of whose choices nothing is shown, converted when it was saved or not.
#[test]
fn what_is_told_of_all_together_is_the_same() {
    let expert = Weight::Layer(1, LayerWeight::Expert(1, Projection::Down));
    for saved in [Storage::Real, Storage::Bf16] {
        let computed_in =
            if saved == Storage::Real { RoundingContract::EAGER_BF16 } else { RoundingContract::EAGER_F32 };
        let contract = RoundingContract { saved, ..computed_in };
        let setting = Setting::of("m2-sharded-bf16", contract);
        let checkpoint = setting.case.checkpoint().expect("it is whole");
        let mut weights = MemoryWeights::copy(checkpoint.config(), &checkpoint).expect("it is whole");
        let larger = checkpoint.get(expert).expect("it is there").dense::<f64>().mapv(|w| 1.01 * w);
        weights.insert(expert, larger.view(), Storage::Bf16);
        let made = Decoder::new(checkpoint.config(), setting.semantics(), &weights).expect("it fits");
        let live = computed(&made, &setting.case.tokens, contract);
        let shows = |site: Site| modules(site) && !matches!(site, Site::Layer(_, LayerSite::GateExperts));
        let value =
            |site: Site, value: Array2<f64>| if site.is_choice() { value } else { value.mapv(|x| saved.nearest(x)) };
        let candidate = Seen { live: &live, shows, value };
        let compared = Compared {
            config: checkpoint.config(),
            weights: &checkpoint,
            semantics: setting.semantics(),
            candidate: &candidate,
            steps: std::slice::from_ref(&setting.case.tokens),
            prompt: setting.case.tokens.len(),
            media: None,
            hidden: None,
        };
        let sites = assert_same(&Comparison::new(compared, contract), 1);
        let has_structure = sites.iter().any(|report| !report.structures.is_empty());
        assert_eq!(has_structure, saved == Storage::Real, "{saved}");
    }
}

proptest! {
    /// Every unit is in exactly one shard, in order; no cut makes the dearest cheaper; and none is empty while another has several.
    #[test]
    fn shards_have_each_unit_once(costs in vec(0_u64..9, 0..8), count in 1_usize..12) {
        let shards = split(&costs, count);
        prop_assert_eq!(shards.len(), count);
        prop_assert_eq!(shards.iter().cloned().flatten().collect::<Vec<usize>>(), (0..costs.len()).collect::<Vec<usize>>());
        let dearest = |shards: &[Range<usize>]| shards.iter().map(|s| costs[s.clone()].iter().sum::<u64>()).max().unwrap_or(0);
        let filled = shards.iter().filter(|shard| !shard.is_empty()).count();
        prop_assert_eq!(filled, count.min(costs.len()));
        for cuts in 0_u32..1 << costs.len().saturating_sub(1) {
            if cuts.count_ones() as usize >= count {
                continue;
            }
            let begins: Vec<usize> =
                (0..costs.len()).filter(|unit| *unit == 0 || cuts >> (unit - 1) & 1 == 1).collect();
            let ends = begins.iter().copied().skip(1).chain([costs.len()]);
            let other: Vec<Range<usize>> = begins.iter().copied().zip(ends).map(|(from, to)| from..to).collect();
            prop_assert!(dearest(&shards) <= dearest(&other), "{:?} is cheaper than {:?}", other, shards);
        }
    }
}
