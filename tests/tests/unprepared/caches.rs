//! Keys and values of a cache, and fused projections.

use super::{Named, Values, holds};

/// Channels of a head, key heads, and channels that are rotated.
const HEAD: usize = 16;
const HEADS: usize = 2;
const ROTATED: usize = 8;

/// Keys as they are rotated: of each head the first channels, halves against one another.
fn rotated(keys: &Values, cos: &Values, sin: &Values) -> Values {
    keys.rows(HEADS * HEAD, |token, key| {
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
fn heads_first(values: &Values) -> Values {
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

fn cached(named: fn(usize, bool) -> String) -> impl Fn(Named) -> Named {
    move |mut values| {
        let mut written = Named::new();
        let [cos, sin] =
            ["model.rotary_emb", "model.rotary_emb.1"].map(|name| values.remove(name).expect("it is there"));
        for layer in 0..2 {
            let [keys, own] =
                ["k_norm", "v_proj"].map(|name| &values[&format!("model.layers.{layer}.self_attn.{name}")]);
            written.insert(named(layer, true), heads_first(&rotated(keys, &cos, &sin)));
            written.insert(named(layer, false), heads_first(own));
        }
        written.insert("logits".to_owned(), values.remove("logits").expect("it is there"));
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
