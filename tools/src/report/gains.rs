//! Which gains in a router, in all experts of a layer or in a head a dump would show, in words.

use super::detection::{Unshown, of_bounds};
use super::figures::{counted, numbered};
use crate::diagnose::detection::Detection;
use crate::diagnose::detection::gains::{Gain, Of};

/// How many of each would be seen.
pub(super) fn gains(detection: &Detection) -> String {
    let told = |is: fn(&Of) -> bool, what: &str| {
        let all: Vec<&Gain> = detection.gains.iter().filter(|gain| is(&gain.of)).collect();
        let seen = all.iter().filter(|gain| gain.seen).count();
        (!all.is_empty()).then(|| format!("{seen} of {}", counted(all.len(), what)))
    };
    let routers = told(|of| *of == Of::Router, "router");
    let layers = told(|of| *of == Of::AllExperts, "layer").map(|seen| format!("all experts of {seen}"));
    let heads = told(|of| matches!(of, Of::Head(_)), "head");
    let told: Vec<String> = [routers, layers, heads].into_iter().flatten().collect();
    format!("a gain of {:.0} % would be seen in {}", 100.0 * (detection.gain - 1.0), told.join(", in "))
}

/// Those that would not be seen, by reason.
pub(super) fn unshown_gains(detection: &Detection) -> Vec<Unshown> {
    let unseen = |moved: bool| detection.gains.iter().filter(move |gain| !gain.seen && (gain.bounds > 0.0) == moved);
    let group = |why: &str, moved| {
        let what: Vec<String> = in_words(&unseen(moved).collect::<Vec<&Gain>>());
        (!what.is_empty()).then(|| Unshown { why: why.into(), what })
    };
    let still = group("nothing that they move was compared in its own layer", false);
    still.into_iter().chain(group("values move by less than their bounds", true)).collect()
}

/// The heads of a layer together.
fn in_words(gains: &[&Gain]) -> Vec<String> {
    let by_layer = gains.chunk_by(|one, other| one.layer == other.layer);
    by_layer
        .flat_map(|of_layer| {
            let layer = of_layer[0].layer;
            let is_head = |gain: &&&Gain| matches!(gain.of, Of::Head(_));
            let place = |gain: &&Gain| format!("{} of layer {layer} ({})", gain.of, of_bounds(gain.bounds));
            let heads: Vec<&&Gain> = of_layer.iter().filter(is_head).collect();
            let numbers: Vec<usize> =
                heads.iter().filter_map(|gain| if let Of::Head(head) = gain.of { Some(head) } else { None }).collect();
            let most = heads.iter().map(|gain| gain.bounds).fold(0.0, f64::max);
            let of_heads = || format!("{} of layer {layer} (at most {})", numbered("head", &numbers), of_bounds(most));
            let others = of_layer.iter().filter(|gain| !is_head(gain)).map(place);
            others.chain((!heads.is_empty()).then(of_heads)).collect::<Vec<String>>()
        })
        .collect()
}
