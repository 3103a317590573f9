//! What is another in the activation of the routed experts alone, or of the shared one.

use reference::LayerSite::{ExpertHidden, SharedDown};
use reference::Site;

use super::catalogue::mistake::{Assumed, Change};
use super::search::{self, kinds};

/// What an activation is computed by.
const FIELDS: [&str; 6] = ["activation", "up_clamp", "activated_limit", "gate_alpha", "up_beta", "swiglu_limit"];

/// SwiGLU-OAI as plain SwiGLU: without α, and without the 1 that is added to the up projection.
const PLAIN: [(&str, &str); 2] = [("gate_alpha", "1"), ("up_beta", "0")];

/// In which networks alone an activation is another, if that is assumed; what is so is told with what changes it.
pub(super) fn told(added: &[Assumed]) -> Option<&'static str> {
    added.iter().find_map(|one| match &one.change {
        Change::Reading("activation_in", kind) if kind == "routed" => Some("in the routed experts alone"),
        Change::Reading("activation_in", _) => Some("in the shared expert alone"),
        _ => None,
    })
}

/// Each of what changes an activation, in the networks of one kind that are among the suspects.
pub(super) fn in_one_kind<'a>(suspects: &[Site], all: impl IntoIterator<Item = &'a Assumed>) -> Vec<Vec<Assumed>> {
    let is_there = |wanted| suspects.iter().any(|site| matches!(site, Site::Layer(_, at) if *at == wanted));
    let networks = [(ExpertHidden, "routed"), (SharedDown, "shared")];
    let networks: Vec<&str> = networks.into_iter().filter(|(site, _)| is_there(*site)).map(|(_, kind)| kind).collect();
    let of_activation = |one: &&Assumed| matches!(one.change, Change::Reading(field, _) if FIELDS.contains(&field));
    let each =
        |one: &Assumed| networks.iter().map(|kind| vec![one.clone(), search::in_networks(kind)]).collect::<Vec<_>>();
    let alone = all.into_iter().filter(of_activation).flat_map(each);
    let plain = networks.iter().map(|kind| {
        let [alpha, beta] = PLAIN.map(|(field, value)| Change::Reading(field, value.to_owned()));
        let [alpha, beta] = [Assumed::everywhere(&kinds::ALPHA, alpha), Assumed::everywhere(&kinds::BETA, beta)];
        vec![alpha, beta, search::in_networks(kind)]
    });
    alone.chain(plain).collect()
}
