//! `tools/src/session/work.rs`: items can be done together or one by one, and yield the same.

use reference::Site;
use tools::judge::comparison::Comparison;
use tools::judge::lens::Lens;
use tools::judge::verdict::SiteReport;
use tools::judge::verification::Found;
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;
use tools::session::progress::Progress;
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

/// What does not depend on which lenses share a run.
fn own(report: &SiteReport) -> (usize, Site, String) {
    let report = SiteReport { carried: None, ..report.clone() };
    let lens = report.lens.to_string();
    (report.step, report.site, format!("{lens} {}", serde_json::to_string(&report).expect("it is plain data")))
}

fn sorted(found: &Found) -> Vec<(usize, Site, String)> {
    let mut all: Vec<_> = found.sites.iter().map(own).collect();
    all.sort();
    all
}

/// A case whose layers are of every kind, over a prompt and its decode.
#[test]
fn one_by_one_or_together_items_yield_the_same() {
    let model = Model::open("m3-gqa4-f32").expect("it is built in");
    let case = model.case.as_ref().expect("it is a case");
    for dump in [case.expected().expect("it has values"), case.decoded().expect("it can be read").expect("it decodes")]
    {
        let requests = Dumped::of(dump, &Given::default(), &model).expect("it is a dump of the case");
        let comparisons: Vec<Comparison<'_>> = requests.iter().map(|dumped| dumped.comparison(&model)).collect();
        let layers = 0..model.checkpoint.config().num_hidden_layers;
        let items = list(&comparisons, &layers, &LENSES).expect("it can be listed");
        assert_eq!(items.len(), comparisons.len() * layers.len() * LENSES.len());

        let mut told = [0, 0];
        let mut watch = |progress: Progress<'_>| match progress {
            Progress::Begins { steps, .. } => told[0] += steps,
            Progress::Step => told[1] += 1,
            Progress::Left(_) | Progress::Ends => {}
        };
        let together = execute(&comparisons, &items, "together", &mut watch).expect("it can be done");
        assert!(told[0] > 0 && told[0] == told[1], "{told:?}: every step that was announced is told");

        let [together] = &together[..] else { panic!("{} requests, expected one", together.len()) };
        let alone = items.iter().rev().map(|item| {
            execute(&comparisons, std::slice::from_ref(item), "alone", &mut |_| ()).expect("it can be done").remove(0)
        });
        let mut all = Found::default();
        for found in alone {
            all.sites.extend(found.sites);
            all.missing.extend(found.missing);
        }
        assert!(!together.sites.is_empty());
        assert_eq!(sorted(&all), sorted(together));
        assert_eq!(all.missing, together.missing);
    }
}
