//! Parts of tensors that are 0, or another part's, are told where no column of what is shown is theirs alone.

use fixtures::checkpoint::memory::MemoryWeights;
use ndarray::{Array2, Axis, s};
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{LayerSite, RoundingContract, Site, Storage};
use tests::mistaken::Setting;
use tests::seen::Seen;
use tests::values::second_and_third_exchanged;
use tools::diagnose::catalogue::fit::Fit;
use tools::diagnose::catalogue::mistake::{Assumed, Change};
use tools::diagnose::catalogue::part::{Part, Scaled};
use tools::diagnose::catalogue::tensors::TensorChange;
use tools::diagnose::catalogue::weights::WeightChange;

use super::altered::{diagnoses, exchange, expert, map, setting, told};

/// Norms, and what attention and network give.
fn few(site: Site) -> bool {
    use LayerSite::{Attention, InputNorm, KNorm, Mlp, Output, PostAttentionNorm, QNorm};
    let shown = [Attention, InputNorm, KNorm, Mlp, Output, PostAttentionNorm, QNorm];
    !matches!(site, Site::Layer(_, site) if !shown.contains(&site))
}

#[test]
fn input_channels_of_heads() {
    for bf16 in [false, true] {
        for diagnosis in diagnoses(&setting(bf16), |weights| {
            let o_proj = Weight::Layer(1, LayerWeight::OProj);
            map(weights, o_proj, |mut w| {
                w.slice_mut(s![.., 16..48]).fill(0.0);
                w
            });
        }) {
            told(&diagnosis, "weight_zero", "the columns of heads 1 and 2 of o_proj in layer 1 are 0");
        }
    }
}

#[test]
fn rows_behind_a_norm_and_heads_behind_attention() {
    let said = |setting: &Setting, change: &dyn Fn(&mut MemoryWeights), name: &str, way: &str| {
        let live = setting.changed(|_, weights| change(weights));
        told(&setting.diagnose(&Seen { live: &live, shows: few, value: |_, value| value }), name, way);
    };
    let [q_proj, v_proj] = [LayerWeight::QProj, LayerWeight::VProj].map(|weight| Weight::Layer(1, weight));
    let zero = |of, rows: std::ops::Range<usize>| {
        move |weights: &mut MemoryWeights| {
            map(weights, of, |mut w| {
                w.slice_mut(s![rows.clone(), ..]).fill(0.0);
                w
            });
        }
    };
    said(&setting(false), &zero(q_proj, 5..6), "weight_zero", "row 5 of q_proj in layer 1 is 0");
    said(&setting(false), &zero(v_proj, 16..32), "weight_zero", "head 1 of v_proj in layer 1 is 0");
    let exchanged = |weights: &mut MemoryWeights| {
        map(weights, q_proj, |w| w.select(Axis(0), &second_and_third_exchanged(8, w.nrows())));
    };
    let m3 = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    said(&m3, &exchanged, "rows_permuted", "heads 1 and 2 of q_proj in layer 1 are exchanged");
}

#[test]
fn a_row_of_an_expert() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        map(weights, expert(1, 5, Projection::Gate), |mut w| {
            w.row_mut(3).fill(0.0);
            w
        });
    }) {
        told(&diagnosis, "weight_zero", "row 3 of gate_proj of expert 5 in layer 1 is 0");
    }
}

#[test]
fn several_experts_of_every_layer() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        for (layer, e) in [(0, 4), (0, 5), (0, 6), (1, 4), (1, 5), (1, 6)] {
            map(weights, expert(layer, e, Projection::Down), |w| 0.0 * w);
        }
    }) {
        let explained = told(&diagnosis, "weight_zero", "down_proj of experts 4 to 6 are 0");
        assert_eq!((&explained.layers[..], explained.is_local), (&[0, 1][..], false));
    }
}

/// A number of the configuration beside it, in the same layer and in no other.
#[test]
fn an_expert_and_a_number_of_one_layer() {
    let setting = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    let scale = setting.mistake("routed_scale_missing");
    let in_layer = |change| Assumed { change, layers: Some(vec![2]), ..scale.clone() };
    let (factor, part) = (Fit { value: 0.0, error: 0.0 }, Part::All);
    let zero = Scaled { of: expert(2, 3, Projection::Down), part, factor, stored: true };
    let one = setting.with(&[
        in_layer(Change::Reading("routed_scale", "1.9".into())),
        in_layer(Change::Weights(WeightChange::Tensor(TensorChange::Scaled(zero)))),
    ]);
    let diagnosis = setting.diagnose(&Seen { live: &one, shows: few, value: |_, value| value });
    assert!(diagnosis.unexplained.is_none(), "{diagnosis:#?}");
    let told: Vec<(&str, bool)> = diagnosis.explained.iter().map(|one| (&one.way[..], one.is_local)).collect();
    assert_eq!(told, [("down_proj of expert 3 in layer 2 is 0", true), ("routed_scale=1.9 in layer 2", true)]);
}

#[test]
fn a_token_of_the_embedding() {
    let setting = setting(false);
    let token = setting.case.tokens[7] as usize;
    for diagnosis in diagnoses(&setting, |weights| {
        map(weights, Weight::Embedding, |mut w| {
            w.row_mut(token).fill(0.0);
            w
        });
    }) {
        told(&diagnosis, "weight_zero", &format!("row {token} of embed_tokens is 0"));
    }
}

/// A shard of the head that begins one row late.
#[test]
fn rows_of_the_head() {
    for bf16 in [false, true] {
        for diagnosis in diagnoses(&setting(bf16), |weights| {
            map(weights, Weight::LmHead, |mut w| {
                let (from, rows) = (160, w.nrows());
                let late = w.slice(s![from + 1.., ..]).to_owned();
                w.slice_mut(s![from..rows - 1, ..]).assign(&late);
                w.row_mut(rows - 1).fill(0.0);
                w
            });
        }) {
            let said = "rows of lm_head have others' weights: 160 to ";
            let explained = told(&diagnosis, "rows_permuted", said);
            assert!(
                explained.way.contains("have those of 161 to") && explained.way.ends_with(" is 0"),
                "{}",
                explained.way
            );
        }
    }
}

#[test]
fn gate_and_up_of_one_expert() {
    for diagnosis in diagnoses(&setting(false), |weights| {
        exchange(weights, expert(1, 3, Projection::Gate), expert(1, 3, Projection::Up));
    }) {
        told(&diagnosis, "one_expert", "w1 and w3 exchanged in expert 3 in layer 1");
    }
}

/// Shares of input channels that devices have in each other's place.
#[test]
fn shares_of_input_channels() {
    let setting = setting(false);
    let rolled = |weights: &mut MemoryWeights, of: Weight, parts: usize| {
        map(weights, of, |w| {
            let each = w.ncols() / parts;
            w.select(Axis(1), &(0..w.ncols()).map(|column| (column + each) % w.ncols()).collect::<Vec<usize>>())
        });
    };
    let said = |shows: fn(Site) -> bool, change: &dyn Fn(&mut MemoryWeights), way: &str| {
        let live = setting.changed(|_, weights| change(weights));
        let diagnosis = setting.diagnose(&Seen { live: &live, shows, value: |_, value| value });
        let explained = told(&diagnosis, "columns_permuted", "");
        assert!(explained.way.ends_with(way), "{}", explained.way);
    };
    let experts = |weights: &mut MemoryWeights| {
        (0..8).for_each(|e| rolled(weights, expert(1, e, Projection::Down), 2));
    };
    said(few, &experts, "-column parts 0 and 1 of down_proj of every expert in layer 1 are exchanged");
    let o_proj = |weights: &mut MemoryWeights| rolled(weights, Weight::Layer(0, LayerWeight::OProj), 4);
    let way =
        "-column parts of o_proj in layer 0 have each other's weights: 0 to 2 have those of 1 to 3, 3 has those of 0";
    said(|_| true, &o_proj, way);
}

#[test]
fn a_head_of_values_that_is_another() {
    let setting = setting(false);
    let live = setting.changed(|_, weights| {
        map(weights, Weight::Layer(0, LayerWeight::VProj), |mut w| {
            let first = w.slice(s![..16, ..]).to_owned();
            w.slice_mut(s![16..32, ..]).assign(&first);
            w
        });
    });
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: few, value: |_, value| value });
    told(&diagnosis, "rows_permuted", "head 1 of v_proj in layer 0 has the weights of head 0");
}

/// Some choices are others under it.
#[test]
fn a_row_of_the_router_behind_the_choice() {
    let setting = setting(false);
    for factor in [1.01, 1.1] {
        let live = setting.changed(|_, weights| {
            map(weights, Weight::Layer(1, LayerWeight::Gate), |mut w| {
                w.row_mut(5).mapv_inplace(|w| factor * w);
                w
            });
        });
        let diagnosis = setting.diagnose(&Seen { live: &live, shows: few, value: |_, value| value });
        told(&diagnosis, "weight_scaled", &format!("row 5 of the router in layer 1 is {factor}"));
    }
}

/// Whose scores stand in the place of whose is told behind the choice, too.
#[test]
fn rows_of_the_router_behind_the_choice() {
    let setting = setting(false);
    let said = |rows: [usize; 8], way: &str| {
        let live = setting.changed(|_, weights| {
            map(weights, Weight::Layer(1, LayerWeight::Gate), |w| w.select(Axis(0), &rows));
        });
        let diagnosis = setting.diagnose(&Seen { live: &live, shows: few, value: |_, value| value });
        told(&diagnosis, "rows_permuted", &format!("rows of the router in layer 1 have each other's weights: {way}"));
    };
    said([4, 5, 6, 7, 0, 1, 2, 3], "0 to 3 have those of 4 to 7, 4 to 7 have those of 0 to 3");
    said([7, 6, 5, 4, 3, 2, 1, 0], "0 has those of 7, 1 has those of 6");
    said([0, 4, 1, 5, 2, 6, 3, 7], "1 has those of 4, 2 has those of 1");
}

/// Of experts, in the sum of what they give: one projection of two, channels that are packed otherwise, a part of one, or of all.
#[test]
fn projections_of_experts_alone() {
    let down =
        |weights: &mut MemoryWeights, experts: std::ops::Range<usize>, f: &dyn Fn(Array2<f64>) -> Array2<f64>| {
            experts.for_each(|e| map(weights, expert(1, e, Projection::Down), f));
        };
    let said = |bf16: bool, change: &dyn Fn(&mut MemoryWeights), name: &str, way: &str| {
        let setting = setting(bf16);
        let live = setting.changed(|_, weights| change(weights));
        told(&setting.diagnose(&Seen { live: &live, shows: few, value: |_, value| value }), name, way);
    };
    let exchanged = |weights: &mut MemoryWeights| {
        exchange(weights, expert(1, 0, Projection::Up), expert(1, 1, Projection::Up));
    };
    said(false, &exchanged, "experts_permuted", "up_proj of experts 0 and 1 in layer 1 are exchanged");
    let neighbours = |w: Array2<f64>| w.select(Axis(1), &(0..w.ncols()).map(|j| j ^ 1).collect::<Vec<usize>>());
    let way = "the columns of down_proj of every expert in layer 1 have their pairs in reverse";
    said(false, &|weights| down(weights, 0..8, &neighbours), "columns_permuted", way);
    let halves = |w: Array2<f64>| {
        let n = w.ncols();
        w.select(Axis(1), &(0..n).map(|j| (j + n / 2) % n).collect::<Vec<usize>>())
    };
    let way = "16-column parts 0 and 1 of down_proj of expert 5 in layer 1 are exchanged";
    said(false, &|weights| down(weights, 5..6, &halves), "columns_permuted", way);
    let viewed = |w: Array2<f64>| {
        let elements = w.t().iter().copied().collect();
        Array2::from_shape_vec(w.dim(), elements).expect("as many")
    };
    let way = "down_proj of expert 2 in layer 1 is transposed";
    said(false, &|weights| down(weights, 2..3, &viewed), "weight_transposed", way);
    let shard = |mut w: Array2<f64>| {
        w.slice_mut(s![.., 16..]).fill(0.0);
        w
    };
    let way = "16-column part 1 of down_proj of every expert in layer 1 is 0";
    said(false, &|weights| down(weights, 0..8, &shard), "weight_zero", way);
    let block = |mut w: Array2<f64>| {
        w.slice_mut(s![64..96, ..]).mapv_inplace(|w| 1.37 * w);
        w
    };
    let way = "rows 64 to 95 of down_proj of expert 3 in layer 0 are 1.37";
    said(true, &|weights| map(weights, expert(0, 3, Projection::Down), block), "weight_scaled", way);
}

/// As Gemma scales it, in f32: where it is shown.
#[test]
fn an_embedding_times_the_root_of_its_width() {
    let setting = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    let [shown, _] = diagnoses(&setting, |weights| {
        map(weights, Weight::Embedding, |w| w * Storage::F32.nearest(48_f64.sqrt()));
    });
    told(&shown, "weight_scaled", "embed_tokens is 6.928203");
}

/// The same where the first layer's norm does not show it, and the stream behind attention does.
#[test]
fn an_embedding_that_only_the_stream_shows() {
    use LayerSite::{Attention, InputNorm, Mlp, Output, PostAttentionNorm};
    let setting = setting(false);
    let live = setting.changed(|_, weights| {
        map(weights, Weight::Embedding, |w| w * Storage::F32.nearest(96_f64.sqrt()));
    });
    let shown = [Attention, InputNorm, Mlp, Output, PostAttentionNorm];
    let shows = |site| matches!(site, Site::Layer(_, site) if shown.contains(&site)) || site == Site::LmHead;
    let diagnosis = setting.diagnose(&Seen { live: &live, shows, value: |_, value| value });
    told(&diagnosis, "weight_scaled", "embed_tokens is 9.797959");
}

/// Two changes of the same values, the second of which is one of a head, or of what reads it.
#[test]
fn what_is_as_good_as_the_second_of_two() {
    let setting = setting(false);
    let live = setting.changed(|_, weights| {
        map(weights, Weight::Layer(1, LayerWeight::VProj), |mut w| {
            w.slice_mut(s![16.., ..]).mapv_inplace(|w| 1.02 * w);
            w
        });
        map(weights, Weight::Layer(1, LayerWeight::OProj), |mut w| {
            w.row_mut(11).fill(0.0);
            w
        });
    });
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: few, value: |_, value| value });
    let [zero, scaled] = &diagnosis.explained[..] else { panic!("{diagnosis:#?}") };
    assert_eq!((&zero.way[..], &zero.equivalent[..]), ("row 11 of o_proj in layer 1 is 0", &[][..]));
    let all: Vec<&str> = std::iter::once(&scaled.way).chain(&scaled.equivalent).map(|way| &way[..]).collect();
    for way in ["head 1 of v_proj in layer 1 is 1.02", "the columns of heads 3 to 5 of o_proj in layer 1 are 1.02"] {
        assert!(all.iter().any(|own| own.contains(way)), "{way}: {all:?}");
    }
}

/// What only a norm shows of a projection is said of both, though other sites are shown between them.
#[test]
fn a_norm_is_compared_together_with_its_projection() {
    let setting = setting(false);
    let [k_proj, v_proj] = [LayerWeight::KProj, LayerWeight::VProj].map(|weight| Weight::Layer(1, weight));
    let live = setting.changed(|_, weights| exchange(weights, k_proj, v_proj));
    let diagnosis = setting.diagnose(&Seen { live: &live, shows: few, value: |_, value| value });
    let explained = told(&diagnosis, "weights_exchanged", "k_proj and v_proj in layer 1 are exchanged");
    assert_eq!(explained.fault.site, Site::Layer(1, LayerSite::KNorm));
    assert!(explained.fault.segment.contains(&Site::Layer(1, LayerSite::KProj)), "{:?}", explained.fault.segment);
}
