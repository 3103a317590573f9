//! S1 CH0, CH2.3.8: totals, shares, and what is active.

use reference::weights::Weight;

use super::premises::{SPARSE, s1};
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::parameters::Part;
use crate::claims::unit::{B, M, PERCENT};

/// The total as S1's table has it, of which its shares are.
const STATED_TOTAL: f64 = 427.1e9;

pub(super) fn shares(m: &Hyperparameters) -> Vec<Claim> {
    let part = |part| m.part(part) as f64;
    let share = |parameters: f64| parameters / STATED_TOTAL;
    let [routed, shared, router] = [Part::RoutedExperts, Part::SharedExperts, Part::Router].map(part);
    let [attention, vision] =
        [[Part::Attention, Part::Index], [Part::VisionTower, Part::Projector]].map(|parts| m.parts(&parts) as f64);
    let total = m.total() as f64;
    vec![
        s1("E1-19", "CH2.3.8", "routed experts: 413.13B, 96.6 %")
            .rounded("413.13", B, routed)
            .rounded("96.6", PERCENT, share(routed))
            .note("of the 427.1 B that the table states, as all its shares are"),
        s1("E1-20", "CH2.3.8", "shared experts: 3.227B, 0.75 %; routers: 0.045B")
            .rounded("3.227", B, shared)
            .rounded("0.75", PERCENT, share(shared))
            .rounded("0.045", B, router)
            .note("cut off where they should be rounded"),
        s1("E1-21", "CH2.3.8", "embedding 0.29 %, attention 1.55 %, dense 0.16 %, LM head 0.29 %, vision 0.21 %")
            .rounded("0.29", PERCENT, share(part(Part::Embedding)))
            .rounded("1.55", PERCENT, share(attention))
            .rounded("0.16", PERCENT, share(part(Part::Dense)))
            .rounded("0.29", PERCENT, share(part(Part::LmHead)))
            .rounded("0.21", PERCENT, share(vision))
            .note("vision's follows from its 0.88 B, which is wrong"),
        s1("E1-22", "CH2.3.8", "total ~427.1B").rounded("427.1", B, total).note("the vision tower is taken too large"),
        s1("E1-23", "CH0", "total ~428B").rounded("428", B, total).note("427 at the three digits that are stated"),
    ]
}

pub(super) fn active(m: &Hyperparameters) -> Vec<Claim> {
    let [experts, shared, dense] =
        [Part::RoutedExperts, Part::SharedExperts, Part::Dense].map(|part| m.active_part(part) as f64);
    let attention = m.parts(&[Part::Attention, Part::Index]) as f64;
    let ends = m.parts(&[Part::Embedding, Part::LmHead]) as f64;
    let sum = ends + attention + dense + experts + shared;
    let vision = m.parts(&[Part::VisionTower, Part::Projector]) as f64;
    let [router, in_layers] = [m.part(Part::Router), m.active_in_layers()].map(|parameters| parameters as f64);
    let in_sparse =
        m.in_layer(SPARSE, |weight| [Part::Attention, Part::Index].contains(&Part::of(Weight::Layer(SPARSE, weight))));
    let [full_layers, _] = m.attention_layers();
    vec![
        s1("E1-24", "CH2.3.8", "4 experts: 4 × 56.62M × 57 ≈ 12.91B").rounded("12.91", B, experts),
        s1("E1-25", "CH2.3.8", "shared experts: 56.62M × 57 ≈ 3.23B").rounded("3.23", B, shared),
        s1("E1-26", "CH2.3.8", "attention: ~110.88M in each of 60 layers")
            .rounded("110.88", M, in_sparse as f64)
            .note(format!("and {full_layers} of the layers have no index branch")),
        s1("E1-27", "CH2.3.8", "active: 1.23 + 6.64 + 0.68 + 12.91 + 3.23 + 1.23 ≈ 25.9B")
            .rounded("25.9", B, sum)
            .note(format!("{:.2} B with the routers, which its formula lists, too", (sum + router) / 1e9)),
        s1("E1-28", "CH2.3.8", "with vision 25.9 + 0.88 ≈ 26.8B").rounded("26.8", B, sum + vision),
        s1("E1-29", "CH0, appendix", "active ~23B: “component sum matches”").rounded("23", B, sum + router).note(
            format!(
                "its own sum is 25.9 B; without embedding and LM head {:.1} B are active, which is what 23 B counts",
                in_layers / 1e9
            ),
        ),
    ]
}
