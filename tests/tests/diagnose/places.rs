//! In which layers a mistake holds, and what stands behind it.

use ndarray::s;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use tests::mistaken::Setting;
use tests::seen::setting;
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
