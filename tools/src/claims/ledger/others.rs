//! M2 on Neuron, the newsletter, the analysis of M2, and the model card.

use crate::claims::claim::{Claim, claim};
use crate::claims::document::Document;
use crate::claims::hyperparameters::{Hyperparameters, Releases};
use crate::claims::memory::BF16;
use crate::claims::parameters::Part;
use crate::claims::unit::{B, GB, GIB, PERCENT, POINTS, TIMES};

/// Heads that S2 pads queries to, and replicates keys and values to: one for each of 64 devices.
const HEADS: usize = 64;
/// Experts of a token, as S3's listing has them.
const TOP_K: usize = 2;
/// S3: by how much a score must rise to be kept.
const THRESHOLD: f64 = 0.01;

pub(super) fn claims(releases: &Releases) -> Vec<Claim> {
    let m = &releases.m27;
    [neuron(m), newsletter(m), newsletter_quoted(), size(m)].concat()
}

fn neuron(m: &Hyperparameters) -> Vec<Claim> {
    let s2 = |id, text| claim(id, Document::S2, if id == "E2-03" { "§3" } else { "§2" }, text);
    let c = &m.config;
    let padded = HEADS * c.head_dim;
    let copies = HEADS / c.num_key_value_heads;
    let zeros = (HEADS - c.num_attention_heads) * c.head_dim;
    vec![
        s2("E2-01", "Q norm's divisor: 48 × 128 = 6144").count("6144", c.query_width()),
        s2("E2-02", "K norm's divisor: 64 × 128 = 8192, because 8 copies make the sum 8 times as large")
            .count("8192", padded)
            .count("8", copies)
            .so("cancels", format!("{padded} / {copies} = {}", c.key_width()), padded == copies * c.key_width()),
        s2("E2-03", "K projection: 1024").count("1024", c.key_width()),
        s2("E2-04", "heads that are padded to 64 add nothing to the sum: the divisor stays 6144")
            .count("6144", padded - zeros)
            .note(format!("{padded} channels, of which {zeros} are 0")),
    ]
}

fn newsletter(m: &Hyperparameters) -> Vec<Claim> {
    let s3 = |id, text| claim(id, Document::S3, "", text);
    let c = &m.config;
    let (total, experts) = (m.total() as f64, c.num_local_experts as f64);
    // Two matrices of three.
    let ungated = 2.0 / 3.0;
    let listed_total = total - (1.0 - ungated) * m.part(Part::RoutedExperts) as f64;
    let listed_expert = ungated * m.expert(0) as f64;
    let listed_active = c.num_hidden_layers as f64 * (m.projections(0) as f64 + TOP_K as f64 * listed_expert);
    let of_experts = |name: &str| name.contains(".experts.");
    let in_bf16 = BF16 * m.part(Part::RoutedExperts) as f64;
    vec![
        s3("E3-01", "10B active per token (~4.3 % of total)").rounded("4.3", PERCENT, m.active_in_layers() as f64 / total),
        s3("E3-02", "top_k=2 with 256 experts: 99.2 % of expert parameters are inactive, 128x")
            .rounded("99.2", PERCENT, 1.0 - TOP_K as f64 / experts)
            .exact("128", TIMES, experts / TOP_K as f64)
            .note(format!("for two experts; a token is sent to {} of them", c.num_experts_per_tok)),
        s3("E3-03", "230B in all and 10B active, with two experts without gate for a token")
            .rounded("230", B, listed_total)
            .rounded("10", B, listed_active)
            .note("experts have a gate, w1, beside w3 and w2, and a token is sent to eight: what is listed is a smaller model"),
        s3("E3-04", "FP8 halves the memory of expert weights")
            .rounded("0.5", TIMES, m.stored_of(of_experts) / in_bf16)
            .note(format!("scales included; of all weights {:.3}×", m.stored() / m.weights_in(BF16))),
    ]
}

fn newsletter_quoted() -> Vec<Claim> {
    let s3 = |id, text| claim(id, Document::S3, "", text);
    let needed = |best: f64| ((best + THRESHOLD) - best) / best;
    let [of_one, of_half] = [1.0, 0.5].map(needed);
    vec![
        s3("E3-05", "SWE Multilingual, 76.5, is 20 points above SWE-Pro, 56.22")
            .rounded("20", POINTS, 76.5 - 56.22)
            .external()
            .note("a difference of scores that the document quotes"),
        s3("E3-06", "66.6 % medals in 22 competitions")
            .external()
            .note(format!("measured; 66.6 % of 22 is {:.2} medals: an average of several runs", 0.666 * 22.0)),
        s3("E3-07", "new_score > best_score + 0.01 is a 1 % minimum improvement")
            .so("1 % of any score", format!("{:.0} % of 0.5", 100.0 * of_half), (of_one - of_half).abs() < f64::EPSILON)
            .note("a hundredth of the scale, whatever the score"),
    ]
}

/// What names and cards say of a model's size.
fn size(m: &Hyperparameters) -> Vec<Claim> {
    let (stored, cache) = (m.stored(), m.cache(1e6, BF16));
    vec![
        claim("E4-01", Document::S4, "", "230B parameters, with only 10B active")
            .rounded("230", B, m.total() as f64)
            .rounded("10", B, m.active_in_layers() as f64)
            .note("right as two digits; 229 as three"),
        claim("E5-01", Document::Card, "", "weights need 220 GB, 1M tokens of context 240 GB")
            .rounded("220", GB, stored)
            .rounded("240", GB, cache)
            .note(format!(
                "the released FP8 weights, and 10⁶ tokens in bf16; in GiB, which GB often stands for, {:.1} and {:.1}",
                stored / GIB.scale,
                cache / GIB.scale
            )),
    ]
}
