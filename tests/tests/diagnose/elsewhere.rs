//! Tensors that are another's, layers in each other's place, and what is shown but not taken.

use fixtures::names::at::At;
use ndarray::{Array2, s};
use reference::config::Config;
use reference::site::Extent;
use reference::weights::{LayerWeight, Projection, Weight, Weights, inventory};
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tests::seen::Seen;
use tools::failure::Failure;
use tools::judge::candidate::{Candidate, Live};

use super::altered::{diagnoses, exchange, expert, map, setting, told};

#[test]
fn a_norm_has_anothers_weight() {
    let [q_norm, k_norm] = [LayerWeight::QNorm, LayerWeight::KNorm];
    for diagnosis in diagnoses(&setting(true), |weights| {
        for layer in 0..2 {
            let q = weights.get(Weight::Layer(layer, q_norm)).expect("it is there").dense::<f64>();
            map(weights, Weight::Layer(layer, k_norm), |k| q.slice(s![.., ..k.ncols()]).to_owned());
        }
    }) {
        told(&diagnosis, "weight_of_another_name", "k_norm has the values of the first 32 channels of q_norm");
    }
    for diagnosis in diagnoses(&setting(false), |weights| {
        for layer in 0..2 {
            map(weights, Weight::Layer(layer, q_norm), |q| Array2::from_shape_fn(q.dim(), |(i, j)| q[[i, j % 16]]));
        }
    }) {
        told(&diagnosis, "qk_rank_const", "the first of 6 parts for all");
    }
}

#[test]
fn one_norm_is_taken_as_the_other_family_takes_it() {
    let setting = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    for diagnosis in diagnoses(&setting, |weights| {
        map(weights, Weight::Layer(1, LayerWeight::InputNorm), |w| w - 1.0);
    }) {
        told(&diagnosis, "norm_weight_off_by_one", "input_layernorm in layer 1 multiplies by w instead of 1 + w");
    }
}

#[test]
fn an_expert_has_another_layers_tensor() {
    for diagnosis in diagnoses(&setting(true), |weights| {
        let other = weights.get(expert(0, 2, Projection::Down)).expect("it is there").dense();
        map(weights, expert(1, 2, Projection::Down), |_| other);
    }) {
        told(&diagnosis, "weight_of_another_layer", "down_proj of expert 2 in layer 1 is that of layer 0");
    }
}

/// Where the choice is shown, and where it is not.
#[test]
fn a_bias_of_another_layer() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        let other = weights.get(Weight::Layer(0, LayerWeight::CorrectionBias)).expect("it is there").dense();
        map(weights, Weight::Layer(1, LayerWeight::CorrectionBias), |_| other);
    }) {
        told(&diagnosis, "weight_of_another_layer", "the correction bias in layer 1 is that of layer 0");
    }
}

#[test]
fn a_bias_in_another_order() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, Weight::Layer(1, LayerWeight::CorrectionBias), |bias| bias.slice(s![.., ..;-1]).to_owned());
    }) {
        told(&diagnosis, "rows_permuted", "values of the correction bias in layer 1 have each other's weights");
    }
}

/// A model whose first two layers have each other's weights.
fn exchanged(setting: &Setting) -> Live {
    setting.changed(|config, weights| {
        for (weight, _) in inventory(config) {
            if let Weight::Layer(0, inner) = weight {
                exchange(weights, weight, Weight::Layer(1, inner));
            }
        }
    })
}

#[test]
fn layers_have_each_others_weights() {
    let setting = setting(true);
    let diagnosis = setting.diagnose(&exchanged(&setting));
    told(&diagnosis, "layers_exchanged", "layers 0 and 1 are exchanged");
}

/// A candidate each of whose sites holds what it has of another.
struct Misnamed {
    live: Live,
    holds: fn(Site) -> Site,
}

impl Misnamed {
    fn at(&self, At { step, site }: At) -> At {
        At { step, site: (self.holds)(site) }
    }
}

impl Candidate for Misnamed {
    fn has(&self, at: At) -> bool {
        self.live.has(self.at(at))
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        self.live.matrix(self.at(at), extent)
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        self.live.choices(self.at(at), extent)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        self.live.size(self.at(at))
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}

#[test]
fn layers_run_in_another_order() {
    let setting = setting(false);
    let holds = |site| match site {
        Site::Layer(layer, inner) => Site::Layer(1 - layer, inner),
        other => other,
    };
    let diagnosis = setting.diagnose(&Misnamed { live: exchanged(&setting), holds });
    told(&diagnosis, "layer_order", "layers 0 and 1 run in each other's place");
}

/// Two names exchanged, what goes into a layer for what comes out, and what goes into a norm: the model is right.
#[test]
fn a_tensor_holds_another_sites_values() {
    let setting = setting(true);
    let diagnosed = |holds| {
        let diagnosis = setting.diagnose(&Misnamed { live: setting.with(&[]), holds });
        assert_eq!(diagnosis.left, 0, "{diagnosis:#?}");
        diagnosis
    };
    let [k, v, norm] = [LayerSite::KProj, LayerSite::VProj, LayerSite::KNorm].map(|site| Site::Layer(0, site));
    let exchanged = diagnosed(|site| match site {
        Site::Layer(layer, LayerSite::KProj) => Site::Layer(layer, LayerSite::VProj),
        Site::Layer(layer, LayerSite::VProj) => Site::Layer(layer, LayerSite::KProj),
        other => other,
    });
    let also = ", and so in layer 1";
    let way = format!("{k} has the values of {v}{also}; {v} has the values of {k}{also}");
    told(&exchanged, "captured_elsewhere", &way);
    let inputs = diagnosed(|site| match site {
        Site::Layer(0, LayerSite::Output) => Site::Embedding,
        Site::Layer(layer, LayerSite::Output) => Site::Layer(layer - 1, LayerSite::Output),
        other => other,
    });
    let layer = |layer| Site::Layer(layer, LayerSite::Output);
    let first = format!("{} has the values of {}", layer(0), Site::Embedding);
    told(&inputs, "captured_elsewhere", &format!("{first}; {} has the values of {}", layer(1), layer(0)));
    let before = diagnosed(|site| match site {
        Site::Layer(layer, LayerSite::KNorm) => Site::Layer(layer, LayerSite::KProj),
        other => other,
    });
    told(&before, "captured_elsewhere", &format!("{norm} has the values of {k}{also}"));
}

/// What a port takes before it changes the order of it.
#[test]
fn what_is_shown_is_not_taken() {
    let setting = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    let mistake =
        setting.mistakes().into_iter().find(|mistake| mistake.to_string().contains("w1 over w3 in every network"));
    let mistake = mistake.expect("it is known").within(Some(vec![0]));
    let (live, right) = (setting.with(&[mistake]), setting.with(&[]));
    let at = At { step: 0, site: Site::Layer(0, LayerSite::DenseGateUp) };
    let shown = right.matrix(at, Extent::new(1, 1)).expect("it was captured");
    let value = |site, value| if site == at.site { shown.clone() } else { value };
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: |_| true, value });
    let names: Vec<&str> = diagnosis.explained.iter().map(|explained| explained.name).collect();
    assert_eq!((names, diagnosis.left), (vec!["halves_interleaved", "not_taken_as_shown"], 0), "{diagnosis:#?}");
}
