//! Of the rotary position embedding.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "rope_attention_factor",
        numbers: "Rotated queries and keys are longer by the factor, and so scores by its square where both rotate: \
                  the softmax is sharper, at every position, position 0 included.",
        mend: "Multiply cosines and sines by a factor only where rope_scaling of config.json asks for it; M2 and M3 \
               have none.",
        wrong: "cos, sin = angles.cos() * attention_factor, angles.sin() * attention_factor",
        right: "cos, sin = angles.cos(), angles.sin()",
    },
    Lesson {
        name: "rope_linear_scaling",
        numbers: "Token s is rotated as token s / factor: position 0 is right, and the error grows with the distance \
                  between query and key, fastest in the first channels, which turn fastest.",
        mend: "Do not divide positions; a longer context is in the released rope_theta already.",
        wrong: "angles = (positions / factor)[:, None] * inv_freq",
        right: "angles = positions[:, None] * inv_freq",
    },
    Lesson {
        name: "key_position_offset",
        numbers: "Each key looks as if it were one token nearer or farther. Scores depend on differences of positions \
                  alone, so all of them are off, by a turn of one step.",
        mend: "Rotate queries and keys of a call by the same position ids.",
        wrong: "q, k = rotate(q, positions), rotate(k, positions + 1)",
        right: "q, k = rotate(q, positions), rotate(k, positions)",
    },
    Lesson {
        name: "rope_frequencies_bf16",
        numbers: "Each frequency is off by up to 2⁻⁸ of itself in bf16, 2⁻¹¹ in f16: the angle's error grows in \
                  proportion to the position, in bf16 to a whole turn of fast channels within a few thousand tokens.",
        mend: "Keep inv_freq a buffer of float32 that casting the model leaves alone, or compute it again in float32.",
        wrong: "model.to(torch.bfloat16)  # casts rotary_emb.inv_freq, too",
        right: "model.to(torch.bfloat16); model.rotary_emb.inv_freq = compute_inv_freq(config).float()",
    },
    Lesson {
        name: "rope_angles_bf16",
        numbers: "An angle above 256 has a step of 2 radians in bf16, so cosine and sine of the fast channels are \
                  arbitrary there; early positions are nearly right.",
        mend: "Multiply positions and frequencies in float32, outside autocast, and round cosines and sines alone.",
        wrong: "angles = (positions.bfloat16()[:, None] * inv_freq.bfloat16())",
        right: "with torch.autocast(device, enabled=False): angles = positions.float()[:, None] * inv_freq.float()",
    },
    Lesson {
        name: "rope_restarted",
        numbers: "The prompt's first call is right. Every decoded token is rotated as token 0, and every later chunk \
                  from 0 on: the distance to all earlier keys is wrong, and text falls apart as it goes on.",
        mend: "Begin a call's positions behind what the cache holds.",
        wrong: "positions = torch.arange(x.shape[1])",
        right: "positions = torch.arange(x.shape[1]) + cache.get_seq_length()",
    },
    Lesson {
        name: "rope_missing_in_decode",
        numbers: "Prefill is right. In decode steps a query, or the new key, stands at position 0 for its scores: \
                  each step sees distances that are as wrong as the step is late.",
        mend: "Rotate both in the decode kernel, too: it is another code path than prefill's.",
        wrong: "k = rotate(k, positions); cache.update(k, v)  # q of one row goes on as it is",
        right: "q, k = rotate(q, positions), rotate(k, positions); cache.update(k, v)",
    },
    Lesson {
        name: "rope_full_128",
        numbers: "Channels behind rotary_dim turn that should stay, and the frequencies of those before it are spread \
                  over twice the width. Position 0 is right, and the error grows with the position; on M2.7 logits \
                  lose nearly all likeness.",
        mend: "Read rotary_dim (or partial_rotary_factor · head_dim) and rotate that many channels alone.",
        wrong: "rotary_dim = config.head_dim",
        right: "rotary_dim = config.rotary_dim; q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]",
    },
    Lesson {
        name: "rope_double_partial",
        numbers: "Half of the channels that should rotate stay, and the frequencies of the others fall twice as fast: \
                  text is garbled soon after the first tokens.",
        mend: "Apply partial_rotary_factor once: rotary_dim of config.json has it already.",
        wrong: "rotary_dim = int(config.rotary_dim * config.partial_rotary_factor)",
        right: "rotary_dim = config.rotary_dim",
    },
    Lesson {
        name: "rope_last_half",
        numbers: "The channels that carry positions are others than those that were trained to: all rotated values \
                  are wrong but those of position 0.",
        mend: "Rotate the first rotary_dim channels of each head, and pass the rest.",
        wrong: "q_pass, q_rot = q.split([head_dim - rotary_dim, rotary_dim], dim=-1)",
        right: "q_rot, q_pass = q.split([rotary_dim, head_dim - rotary_dim], dim=-1)",
    },
    Lesson {
        name: "rope_interleaved",
        numbers: "Each pair turns by another pair's angle, in channels that do not belong together. Position 0 is \
                  right; beyond it queries and keys keep their lengths, so that nothing looks broken but the scores.",
        mend: "Pair channel i with i + rotary_dim / 2 (rotate_half; is_neox in vLLM), or permute the projections' \
               rows when they are loaded, both of them.",
        wrong: "x1, x2 = x[..., 0::2], x[..., 1::2]",
        right: "x1, x2 = x[..., : rotary_dim // 2], x[..., rotary_dim // 2 : rotary_dim]",
    },
    Lesson {
        name: "rope_wrong_dim_in_freq",
        numbers: "Frequencies fall more slowly from channel to channel than they should. The first channel is right, \
                  the last ones turn far too fast: a drift that grows with the position.",
        mend: "Divide the exponent by the number of channels that rotate.",
        wrong: "inv_freq = theta ** -(torch.arange(0, rotary_dim, 2) / head_dim)",
        right: "inv_freq = theta ** -(torch.arange(0, rotary_dim, 2) / rotary_dim)",
    },
    Lesson {
        name: "rope_theta_500k",
        numbers: "All frequencies but the first are too high, where the released base is 5,000,000: near tokens look \
                  almost right, far ones do not, and long contexts fail first.",
        mend: "Read rope_theta from config.json, of the text model's part where there are several.",
        wrong: "theta = 500_000.0",
        right: "theta = config.rope_theta",
    },
    Lesson {
        name: "rope_theta_10k",
        numbers: "All frequencies but the first are far too high: the error is visible after a few tokens and grows \
                  with the distance.",
        mend: "Read rope_theta from config.json; 10,000 is the default of libraries that did not find the field.",
        wrong: "theta = getattr(config, \"rope_base\", 10_000.0)",
        right: "theta = config.rope_theta",
    },
    Lesson {
        name: "rope_position_offset",
        numbers: "From that token on each is a place off with respect to those before it; among themselves they are \
                  right, since a shift of all positions cancels in the scores.",
        mend: "Let a chunk or decode step begin at the number of tokens before it, neither one more nor one less.",
        wrong: "position = cache.length + 1",
        right: "position = cache.length  # the first token has position 0",
    },
    Lesson {
        name: "rope_bf16_position",
        numbers: "Up to position 256 nothing happens. Beyond it neighbours share a position, two by two, then four by \
                  four.",
        mend: "Keep positions as integers, and widen them to float32 where angles are made.",
        wrong: "positions = torch.arange(n, dtype=torch.bfloat16)",
        right: "positions = torch.arange(n)  # int64; .float() beside inv_freq",
    },
    Lesson {
        name: "rope_before_norm",
        numbers: "The root mean square of a row is the same before and after a rotation, but the norm's weights meet \
                  channels that are mixed already: small where weights are alike, and zero at position 0.",
        mend: "Norm queries and keys first, then rotate them.",
        wrong: "q = q_norm(rotate(q, positions))",
        right: "q = rotate(q_norm(q), positions)",
    },
    Lesson {
        name: "kv_cache_pre_rope",
        numbers: "Keys carry no position, queries do: scores depend on the query's own position instead of the \
                  distance.",
        mend: "Rotate keys before they are stored, or whenever they are read; once, not never.",
        wrong: "cache.update(k, v); q = rotate(q, positions)",
        right: "q, k = rotate(q, positions), rotate(k, positions); cache.update(k, v)",
    },
    Lesson {
        name: "rope_missing",
        numbers: "Attention does not know the order of tokens but for the mask: position 0 is right, all else is \
                  wrong.",
        mend: "Apply the rotation to queries and keys; look whether a table of cosines stayed at ones.",
        wrong: "scores = q @ k.transpose(-1, -2) * scale",
        right: "scores = rotate(q, positions) @ rotate(k, positions).transpose(-1, -2) * scale",
    },
];
