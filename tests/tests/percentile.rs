//! A run of which every layer strays further than nearly all right ones is suspicious, and one of which some do is not.

use reference::{LayerSite, Site};
use tools::judge::lens::Lens;
use tools::judge::percentile::mark;
use tools::judge::verdict::{SiteReport, Verdict};

/// How many layers are suspicious, by the share of right implementations that stray less in each.
fn suspicious(lens: Lens, shares: &[f64]) -> usize {
    let report = |(layer, share): (usize, &f64)| SiteReport {
        verdict: Verdict::Within,
        quantile: Some(*share),
        ..SiteReport::missing(0, Site::Layer(layer, LayerSite::Output), lens)
    };
    let mut reports: Vec<SiteReport> = shares.iter().enumerate().map(report).collect();
    mark(&mut reports);
    let marked = reports.iter().filter(|report| report.verdict == Verdict::Suspicious && report.note.is_some());
    marked.count()
}

#[test]
fn only_all_of_several_layers_are() {
    assert_eq!(suspicious(Lens::Layer, &[1.0, 0.996, 0.999, 1.0, 0.998, 1.0]), 6);
    assert_eq!(suspicious(Lens::Layer, &[1.0, 0.996, 0.98, 1.0, 0.998, 1.0]), 0, "one does not");
    assert_eq!(suspicious(Lens::Layer, &[1.0; 4]), 0, "so few do by chance");
}

/// What the global lens sees goes on from layer to layer, and is one deviation.
#[test]
fn what_is_carried_from_one_layer_is_not() {
    assert_eq!(suspicious(Lens::Global, &[1.0; 8]), 0);
}
