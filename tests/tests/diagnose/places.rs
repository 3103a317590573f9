//! In which layers a mistake holds, and what stands behind it.

use ndarray::s;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tests::seen::{Seen, modules, setting};
use tools::diagnose::catalogue::mistake::{Assumed, Change};
use tools::diagnose::diagnosis::Diagnosis;

fn told(diagnosis: &Diagnosis) -> Vec<(&str, &[usize], bool)> {
    assert!(diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty(), "{diagnosis:#?}");
    diagnosis.explained.iter().map(|one| (one.name, &one.layers[..], one.is_local)).collect()
}

#[test]
fn a_mistake_in_one_layer_accuses_no_other() {
    let setting = setting();
    for name in ["no_renorm", "scale_missing", "qk_per_head_on_M2", "w1_w3_swapped"] {
        for layer in 0..2 {
            let mistake = setting.mistake(name).within(Some(vec![layer]));
            let diagnosis = setting.diagnose(&setting.with(&[mistake]));
            assert_eq!(told(&diagnosis), [(name, &[layer][..], true)], "{diagnosis:#?}");
        }
        let diagnosis = setting.diagnose(&setting.with(&[setting.mistake(name)]));
        assert_eq!(told(&diagnosis), [(name, &[0, 1][..], false)], "{diagnosis:#?}");
    }
}

/// A head in the first layer, and two experts in the second.
#[test]
fn a_second_change_of_weights_is_found_behind_the_first() {
    let setting: Setting = setting();
    let diagnosis = setting.diagnose(&setting.changed(|_, weights| {
        let q_proj = Weight::Layer(0, LayerWeight::QProj);
        let mut w = weights.get(q_proj).expect("it is there").dense::<f64>();
        w.slice_mut(s![32..48, ..]).mapv_inplace(|w| 1.25 * w);
        weights.insert(q_proj, w.view(), reference::Storage::F32);
        for projection in [Projection::Gate, Projection::Up, Projection::Down] {
            let [a, b] = [2, 6].map(|e| Weight::Layer(1, LayerWeight::Expert(e, projection)));
            let [of_a, of_b] = [a, b].map(|weight| weights.get(weight).expect("it is there").dense::<f64>());
            weights.insert(a, of_b.view(), reference::Storage::F32);
            weights.insert(b, of_a.view(), reference::Storage::F32);
        }
    }));
    assert_eq!(told(&diagnosis), [("weight_scaled", &[0][..], true), ("experts_permuted", &[1][..], true)]);
    assert!(diagnosis.explained[0].way.starts_with("head 2 of q_proj in layer 0 is 1.25"), "{diagnosis:#?}");
    assert_eq!(diagnosis.explained[1].way, "experts 2 and 6 in layer 1 are exchanged");
}

/// A known mistake in all layers, and a change of weights in one.
#[test]
fn a_change_of_weights_is_found_behind_a_known_mistake() {
    let setting: Setting = setting();
    let reading = setting.semantics().with("renormalize", "nothing").expect("a reading");
    let wrong = Setting { reading: Some(reading), ..tests::seen::setting() };
    let down = Weight::Layer(1, LayerWeight::Expert(5, Projection::Down));
    let diagnosis = setting.diagnose(&wrong.changed(|_, weights| {
        let w = weights.get(down).expect("it is there").dense::<f64>();
        weights.insert(down, (1.01 * w).view(), reference::Storage::F32);
    }));
    let names: Vec<&str> = told(&diagnosis).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["no_renorm", "weight_scaled"]);
}

/// What a rotation table is made of, and how much is chosen, may be another in one layer, whose sizes then are others', too.
#[test]
fn what_all_layers_have_in_common_may_be_another_in_one() {
    let m3 = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    let of = |setting: &Setting, name: &str, way: &'static str, shows: fn(Site) -> bool| {
        let (reading, place) = way.split_once(" in layer ").expect("a place");
        let (field, value) = reading.split_once('=').expect("a value");
        let change = Change::Reading(field, value.to_owned());
        let any = setting.mistakes().into_iter().next().expect("there is one");
        let layers = Some(vec![place.parse().expect("a layer")]);
        let live = setting.with(&[Assumed { change, layers, ..any }]);
        let diagnosis = setting.diagnose(&Seen { live: &live, shows, value: |_, value| value });
        let named = told(&diagnosis).into_iter().map(|(name, _, is_local)| (name, is_local)).collect::<Vec<_>>();
        assert_eq!((named, diagnosis.explained[0].way.as_str()), (vec![(name, true)], way), "{diagnosis:#?}");
    };
    for shows in [modules as fn(Site) -> bool, blocks] {
        of(&setting(), "rope_theta_10k", "rope_theta=10000 in layer 1", shows);
        of(&setting(), "topk_k_wrong", "top_k=2 in layer 1", shows);
        of(&m3, "index_block_size", "msa_block=8 in layer 3", shows);
        of(&m3, "block_topk_wrong", "msa_top_k=2 in layer 2", shows);
        of(&m3, "index_local_blocks", "msa_local_block=2 in layer 2", shows);
    }
}

/// Norms, and what attention and network give.
fn blocks(site: Site) -> bool {
    use LayerSite::{Attention, InputNorm, Mlp, Output, PostAttentionNorm};
    matches!(site, Site::Layer(_, InputNorm | Attention | PostAttentionNorm | Mlp | Output) | Site::Logits)
}

/// Keys alone that are rotated before they are normed.
#[test]
fn a_norm_behind_the_rotation_of_keys() {
    let m3 = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    let reading = m3.semantics().with("norm_order", "key_rope_first").expect("a reading");
    let wrong = Setting { reading: Some(reading), ..Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32) };
    let live = wrong.changed(|_, _| ());
    let shows = |site| modules(site) || matches!(site, Site::Layer(_, LayerSite::QNorm | LayerSite::KNorm));
    let diagnosis = m3.diagnose(&Seen { live: &live, shows, value: |_, value| value });
    assert_eq!(told(&diagnosis), [("rope_before_norm", &[0, 1, 2, 3][..], false)], "{diagnosis:#?}");
}
