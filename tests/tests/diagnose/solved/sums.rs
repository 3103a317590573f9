//! Summands that are not added, or in whose place others are.

use ndarray::{Array2, s};
use reference::models::decoder::Decoder;
use reference::{LayerSite, RoundingContract, Site};

use super::{Shown, Subject, has};

/// A case of M2 that shows the sum behind attention.
fn m2(case: &'static str, contract: RoundingContract) -> Subject {
    Subject { case, contract, shows: &[LayerSite::Residual] }
}

/// A kernel writes whole tiles of rows alone.
#[test]
fn attention_is_not_added_in_the_last_rows() {
    let of = [("m2-gqa3-f32", RoundingContract::EAGER_F32), ("m2-sharded-bf16", RoundingContract::EAGER_BF16)];
    for (case, contract) in of {
        let port = |_: &Decoder<'_>, shown: &Shown| {
            let mut y = shown.of(1, LayerSite::Residual).clone();
            let first = y.nrows() - 2;
            let before = shown.of(0, LayerSite::Output).slice(s![first.., ..]);
            y.slice_mut(s![first.., ..]).assign(&before);
            y
        };
        let said = m2(case, contract).said_of(LayerSite::Residual, &port);
        assert!(said.iter().any(|own| own.contains(": model.layers.1.self_attn is not added")), "{said:#?}");
    }
}

#[test]
fn attention_of_another_row_is_added() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let (before, attention) = (shown.of(0, LayerSite::Output), shown.of(1, LayerSite::Attention));
        let rows: Vec<usize> = (0..before.nrows()).map(|row| if row < 32 { row } else { row - 32 }).collect();
        before + &attention.select(ndarray::Axis(0), &rows)
    };
    let said = m2("m2-gqa3-f32", RoundingContract::EAGER_F32).said_of(LayerSite::Residual, &port);
    let expected =
        "in 8 of 40 rows, 32, 33, 34, 35, …: what is added of model.layers.1.self_attn is that of the row 32 before it";
    has(&said, expected);
}

/// A buffer of the shared expert is read before it is written.
#[test]
fn the_shared_expert_of_another_layer_is_added() {
    let shows = &[LayerSite::Experts, LayerSite::Shared];
    let m3 = Subject { case: "m3-gqa4-f32", contract: RoundingContract::EAGER_F32, shows };
    let port = |model: &Decoder<'_>, shown: &Shown| -> Array2<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "2")]
        let scale = model.config().routed_scaling_factor as f32;
        shown.of(3, LayerSite::Experts) * scale + shown.of(2, LayerSite::Shared)
    };
    let said = m3.said(&[(Site::Layer(3, LayerSite::Mlp), &port)]);
    has(
        &said,
        "in all rows: model.layers.2.mlp.shared_experts is added in the place of model.layers.3.mlp.shared_experts",
    );
}

/// No equation has a solution for errors that have nothing to do with anything.
#[test]
fn what_is_off_at_random_tells_nothing() {
    use LayerSite::{Experts, PostAttentionNorm, QProj, Residual};
    for at in [Residual, QProj, PostAttentionNorm, Experts] {
        let port = |_: &Decoder<'_>, shown: &Shown| {
            let mut y = shown.of(1, at).clone();
            let first = y.nrows() - 5;
            let tail = y.slice_mut(s![first.., ..]);
            // The sine of a square of an index has no period that rows or channels share.
            tail.into_iter().enumerate().for_each(|(i, y)| *y += 0.3 * (0.01 * (i * i) as f32).sin());
            y
        };
        let said = m2("m2-gqa3-f32", RoundingContract::EAGER_F32).said_of(at, &port);
        assert!(said.is_empty(), "{at:?}: {said:#?}");
    }
}

#[test]
fn a_layer_that_is_left_out() {
    let port = |_: &Decoder<'_>, shown: &Shown| shown.of(0, LayerSite::Output).clone();
    let said = super::M2.said_of(LayerSite::Output, &port);
    has(&said, "values are those that go into it, of model.layers.0, as they are: the layer is left out");
}
