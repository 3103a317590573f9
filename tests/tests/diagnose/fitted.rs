//! A number of the configuration that is another is fitted to the values.

use reference::config::{Coefficients, Config};
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tests::seen::{Seen, modules};
use tools::diagnose::catalogue::mistake::{Assumed, Change};
use tools::diagnose::diagnosis::Explained;

/// What is said of a model with another configuration.
fn explained(case: &str, contract: RoundingContract, change: impl FnOnce(&mut Config)) -> Explained {
    let setting = Setting::of(case, contract);
    let diagnosis = setting.diagnose(&setting.changed(|config, _| change(config)));
    assert!(diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty(), "{diagnosis:#?}");
    let [explained] = &diagnosis.explained[..] else { panic!("{diagnosis:#?}") };
    explained.clone()
}

/// What is found is the parameter, and its value is within its error.
fn is_fitted(explained: &Explained, name: &str, parameter: &str, (value, configured): (f64, f64)) {
    assert_eq!(explained.name, name, "{explained:#?}");
    let fitted = explained.fitted.as_ref().expect("it is a number");
    assert_eq!((fitted.parameter, fitted.configured), (parameter, configured));
    assert!((fitted.fit.value - value).abs() <= fitted.fit.error, "{fitted:?}");
    assert!(fitted.fit.error < 0.05 * value.abs(), "{fitted:?}");
}

#[test]
fn of_m2() {
    let of = |change: fn(&mut Config)| explained("m2-gqa3-f32", RoundingContract::EAGER_F32, change);
    let eps = of(|config| config.rms_norm_eps = 1e-3);
    is_fitted(&eps, "norm_eps", "ε", (1e-3, 1e-6));
    assert_eq!((&eps.layers[..], eps.is_local), (&[0, 1][..], false));
    is_fitted(&of(|config| config.rope_theta = 1_234_567.0), "rope_theta", "θ", (1_234_567.0, 5e6));
}

fn oai(config: &mut Config) -> &mut Coefficients {
    config.swiglu_oai.as_mut().expect("M3 has it")
}

#[test]
fn of_m3() {
    let of = |change: fn(&mut Config)| explained("m3-gqa4-f32", RoundingContract::EAGER_F32, change);
    is_fitted(&of(|config| oai(config).alpha = 1.5), "swiglu_alpha", "α", (1.5, 1.702));
    is_fitted(&of(|config| oai(config).beta = 0.7), "swiglu_beta", "β", (0.7, 1.0));
    is_fitted(&of(|config| oai(config).limit = 2.5), "swiglu_limit", "ℓ", (2.5, 7.0));
    let scale = of(|config| config.routed_scaling_factor = 1.7);
    is_fitted(&scale, "routed_scale", "the routed experts' factor", (1.7, 2.0));
}

/// In bf16 these make one value in a hundred another, in every layer: no value is beyond its bound, and no layer unlike the others.
#[test]
fn what_the_twin_alone_shows() {
    let of = |change: fn(&mut Config)| explained("m3-sharded-bf16", RoundingContract::EAGER_BF16, change);
    let alpha = of(|config| oai(config).alpha = 1.7);
    is_fitted(&alpha, "swiglu_alpha", "α", (1.7, 1.702));
    assert!(alpha.fitted.as_ref().is_some_and(|fitted| fitted.fit.error < 0.001), "{alpha:#?}");
    assert!(alpha.fault.note.as_deref().is_some_and(|note| note.starts_with("with α = 1.70")), "{alpha:#?}");
    is_fitted(&of(|config| oai(config).beta = 1.002), "swiglu_beta", "β", (1.002, 1.0));
}

/// What is said of a model that is read otherwise.
fn read(case: &str, field: &'static str, value: &str, layers: Option<Vec<usize>>) -> Vec<Explained> {
    let setting = Setting::of(case, RoundingContract::EAGER_F32);
    let any = setting.mistakes().into_iter().next().expect("there is one");
    let assumed = Assumed { change: Change::Reading(field, value.to_owned()), layers, ..any };
    let diagnosis = setting.diagnose(&setting.with(&[assumed]));
    assert!(diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty(), "{diagnosis:#?}");
    diagnosis.explained
}

/// All of the stream behind a layer, where its values are rounded before: two factors of its summands reproduce fewer.
#[test]
fn of_the_stream_behind_a_layer() {
    let setting = Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16);
    let any = setting.mistakes().into_iter().next().expect("there is one");
    let change = Change::Reading("layer_scale", "1.01".to_owned());
    let live = setting.with(&[Assumed { change, layers: Some(vec![0]), ..any }]);
    for shows in [modules, |site| matches!(site, Site::Embedding | Site::Layer(_, LayerSite::Output))] {
        let diagnosis = setting.diagnose(&Seen { live: &live, shows, value: |_, value| value });
        assert!(diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty(), "{diagnosis:#?}");
        let [explained] = &diagnosis.explained[..] else { panic!("{diagnosis:#?}") };
        is_fitted(explained, "layer_scaled", "the stream's factor", (1.01, 1.0));
        assert_eq!(explained.way, "layer_scale=1.01 in layer 0", "{explained:#?}");
    }
}

/// ε of one kind of norms, in all layers or in one.
#[test]
fn of_one_kind_of_norms() {
    let of = |case, field, value, layers: Option<Vec<usize>>| {
        let explained = read(case, field, value, layers);
        let [explained] = &explained[..] else { panic!("{explained:#?}") };
        explained.clone()
    };
    let one = of("m2-gqa3-f32", "k_norm_eps", "0.001", Some(vec![1]));
    is_fitted(&one, "k_norm_eps", "ε of the key norm", (1e-3, 1e-6));
    assert_eq!((&one.layers[..], one.is_local), (&[1][..], true));
    let last = of("m2-gqa3-f32", "final_norm_eps", "0.01", None);
    is_fitted(&last, "final_norm_eps", "ε of the last norm", (1e-2, 1e-6));
    let index = of("m3-gqa4-f32", "index_k_norm_eps", "0.003", None);
    is_fitted(&index, "index_k_norm_eps", "ε of the index key norm", (3e-3, 1e-6));
    let tower = of("vision-images-f32", "vision_layer_norm_eps", "0.01", None);
    is_fitted(&tower, "vision_layer_norm_eps", "ε of the norms in the tower's layers", (1e-2, 1e-5));
    let before = of("vision-images-f32", "vision_pre_norm_eps", "0.01", None);
    is_fitted(&before, "vision_pre_norm_eps", "ε of the norm before the tower's layers", (1e-2, 1e-5));
    let scale = of("vision-images-f32", "vision_score_scale", "0.3", None);
    is_fitted(&scale, "vision_score_scale", "the scale of the tower's scores", (0.3, 20.0_f64.sqrt().recip()));
}

/// A page of the cache, in one layer or in all.
#[test]
fn of_a_page_that_is_another() {
    for (page, layers) in [("4:2=3", None), ("8:1=3", Some(vec![1]))] {
        let explained = read("m2-gqa3-f32", "shared_page", page, layers.clone());
        let [explained] = &explained[..] else { panic!("{explained:#?}") };
        let place = if layers.is_some() { " in layer 1" } else { "" };
        assert_eq!(explained.way, format!("shared_page={page}{place}"), "{explained:#?}");
    }
}

/// Keys and values that a cache keeps on another grid; and channels that form other pairs.
#[test]
fn of_what_a_cache_keeps() {
    for (field, value) in [
        ("cache_form", "keys:int8/head"),
        ("cache_form", "values:e4m3/token"),
        ("cache_form", "keys:clip1.5"),
        ("rope_pair", "half_head"),
    ] {
        let explained = read("m2-gqa3-f32", field, value, None);
        let [explained] = &explained[..] else { panic!("{explained:#?}") };
        assert_eq!(explained.way, format!("{field}={value}"), "{explained:#?}");
    }
}

/// What blocks of keys are chosen by.
#[test]
fn of_an_index_branch() {
    for (field, value) in [
        ("msa_pool", "absolute"),
        ("msa_pool", "min"),
        ("msa_pad", "dropped"),
        ("msa_block", "8"),
        ("msa_local_block", "2"),
        ("index_heads", "first"),
        ("index_heads", "token_sum"),
        ("msa_shift", "4"),
        ("index_shift", "1"),
        ("index_cache_type", "e4m3"),
    ] {
        let explained = read("m3-gqa4-f32", field, value, None);
        let [explained] = &explained[..] else { panic!("{explained:#?}") };
        assert_eq!(explained.way, format!("{field}={value}"));
    }
}

/// A rotation table that ends early.
#[test]
fn of_a_table_of_positions() {
    let explained = read("m2-gqa3-f32", "position_shift", "24@23", None);
    let [explained] = &explained[..] else { panic!("{explained:#?}") };
    assert_eq!((explained.name, &explained.way[..]), ("position_offset", "position_shift=24@23"));
}

/// The tokens that an expert takes; and what is another in the shared expert alone.
#[test]
fn of_experts() {
    for capacity in ["3", "9"] {
        let explained = read("m2-gqa3-f32", "expert_capacity", capacity, None);
        let ways: Vec<&str> = explained.iter().map(|explained| &explained.way[..]).collect();
        assert_eq!(ways, [format!("expert_capacity={capacity}")], "{explained:#?}");
    }
    let setting = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    let any = setting.mistakes().into_iter().next().expect("there is one");
    let made = |field, value: &str| Assumed { change: Change::Reading(field, value.to_owned()), ..any.clone() };
    let made = setting.with(&[made("activated_limit", "2.5"), made("activation_in", "shared")]);
    let diagnosis = setting.diagnose(&made);
    let ways: Vec<&str> = diagnosis.explained.iter().map(|explained| &explained.way[..]).collect();
    assert_eq!(ways, ["activated_limit=2.5, in the shared expert alone"], "{diagnosis:#?}");
    assert_eq!(diagnosis.left, 0);
}

/// In bf16, where no value is beyond its bound.
#[test]
fn of_what_is_quiet() {
    let change = |config: &mut Config| config.swiglu_oai.as_mut().expect("M3 has it").alpha = 1.5;
    let alpha = explained("m3-sharded-bf16", RoundingContract::EAGER_BF16, change);
    is_fitted(&alpha, "swiglu_alpha", "α", (1.5, 1.702));
}

/// A known mistake goes before a number that was fitted, which stands beside it.
#[test]
fn a_known_mistake_goes_first() {
    let of = |change: fn(&mut Config)| explained("m2-gqa3-f32", RoundingContract::EAGER_F32, change);
    is_fitted(&of(|config| config.rope_theta = 1e4), "rope_theta_10k", "θ", (1e4, 5e6));
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let diagnosis = setting.diagnose(&setting.with(&[setting.mistake("scale_missing")]));
    let [explained] = &diagnosis.explained[..] else { panic!("{diagnosis:#?}") };
    is_fitted(explained, "scale_missing", "the scale of scores", (1.0, 0.25));
}
