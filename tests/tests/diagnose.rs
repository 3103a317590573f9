//! What is said of a faulty candidate.

use fixtures::names::at::At;
use ndarray::{Array2, Axis, s};
use reference::config::Config;
use reference::site::Extent;
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tools::candidate::{Candidate, Live};
use tools::diagnose::Evidence;
use tools::failure::Failure;

mod dumps;

const O_PROJ: Site = Site::Layer(1, LayerSite::OProj);

fn setting() -> Setting {
    Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32)
}

/// A candidate seen through something.
struct Seen<'a, S, V> {
    live: &'a Live,
    shows: S,
    value: V,
}

impl<S: Fn(Site) -> bool + Sync, V: Fn(Site, Array2<f64>) -> Array2<f64> + Sync> Candidate for Seen<'_, S, V> {
    fn has(&self, at: At) -> bool {
        (self.shows)(at.site) && self.live.has(at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        Ok((self.value)(at.site, self.live.matrix(at, extent)?))
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        self.live.choices(at, extent)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        if self.has(at) { self.live.size(at) } else { None }
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}

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

#[test]
fn the_outputs_of_layers_are_enough() {
    let setting = setting();
    for name in ["rope_last_half", "scale_missing", "qk_per_head_on_M2", "bias_in_weights", "w1_w3_swapped", "nongated"]
    {
        let live = setting.with(&[setting.mistake(name)]);
        let diagnosis = setting.diagnose(&Seen { live: &live, shows: outputs, value: |_, value| value });
        let named = diagnosis.explained.first().map(|explained| explained.name);
        assert_eq!((named, diagnosis.left), (Some(name), 0), "{diagnosis:#?}");
    }
}

/// What is said of values at one site that are changed, and of nothing else.
fn pattern(change: impl Fn(Array2<f64>) -> Array2<f64> + Sync) -> String {
    let setting = setting();
    let live = setting.with(&[]);
    let value = |site, value| if site == O_PROJ { change(value) } else { value };
    let diagnosis =
        setting.diagnose(&Seen { live: &live, shows: |site| site != Site::Layer(1, LayerSite::Attention), value });
    assert_eq!(diagnosis.unexplained.as_ref().map(|fault| fault.site), Some(O_PROJ));
    diagnosis.pattern.join("; ")
}

#[test]
fn what_no_mistake_explains_is_described() {
    let scaled = pattern(|x| x * 1.5);
    assert!(scaled.contains("every token is off") && scaled.contains("every value is 1.500000 times"), "{scaled}");
    let late = pattern(|mut x| {
        x.slice_mut(s![20.., ..]).mapv_inplace(|x| x + 1.0);
        x
    });
    assert!(late.contains("tokens 20 to 39 of 40 are off") && late.contains("every channel is off"), "{late}");
    let one = pattern(|mut x| {
        x[[7, 5]] += 1.0;
        x
    });
    assert!(one.contains("1 of 40 tokens are off: 7") && one.contains("1 of 96 channels are off: 5"), "{one}");
    let shifted = pattern(|x| {
        let rows: Vec<usize> = (0..40).map(|i: usize| i.saturating_sub(1)).collect();
        x.select(Axis(0), &rows)
    });
    assert!(shifted.contains("every row is the reference's 1 before it"), "{shifted}");
    let permuted = pattern(|x| {
        let columns: Vec<usize> = (0..96).map(|j| j ^ 1).collect();
        x.select(Axis(1), &columns)
    });
    assert!(permuted.contains("columns are permuted: 0 has 1, 1 has 0"), "{permuted}");
}

#[cfg(feature = "lapack")]
#[test]
fn an_error_of_one_direction_is_told() {
    let said = pattern(|mut x| {
        for (i, mut row) in x.rows_mut().into_iter().enumerate() {
            row[3] += 1.0 + i as f64;
            row[9] -= 2.0 * (1.0 + i as f64);
        }
        x
    });
    assert!(
        said.contains("the error has rank 1 of 40; 100 % of it lies along one direction, largest at 9, 3"),
        "{said}"
    );
}

#[test]
fn another_prompt_is_said_and_not_diagnosed() {
    let setting = setting();
    let live = setting.with(&[]);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let refused = |tokens: Vec<u32>| {
        let evidence = Evidence {
            config: checkpoint.config(),
            weights: &checkpoint,
            candidate: &live,
            contract: setting.contract,
            semantics: reference::Semantics::DOCUMENTS,
            steps: &[tokens],
            media: None,
        };
        evidence.require_tokens().expect_err("they differ").to_string()
    };
    let mut other = setting.case.tokens.clone();
    other[7] = (other[7] + 1) % 320;
    let said = refused(other);
    assert!(said.starts_with("tokens differ from position 7: given"), "{said}");
    let mut shifted = setting.case.tokens.clone();
    shifted.rotate_left(1);
    let said = refused(shifted);
    assert!(said.ends_with("shifted by one"), "{said}");
}
