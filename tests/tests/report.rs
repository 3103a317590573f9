//! Reports as others read them: the page, in a browser too, and `JUnit`.

mod browser;
mod github;
mod junit;
pub(crate) mod page;
mod round_trip;

use reference::{LayerSite, RoundingContract, Semantics, Site};
use tools::compare::selection::Selection;
use tools::judge::agreement::Agreement;
use tools::judge::chosen::{Chosen, Row, Standing};
use tools::judge::decoded::{Cause, Decoded, Divergence};
use tools::judge::found::Found;
use tools::judge::lens::Lens;
use tools::judge::spread::Spread;
use tools::judge::structure::{Group, Structure};
use tools::judge::verdict::{Flip, JudgedBy, Likelihood, SiteReport, Top, Verdict, Worst};
use tools::report::content::{Conclusion, Header, Report, SCHEMA};
use tools::report::coverage::Coverage;

/// A name that would run in a page that does not escape it.
const HOSTILE: &str = "</title></template><script>document.body.remove()</script>&amp;\"'";

/// Layers of the model.
const LAYERS: usize = 62;

/// The layers with a fault, in the query norm, and with a suspicious one.
const FAULTY: std::ops::Range<usize> = 7..60;
const SUSPICIOUS: std::ops::Range<usize> = 3..40;

/// What the candidate does not show.
const MISSING: Site = Site::Layer(LAYERS - 1, LayerSite::QRope);

/// A report on a model as deep as the released one: every site judged, many faults, every kind of finding.
fn report() -> Report {
    let outside = [Site::Embedding, Site::RopeCos, Site::RopeSin, Site::FinalNorm, Site::LmHead, Site::Logits];
    let sites = LayerSite::ALL.into_iter().filter(|site| Site::Layer(0, *site).exists(&tests::memory::tiny()));
    let layers = (0..LAYERS).flat_map(|layer| sites.clone().map(move |site| Site::Layer(layer, site)));
    let local = outside.into_iter().chain(layers).filter(|site| *site != MISSING);
    let local = local.map(|site| site_report(Lens::Local, site));
    let outputs = || (0..LAYERS).map(|layer| Site::Layer(layer, LayerSite::Output)).chain([Site::Logits]);
    let others = [Lens::Layer, Lens::Global].into_iter().flat_map(|lens| outputs().map(move |site| (lens, site)));
    Report {
        schema: SCHEMA,
        header: Header {
            model: "models/deep".to_owned(),
            size: format!("{LAYERS} layers"),
            candidate: format!("{HOSTILE}.safetensors"),
            precision: RoundingContract::FUSED,
            precision_from: "the dump's manifest".to_owned(),
            semantics: Semantics::default(),
            steps: vec![512],
            shown: Vec::new(),
            layers: LAYERS,
            head_dim: 128,
            notes: vec![format!("names that are not known: {HOSTILE}")],
            unsure: None,
            unread: 0,
            command: format!("parity verify models/deep {HOSTILE}.safetensors --tokens @prompt.json"),
        },
        sites: local.chain(others.map(|(lens, site)| site_report(lens, site))).collect(),
        missing: [MISSING].into(),
        coverage: Coverage {
            operators: [MISSING, Site::FinalNorm].into(),
            alone: [Site::FinalNorm].into(),
            within: [].into(),
        },
        unmet: [].into(),
        denied: Vec::new(),
        decode: Some(decoded()),
        exact: None,
        detection: None,
    }
}

fn site_report(lens: Lens, site: Site) -> SiteReport {
    let verdict = match site {
        Site::Layer(layer, LayerSite::QNorm) if FAULTY.contains(&layer) => Verdict::Fault,
        Site::Layer(layer, LayerSite::OProj) if SUSPICIOUS.contains(&layer) => Verdict::Suspicious,
        Site::Layer(5, LayerSite::GateExperts) => Verdict::Tie,
        Site::Layer(9, LayerSite::Mlp) => Verdict::Inconclusive,
        _ => Verdict::Within,
    };
    let largest = if verdict == Verdict::Fault { 300.0 } else { 0.9 };
    let depth = site.layer().map_or(1.0, |layer| layer as f64 + 1.0);
    let worst = Worst { index: vec![3, 261], candidate: 1.5, reference: -0.25, bound: 1e-3, ratio: largest };
    SiteReport {
        step: 0,
        first: 0,
        site,
        lens,
        verdict,
        judged_by: if site.is_choice() { JudgedBy::Intervals } else { JudgedBy::Bound },
        count: 512 * 3072,
        equal: 1000,
        unequal_expected: Some(2000.5),
        twin: (lens == Lens::Local).then_some(Agreement {
            count: 512 * 3072,
            equal: 1_570_000,
            bits: 0.999,
            unequal_expected: 2900.5,
            bits_expected: 0.0,
        }),
        structures: Vec::new(),
        hint: None,
        faults: usize::from(verdict == Verdict::Fault) * 12,
        suspicious: usize::from(verdict == Verdict::Suspicious) * 34,
        deviation: 1e-4 * depth,
        limit: None,
        floor: (lens == Lens::Global).then_some(2e-4 * depth),
        quantile: (lens == Lens::Global).then_some(0.25),
        carried: None,
        worst: Some(worst),
        segment: Vec::new(),
        note: (verdict == Verdict::Inconclusive).then(|| "every value is 0".to_owned()),
        flips: if verdict == Verdict::Tie { vec![Flip { token: 77, legal: true }] } else { Vec::new() },
        spread: Some(Spread::of((96, 192), |(i, j)| largest * ((i * 7919 + j * 104_729) % 1009) as f64 / 1008.0)),
        chosen: site.is_choice().then(chosen),
        likelihood: (site == Site::Logits).then_some(Likelihood { divergence: 1e-9, bound: 1e-6 }),
        tops: if site == Site::Logits { tops() } else { Vec::new() },
    }
}

/// What each token chose of 32, of which the last token's is another than rounding can explain.
fn chosen() -> Chosen {
    let row = |token: usize| {
        let (chosen, other) = (token % 32, if token == 511 { vec![3] } else { Vec::new() });
        let standing = if other.is_empty() { Standing::Same } else { Standing::Illegal };
        Row { chosen: vec![chosen], other, standing }
    };
    Chosen::of((512, 32), 512, (0..512).map(row))
}

/// The likeliest tokens; one in a hundred is another than the reference's.
fn tops() -> Vec<Top> {
    let top = |token: usize| Top { token, candidate: u32::from(token % 100 == 99), reference: 0, margin: 0.5 };
    (0..512).map(top).collect()
}

/// A decode with a legal and an illegal divergence.
fn decoded() -> Decoded {
    let divergence = |position, margin, cause| {
        let (candidate, reference, limit) = (8, 9, 1e-3);
        Divergence { position, candidate, reference, margin, rounding: 1e-5, limit, cause }
    };
    Decoded {
        tokens: vec![9; 64],
        margins: (1..=64).map(|i| 1.0 / f64::from(i)).collect(),
        divergences: vec![divergence(3, 1e-4, Cause::Drift), divergence(9, 0.5, Cause::Fault)],
    }
}

/// What too few tokens show stands among the notes, with its place and how improbable it is, and is no verdict.
#[test]
fn a_hint_is_a_note() {
    let site = Site::Layer(1, LayerSite::Mlp);
    let (of, gain, probability) = (Group::Expert(3), None, 5e-8);
    let hint = Some(Structure { of, count: 896, unequal: 769, unequal_most: 4, gain, probability });
    let found = Found::of(vec![SiteReport { hint, verdict: Verdict::Within, ..site_report(Lens::Local, site) }]);
    let header = Header { unsure: None, notes: Vec::new(), ..report().header };
    let report = Report::of(header, found, &Selection::default(), [site].into()).expect("something was compared");
    let [note] = &report.header.notes[..] else { panic!("{:?}", report.header.notes) };
    for words in [&*site.to_string(), "where expert 3 was chosen, 769 of 896 are other values", "one right run in 2e7"]
    {
        assert!(note.contains(words), "{words}: {note}");
    }
    assert_eq!(report.conclusion(), Conclusion::Pass);
}
