//! What attention does otherwise is told from the outputs of layers alone, and from those of modules.

use ndarray::{Array2, Axis, concatenate, s};
use reference::weights::{LayerWeight, Weight, Weights};
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tests::seen::{Seen, modules};
use tools::diagnose::catalogue::mistake::{Assumed, Change};
use tools::diagnose::diagnosis::{Diagnosis, Explained};

use super::altered::{diagnoses, map, setting};
use super::calls::reading_later;
use super::outputs;

/// What is said of a model that is read otherwise and shows its layers' outputs alone, first or among three that are as good.
fn is_told(case: &str, field: &'static str, value: &str, shows: fn(Site) -> bool) {
    told(&of_reading(case, field, value, shows), &format!("{field}={value}"));
}

fn of_reading(case: &str, field: &'static str, value: &str, shows: fn(Site) -> bool) -> Diagnosis {
    let setting = Setting::of(case, RoundingContract::EAGER_F32);
    let any = setting.mistakes().into_iter().next().expect("there is one");
    let assumed = Assumed { change: Change::Reading(field, value.to_owned()), ..any };
    let live = setting.with(&[assumed]);
    setting.diagnose(&Seen { live: &live, shows, value: |_, value| value })
}

fn told(diagnosis: &Diagnosis, way: &str) {
    let [Explained { way: first, equivalent, .. }] = &diagnosis.explained[..] else { panic!("{way}: {diagnosis:#?}") };
    let among = || equivalent.iter().take(2).any(|other| other.contains(&format!("({way}")));
    assert!(first.starts_with(way) || among(), "{way}: {first}, {equivalent:?}");
    assert!(diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty(), "{way}: {diagnosis:#?}");
}

/// As of a configuration that says how another model stretches positions.
#[test]
fn frequencies_that_are_scaled_for_longer_contexts() {
    for (by, shows) in [("yarn:4/", modules as fn(Site) -> bool), ("yarn_plain:8/", outputs), ("llama3:8/", modules)] {
        let diagnosis = of_reading("m2-gqa3-f32", "rope_scaling", &format!("{by}64"), shows);
        let [explained] = &diagnosis.explained[..] else { panic!("{by}: {diagnosis:#?}") };
        // Of few pairs, other lengths, and Llama 3 and YaRN, make the same frequencies.
        let way = format!("rope_scaling={by}");
        let among = || explained.equivalent.iter().any(|other| other.contains(&format!("({way}")));
        assert!(explained.way.starts_with(&way) || among(), "{way}: {diagnosis:#?}");
        assert!(diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty(), "{way}: {diagnosis:#?}");
    }
}

/// Another base, and positions that are divided, have names of their own.
#[test]
fn frequencies_that_are_others_are_not_scaled() {
    for (field, value) in [("rope_theta", "300000"), ("rope_linear", "3")] {
        let diagnosis = of_reading("m2-gqa3-f32", field, value, modules);
        told(&diagnosis, &format!("{field}={value}"));
        let of_scaling =
            |explained: &Explained| explained.equivalent.iter().any(|other| other.contains("rope_scaling"));
        assert!(!diagnosis.explained.iter().any(of_scaling), "{diagnosis:#?}");
    }
}

#[test]
fn splits_that_are_put_together_otherwise() {
    for value in ["own/16", "averaged/32", "values_kept/8", "averaged/x2"] {
        is_told("m2-gqa3-f32", "merged", value, outputs);
    }
}

#[test]
fn keys_that_are_not_seen_and_zeros_that_are() {
    for (field, value) in [
        ("unseen", "keys:7..9"),
        ("unseen", "before:3..4"),
        ("unseen", "each:16/15"),
        ("unseen", "from:32"),
        ("unfilled", "tile:16"),
        ("cache_ring", "29"),
    ] {
        is_told("m2-gqa3-f32", field, value, outputs);
    }
}

/// Of what modules show, too, one of each operator: the rotation, the heads, a type.
#[test]
fn queries_and_keys_alone() {
    for (field, value) in [("rope_keys", "twice"), ("tiled_heads", "values"), ("query_type", "e4m3")] {
        is_told("m2-gqa3-f32", field, value, modules);
    }
    for (field, value) in [
        ("rope_keys", "twice"),
        ("rope_queries", "interleaved"),
        ("rope_keys", "exchanged"),
        ("tiled_heads", "values"),
        ("query_type", "e4m3"),
        ("probability_type", "e4m3"),
        ("query_channels", "14"),
    ] {
        is_told("m2-gqa3-f32", field, value, outputs);
    }
}

/// Heads that a view has cut, of queries whose norms read them so, and of a context that is put together so.
#[test]
fn heads_that_are_viewed_where_they_are_transposed() {
    for value in ["queries", "values", "projections", "context"] {
        is_told("m2-gqa3-f32", "heads_viewed", value, modules);
    }
    is_told("m2-gqa3-f32", "heads_viewed", "all", outputs);
    is_told("m3-gqa4-f32", "heads_viewed", "keys", modules);
}

#[test]
fn blocks_of_a_tile() {
    is_told("m3-gqa4-f32", "msa_tile", "local/8", modules);
    is_told("m3-gqa4-f32", "msa_tile", "choice/4", outputs);
}

/// In a second call; a mask of the first call in it, and a slot of the cache that its first token was written to.
#[test]
fn in_later_calls() {
    for (field, value) in [
        ("causal", "call"),
        ("shared_page", "1:5=24"),
        ("unseen", "seam:2"),
        ("cache_seam", "zero_value_before"),
        ("unfilled", "slots:61"),
        ("cache_read_form", "keys:e4m3/head"),
    ] {
        told(&reading_later("m2-gqa3-f32", &[24], (field, value)), &format!("{field}={value}"));
    }
}

/// The index branch keeps nothing of tokens that are decoded.
#[test]
fn an_index_cache_of_the_prompt_alone() {
    let ends: Vec<usize> = (20..34).collect();
    for value in ["unwritten", "repeated"] {
        told(&reading_later("m3-gqa4-f32", &ends, ("index_cache", value)), &format!("index_cache={value}"));
    }
}

/// One matrix of all projections, whose key heads stand together, is cut as if queries came first; and the other way round.
#[test]
fn a_fused_projection_that_is_cut_otherwise() {
    let projections = [LayerWeight::QProj, LayerWeight::KProj, LayerWeight::VProj];
    // Of two key heads with three query heads each, heads of 16 channels.
    let rows = |parts: &[&Array2<f64>]| {
        concatenate(Axis(0), &parts.iter().map(|part| part.view()).collect::<Vec<_>>()).expect("of one width")
    };
    let heads = |w: &Array2<f64>, each: usize, g: usize| w.slice(s![g * each..(g + 1) * each, ..]).to_owned();
    let together = |[q, k, v]: &[Array2<f64>; 3]| {
        let of = |g: usize| rows(&[&heads(q, 48, g), &heads(k, 16, g), &heads(v, 16, g)]);
        let all = rows(&[&of(0), &of(1)]);
        [all.slice(s![..96, ..]).to_owned(), all.slice(s![96..128, ..]).to_owned(), all.slice(s![128.., ..]).to_owned()]
    };
    for diagnosis in diagnoses(&setting(false), |weights| {
        for layer in 0..2 {
            let of = |weight| weights.get(Weight::Layer(layer, weight)).expect("it is there").dense::<f64>();
            let cut = together(&projections.map(of));
            for (weight, cut) in projections.into_iter().zip(cut) {
                map(weights, Weight::Layer(layer, weight), |_| cut);
            }
        }
    }) {
        told(&diagnosis, "q_proj, k_proj and v_proj are cut as if one matrix had queries, then keys, then values");
    }
}

/// One layer takes a table that begins again, and the one that all others take is shown.
#[test]
fn a_table_that_begins_again_in_one_layer() {
    let setting = setting(false);
    let any = setting.mistakes().into_iter().next().expect("there is one");
    let change = Change::Reading("position_shift", "32%32".to_owned());
    let live = setting.with(&[Assumed { change, layers: Some(vec![1]), ..any }]);
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: modules, value: |_, value| value });
    let ways: Vec<&str> = diagnosis.explained.iter().map(|one| &one.way[..]).collect();
    let unseen = "model.rotary_emb is not taken as it is shown";
    assert_eq!((ways, diagnosis.left), (vec!["position_shift=32%32 in layer 1", unseen], 0), "{diagnosis:#?}");
}

/// Nothing of that is said of what is scaled: of a head's values, which nothing here explains.
#[test]
fn what_is_none_of_these_is_not_told() {
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let live = setting.with(&[]);
    let scaled = |site: Site, mut value: Array2<f64>| {
        if let Site::Layer(1, LayerSite::Output) = site {
            // A third of each token's neighbour is mixed into it.
            for i in (1..value.nrows()).rev() {
                let before = value.row(i - 1).to_owned();
                value.row_mut(i).scaled_add(1.0 / 3.0, &before);
            }
        }
        value
    };
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: outputs, value: scaled });
    assert!(diagnosis.explained.is_empty() && diagnosis.unexplained.is_some(), "{diagnosis:#?}");
}
