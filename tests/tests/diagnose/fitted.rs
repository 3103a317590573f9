//! A number of the configuration that is another is fitted to the values.

use reference::RoundingContract;
use reference::config::{Coefficients, Config};
use tests::mistaken::Setting;
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
