//! What is said of a faulty candidate.

use ndarray::{Array2, Axis, s};
use reference::{LayerSite, Site};
use tests::seen::{Seen, pattern, setting};
use tools::diagnose::catalogue::assumption::Assumption;
use tools::judge::compared::Compared;
use tools::judge::comparison::Comparison;
use tools::judge::lens::Lens;
use tools::report::diagnosis::text;

mod altered;
mod attending;
mod calls;
mod dumps;
mod elements;
mod elsewhere;
mod fitted;
mod orders;
mod parts;
mod places;
mod ranks;
mod rounded;
mod searched;
mod solved;
mod tower;
mod unreproduced;

#[test]
fn two_mistakes_are_named_one_after_the_other() {
    let setting = setting();
    let live = setting.with(&[setting.mistake("no_renorm"), setting.mistake("rope_interleaved")]);
    let diagnosis = setting.diagnose(&live);
    let names: Vec<&str> = diagnosis.explained.iter().map(|explained| explained.name).collect();
    assert_eq!((names, diagnosis.left), (vec!["rope_interleaved", "no_renorm"], 0));
}

/// What a coarse dump shows.
fn outputs(site: Site) -> bool {
    matches!(site, Site::Embedding | Site::Layer(_, LayerSite::Output) | Site::Logits)
}

#[test]
fn two_mistakes_that_no_site_tells_apart_are_named_together() {
    let setting = setting();
    let live = setting.with(&[setting.mistake("qk_per_head_on_M2"), setting.mistake("no_renorm")]);
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: outputs, value: |_, value| value });
    let mut names: Vec<&str> = diagnosis.explained.iter().map(|explained| explained.name).collect();
    names.sort_unstable();
    assert_eq!((names, diagnosis.left), (vec!["no_renorm", "qk_per_head_on_M2"], 0), "{diagnosis:#?}");
}

/// As in dumps of every mistake, which other programs made; here of an implementation that shows exactly these.
#[test]
fn the_outputs_of_layers_are_enough() {
    let setting = setting();
    for name in ["qk_per_head_on_M2", "w1_w3_swapped"] {
        let live = setting.with(&[setting.mistake(name)]);
        let diagnosis = setting.diagnose(&Seen { live: &live, shows: outputs, value: |_, value| value });
        let named = diagnosis.explained.first().map(|explained| explained.name);
        assert_eq!((named, diagnosis.left), (Some(name), 0), "{diagnosis:#?}");
    }
}

#[test]
fn what_no_mistake_explains_is_described() {
    let scaled = pattern(LayerSite::Context, |x| x * 1.5);
    assert!(scaled.contains("every token is off") && scaled.contains("every value is 1.500000 times"), "{scaled}");
    let twice = pattern(LayerSite::OProj, |mut x| {
        x.slice_mut(s![16..32, 32..48]).mapv_inplace(|x| 2.0 * x);
        x
    });
    assert!(twice.contains("tokens 16 to 31 of 40 are off") && twice.contains("values is 2.000000 times"), "{twice}");
    let late = pattern(LayerSite::OProj, |mut x| {
        x.slice_mut(s![20.., ..]).mapv_inplace(|x| x + 1.0);
        x
    });
    assert!(late.contains("tokens 20 to 39 of 40 are off") && late.contains("every channel is off"), "{late}");
    let one = pattern(LayerSite::OProj, |mut x| {
        x[[7, 5]] += 1.0;
        x
    });
    assert!(one.contains("one value alone is off: token 7, channel 5"), "{one}");
    let shifted = pattern(LayerSite::OProj, |x| {
        let rows: Vec<usize> = (0..40).map(|i: usize| i.saturating_sub(1)).collect();
        x.select(Axis(0), &rows)
    });
    assert!(shifted.contains("every row is the reference's 1 before it"), "{shifted}");
    let permuted = pattern(LayerSite::Context, |x| {
        let columns: Vec<usize> = (0..96).map(|j| j ^ 1).collect();
        x.select(Axis(1), &columns)
    });
    assert!(permuted.contains("columns are permuted: 0 has 1, 1 has 0"), "{permuted}");
    assert!(!permuted.contains("in another order") && !permuted.contains("clamp"), "{permuted}");
    // By another number in each row.
    let turned = |x: Array2<f64>| Array2::from_shape_fn(x.dim(), |(i, j)| x[[i, (i + j) % x.ncols()]]);
    let reordered = pattern(LayerSite::Context, turned);
    assert!(reordered.contains("each row that is off has the reference's values in another order"), "{reordered}");
    for (below, joined) in [(-1.0, true), (-2.0, false)] {
        let clamped = pattern(LayerSite::OProj, |x| {
            let most = 0.5 * x.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            x.mapv(|value| value.clamp(below * most, most))
        });
        let says = clamped.contains("and the reference's is beyond: as a clamp makes it");
        assert!(says && clamped.contains(" or ") == joined, "{clamped}");
    }
}

/// An ε that no value of the final norm shows, and its product with the head does: nothing is at fault under the local lens. Of a
/// right one nothing is told.
#[test]
fn what_operators_add_up_to_is_told() {
    let setting = setting();
    let of_eps = |eps: &str| {
        let semantics = setting.semantics().with("final_norm_eps", eps).expect("a reading");
        setting.diagnose(&setting.run(&Assumption::none(semantics)))
    };
    assert!(of_eps("1e-6").is_right());
    let diagnosis = of_eps("2e-5");
    let fault = diagnosis.unexplained.as_deref().expect("the logits are at fault");
    assert_eq!((fault.site, fault.lens, diagnosis.left), (Site::Logits, Lens::Layer, 1), "{diagnosis:#?}");
    assert!(text(&diagnosis).contains("under the layer lens"), "{}", text(&diagnosis));
}

#[test]
fn another_prompt_is_said_and_not_diagnosed() {
    let setting = setting();
    let live = setting.with(&[]);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let refused = |tokens: Vec<u32>| {
        let compared = Compared {
            config: checkpoint.config(),
            weights: &checkpoint,
            semantics: reference::Semantics::DOCUMENTS,
            candidate: &live,
            steps: &[tokens],
            prompt: setting.case.tokens.len(),
            media: None,
            hidden: None,
        };
        Comparison::new(compared, setting.contract).require_tokens().expect_err("they differ").to_string()
    };
    let mut other = setting.case.tokens.clone();
    other[7] = (other[7] + 1) % 320;
    let said = refused(other);
    assert!(said.starts_with("tokens differ from position 7: given"), "{said}");
    let mut shifted = setting.case.tokens.clone();
    shifted.rotate_left(1);
    let said = refused(shifted);
    assert!(said.ends_with("shifted by one"), "{said}");
    let all: Vec<u32> = setting.case.tokens.iter().map(|token| token - 1).collect();
    let said = refused(all);
    assert!(said.ends_with("40 rows are those of the token +1 from theirs"), "{said}");
    let upper: Vec<u32> =
        setting.case.tokens.iter().map(|&token| if token > 160 { token - 1 } else { token }).collect();
    let first = upper.iter().copied().filter(|token| *token >= 160).min().expect("some are");
    let said = refused(upper);
    assert!(said.ends_with(&format!("from theirs, all tokens from {first} on")), "{said}");
}
