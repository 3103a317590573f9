//! A model's configuration as read, by the names of `config.json`.

use reference::config::{Attention, Coefficients, Config, FeedForward, Index, Layer, Vision};

use super::table::with_header;

/// Its fields, a line each, in the words of `config.json`; what a model lacks is left out.
pub fn of(config: &Config) -> String {
    let mut table = with_header(&["configuration", "value"]);
    for (name, value) in text_model(config).into_iter().chain(config.vision.iter().flat_map(vision)) {
        table.add_row([name, &value]);
    }
    table.to_string()
}

fn text_model(config: &Config) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("model_type", config.architecture.model_type.to_owned()),
        ("vocab_size", config.vocab_size.to_string()),
        ("hidden_size", config.hidden_size.to_string()),
        ("num_hidden_layers", config.num_hidden_layers.to_string()),
        ("layers", layers(config)),
        ("num_attention_heads", config.num_attention_heads.to_string()),
        ("num_key_value_heads", config.num_key_value_heads.to_string()),
        ("head_dim", config.head_dim.to_string()),
        ("rotary_dim", config.rotary_dim.to_string()),
        ("rope_theta", config.rope_theta.to_string()),
        ("max_position_embeddings", config.max_position_embeddings.to_string()),
        ("rms_norm_eps", format!("{:e}", config.rms_norm_eps)),
        ("norms multiply by", config.norm_weight.to_string()),
        ("queries and keys are normed", config.qk_norm.to_string()),
        ("num_local_experts", config.num_local_experts.to_string()),
        ("num_experts_per_tok", config.num_experts_per_tok.to_string()),
        ("intermediate_size", config.intermediate_size.to_string()),
    ];
    if config.shared_intermediate_size > 0 {
        fields.push(("shared_intermediate_size", config.shared_intermediate_size.to_string()));
        fields.push(("routed_scaling_factor", config.routed_scaling_factor.to_string()));
    }
    if config.dense_intermediate_size > 0 {
        fields.push(("dense_intermediate_size", config.dense_intermediate_size.to_string()));
    }
    if let Some(Coefficients { alpha, limit, beta }) = config.swiglu_oai {
        fields.push(("SwiGLU-OAI", format!("alpha {alpha}, limit {limit}, beta {beta}")));
    }
    if let Some(Index { heads, head_dim, blocks, .. }) = config.index {
        let forced = format!("{} local and {} initial among them", blocks.local, blocks.init);
        let chosen = format!("{} blocks of {} keys, {forced}", blocks.top_k, blocks.size);
        fields.push(("index branch", format!("{heads} heads of {head_dim} channels choose {chosen}")));
    }
    fields.push(("tie_word_embeddings", config.tie_word_embeddings.to_string()));
    if !config.eos_token_id.is_empty() {
        let tokens = config.eos_token_id.iter().map(u32::to_string).collect::<Vec<_>>();
        fields.push(("eos_token_id", tokens.join(", ")));
    }
    if config.num_mtp_modules > 0 {
        fields.push(("num_mtp_modules", config.num_mtp_modules.to_string()));
    }
    if let Some(quantization) = &config.quantization {
        fields.push(("quantization_config", quantization.to_json().to_string()));
    }
    fields
}

fn vision(vision: &Vision) -> Vec<(&'static str, String)> {
    let patch = &vision.patch;
    let made = format!("{} colours, {} frames, {2} × {2} pixels", patch.channels, patch.frames, patch.side);
    vec![
        ("vision: hidden_size", vision.hidden_size.to_string()),
        ("vision: intermediate_size", vision.intermediate_size.to_string()),
        ("vision: num_hidden_layers", vision.num_hidden_layers.to_string()),
        ("vision: num_attention_heads", vision.num_attention_heads.to_string()),
        ("vision: patch", made),
        ("vision: spatial_merge_size", vision.spatial_merge_size.to_string()),
        ("vision: layer_norm_eps", format!("{:e}", vision.layer_norm_eps)),
        ("vision: rope_theta", vision.rope_theta.to_string()),
        ("projector_hidden_size", vision.projector_hidden_size.to_string()),
        ("image_token_index", vision.image_token.to_string()),
        ("video_token_index", vision.video_token.to_string()),
    ]
}

/// What layers are made of, those that are alike and follow one another together: `0-2: full attention, dense; 3-59: …`.
fn layers(config: &Config) -> String {
    let mut runs: Vec<(usize, usize, Layer)> = Vec::new();
    for (number, layer) in (0..config.num_hidden_layers).map(|number| (number, config.layer(number))) {
        match runs.last_mut() {
            Some((_, last, alike)) if *alike == layer => *last = number,
            _ => runs.push((number, number, layer)),
        }
    }
    let made = |layer: Layer| match (layer.attention, layer.feed_forward) {
        (Attention::Full, FeedForward::Experts) => "full attention, experts",
        (Attention::Full, FeedForward::Dense) => "full attention, dense network",
        (Attention::BlockSparse, FeedForward::Experts) => "block-sparse attention, experts",
        (Attention::BlockSparse, FeedForward::Dense) => "block-sparse attention, dense network",
    };
    let of_run = |(first, last, layer): (usize, usize, Layer)| {
        if first == last { format!("{first}: {}", made(layer)) } else { format!("{first}-{last}: {}", made(layer)) }
    };
    runs.into_iter().map(of_run).collect::<Vec<_>>().join("; ")
}
