//! Keys and values of a cache, and fused projections.

use super::{Named, Values, hold, holds, of_names, try_judged};

/// Channels of a head, key heads, and channels that are rotated.
pub(super) const HEAD: usize = 16;
pub(super) const HEADS: usize = 2;
pub(super) const ROTATED: usize = 8;

/// Keys, or queries, as they are rotated: of each head the first channels, halves against one another.
pub(super) fn rotated(keys: &Values, cos: &Values, sin: &Values) -> Values {
    keys.rows(*keys.shape.last().expect("it has an axis"), |token, key| {
        let [cos, sin] = [cos, sin].map(|table| &table.of[token * ROTATED..][..ROTATED]);
        let of_head = |head: &[f64]| {
            let turned = |i: usize| if i < ROTATED / 2 { -head[i + ROTATED / 2] } else { head[i - ROTATED / 2] };
            let rotated = (0..ROTATED).map(|i| head[i] * cos[i] + turned(i) * sin[i]);
            rotated.chain(head[ROTATED..].iter().copied()).collect::<Vec<f64>>()
        };
        key.chunks(HEAD).flat_map(of_head).collect()
    })
}

/// \[1, T, heads · D\] as \[1, heads, T, D\].
pub(super) fn heads_first(values: &Values) -> Values {
    let tokens = values.shape[1];
    let row = |head: usize, token: usize| values.of[(token * HEADS + head) * HEAD..][..HEAD].to_vec();
    let of = (0..HEADS).flat_map(|head| (0..tokens).flat_map(move |token| row(head, token)));
    Values::new(&[1, HEADS, tokens, HEAD], of.collect())
}

const NAMES: [&str; 7] = [
    "logits",
    "model.rotary_emb",
    "model.rotary_emb.1",
    "model.layers.0.self_attn.k_norm",
    "model.layers.0.self_attn.v_proj",
    "model.layers.1.self_attn.k_norm",
    "model.layers.1.self_attn.v_proj",
];

/// Keys and values of each layer, \[1, heads, T, D\].
fn of_layers(values: &Named) -> Vec<[Values; 2]> {
    let [cos, sin] = ["model.rotary_emb", "model.rotary_emb.1"].map(|name| &values[name]);
    let of_layer = |layer: usize| {
        let [keys, own] = ["k_norm", "v_proj"].map(|name| &values[&format!("model.layers.{layer}.self_attn.{name}")]);
        [heads_first(&rotated(keys, cos, sin)), heads_first(own)]
    };
    (0..2).map(of_layer).collect()
}

fn cached(named: fn(usize, bool) -> String) -> impl Fn(Named) -> Named {
    move |values| {
        let mut written = Named::new();
        for (layer, [keys, own]) in of_layers(&values).into_iter().enumerate() {
            written.insert(named(layer, true), keys);
            written.insert(named(layer, false), own);
        }
        written.insert("logits".to_owned(), values["logits"].clone());
        written
    }
}

#[test]
fn what_is_in_a_cache_is_compared() {
    let names: [fn(usize, bool) -> String; 3] = [
        |layer, is_key| format!("past_key_values.{layer}.{}", usize::from(!is_key)),
        |layer, is_key| format!("{}.{layer}", if is_key { "key_cache" } else { "value_cache" }),
        |layer, is_key| format!("cache.layers.{layer}.{}", if is_key { "keys" } else { "values" }),
    ];
    for named in names {
        holds(&NAMES, cached(named), "model.layers.1.self_attn.k_norm", 7);
        holds(&NAMES, cached(named), "model.layers.0.self_attn.v_proj", 7);
    }
}

/// \[1, heads, T, D\] as \[T, heads, D\].
fn tokens_first(values: &Values) -> Values {
    let tokens = values.shape[2];
    let row = |token: usize, head: usize| values.of[(head * tokens + token) * HEAD..][..HEAD].to_vec();
    let of = (0..tokens).flat_map(|token| (0..HEADS).flat_map(move |head| row(token, head)));
    Values::new(&[tokens, HEADS, HEAD], of.collect())
}

/// With so many slots, of which those behind the tokens have zeros.
fn longer(values: &Values, slots: usize) -> Values {
    let each = values.shape[2] * HEAD;
    let filled = values.of.chunks(each).map(|head| [head, &vec![0.0; slots * HEAD - each]].concat());
    Values::new(&[1, HEADS, slots, HEAD], filled.collect::<Vec<_>>().concat())
}

/// Of each token or head, those of both tensors one behind the other.
fn by_turns(one: &Values, other: &Values, each: usize, shape: &[usize]) -> Values {
    let pairs = one.of.chunks(each).zip(other.of.chunks(each));
    Values::new(shape, pairs.flat_map(|(one, other)| [one, other].concat()).collect())
}

/// Of each layer a tensor with keys and one with values.
fn apart(change: impl Fn(&Values, bool) -> Values) -> impl Fn(Named) -> Named {
    move |values| {
        let layers = of_layers(&values).into_iter().enumerate();
        let of_layer = |(layer, [keys, own]): (usize, [Values; 2])| {
            let [keys, own] = [change(&keys, true), change(&own, false)];
            [(format!("key_cache.{layer}"), keys), (format!("value_cache.{layer}"), own)]
        };
        layers.flat_map(of_layer).collect()
    }
}

/// Of each layer one tensor with both.
fn together(join: impl Fn([Values; 2]) -> Values) -> impl Fn(Named) -> Named {
    move |values| {
        let layers = of_layers(&values).into_iter().enumerate();
        layers.map(|(layer, both)| (format!("kv_cache.{layer}"), join(both))).collect()
    }
}

fn caches_hold(what: &str, written: impl Fn(Named) -> Named) {
    hold(what, &NAMES, written, &["model.layers.1.self_attn.k_norm", "model.layers.0.self_attn.v_proj"], 4);
}

#[test]
fn caches_may_have_their_axes_in_another_order() {
    caches_hold("keys turned", apart(|of, is_key| if is_key { of.turned() } else { of.clone() }));
    let flat = |of: &Values, _| Values::new(&[1, of.shape[2], HEADS * HEAD], tokens_first(of).of);
    caches_hold("heads joined", apart(flat));
    caches_hold("longer than needed", apart(|of, _| longer(of, 64)));
    let concat = |[keys, own]: [Values; 2]| Values::new(&[&[2], &keys.shape[..]].concat(), [keys.of, own.of].concat());
    caches_hold("both stacked", together(concat));
    let stacked = |values: Named| {
        let layers: Vec<Values> = of_layers(&values).into_iter().map(concat).collect();
        let shape = [&[layers.len()], &layers[0].shape[..]].concat();
        let of = layers.into_iter().flat_map(|one| one.of).collect();
        Named::from([("kv_cache".to_owned(), Values::new(&shape, of))])
    };
    caches_hold("both of all layers stacked", stacked);
    let pairs = |each: usize, behind: &'static [usize]| {
        together(move |[keys, own]| {
            let shape = [&[keys.shape[2]], behind].concat();
            by_turns(&tokens_first(&keys), &tokens_first(&own), each, &shape)
        })
    };
    caches_hold("heads by turns", pairs(HEAD, &[2 * HEADS, HEAD]));
    caches_hold("all keys first", pairs(HEADS * HEAD, &[2 * HEADS, HEAD]));
    caches_hold("keys and values before heads", pairs(HEADS * HEAD, &[2, HEADS, HEAD]));
}

/// Slots that are filled and of no token are refused, and pages, whose order a table says.
#[test]
fn caches_of_other_slots_are_refused() {
    let tokens_of = |slots: usize| {
        apart(move |of, _| {
            let mut longer = longer(of, slots);
            longer.of[(slots - 1) * HEAD] = 1.0;
            longer
        })
    };
    let refused = try_judged(&tokens_of(44)(of_names(&NAMES))).expect_err("44 slots are filled");
    assert!(refused.contains("44 rows a request, and the prompt 40 tokens"), "{refused}");
    let paged =
        apart(|of, _| Values::new(&[6, 8, HEADS, HEAD], [tokens_first(of).of, vec![1.0; 8 * HEADS * HEAD]].concat()));
    let mut pages = paged(of_names(&NAMES));
    pages.insert("block_tables".to_owned(), Values::new(&[1, 5], vec![0.0, 1.0, 2.0, 3.0, 4.0]));
    let refused = try_judged(&pages).expect_err("pages are in no order");
    assert!(refused.contains("block_tables says whose they are"), "{refused}");
}

/// One group of query heads with the key and the value that they read behind the other, or all queries, all keys, all values.
#[test]
fn queries_keys_and_values_may_be_fused_by_groups() {
    let names = [
        "model.layers.0.input_layernorm",
        "model.layers.0.self_attn.q_proj",
        "model.layers.0.self_attn.k_proj",
        "model.layers.0.self_attn.v_proj",
        "model.layers.0.self_attn",
    ];
    let fused = |name: &'static str, groups: usize| {
        move |mut values: Named| {
            let [q, k, v] = ["q", "k", "v"]
                .map(|one| values.remove(&format!("model.layers.0.self_attn.{one}_proj")).expect("it is there"));
            let of_token = |token: usize| {
                let part = move |of: &Values, group: usize| {
                    let width = of.shape[2];
                    of.of[token * width + group * width / groups..][..width / groups].to_vec()
                };
                (0..groups).flat_map(|group| [&q, &k, &v].map(|of| part(of, group)).concat()).collect::<Vec<f64>>()
            };
            let all = (0..40).flat_map(of_token).collect();
            values.insert(format!("model.layers.0.self_attn.{name}"), Values::new(&[1, 40, 160], all));
            values
        }
    };
    for name in ["qkv_proj", "query_key_value", "linear_qkv", "qkv"] {
        for groups in [1, HEADS] {
            holds(&names, fused(name, groups), "model.layers.0.self_attn.v_proj", 5);
        }
    }
}
