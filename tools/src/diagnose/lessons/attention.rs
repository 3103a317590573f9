//! Of attention, and its cache.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "soft_cap",
        numbers: "Large scores are drawn together, small ones stay: the softmax is flatter where it should be \
                  sharpest.",
        mend: "Leave the cap out: in attention backends it is a parameter, which is 0 or None here.",
        wrong: "scores = cap * torch.tanh(scores / cap)",
        right: "scores = q @ k.transpose(-1, -2) * scale",
    },
    Lesson {
        name: "attention_sink",
        numbers: "Probabilities sum to less than 1, at every token: attention's output is too small, most where no \
                  key is relevant, and at position 0, where a single probability should be 1.",
        mend: "Divide by the sum over keys alone.",
        wrong: "p = scores.exp() / (scores.exp().sum(-1, keepdim=True) + 1)",
        right: "p = scores.softmax(-1)",
    },
    Lesson {
        name: "sliding_window",
        numbers: "Tokens up to the window are right; each behind it lacks the keys that are farther away, and its \
                  probabilities are spread over the near ones.",
        mend: "Let full layers see all keys: window size −1 or None, whatever a default or another model's config \
               says.",
        wrong: "attention(q, k, v, causal=True, window_size=(window, 0))",
        right: "attention(q, k, v, causal=True, window_size=(-1, -1))",
    },
    Lesson {
        name: "prefix_both_ways",
        numbers: "Tokens of the prefix see what comes after them, so that all but the prefix's last one are wrong, \
                  and all behind them follow. Chunks or decode steps cannot do the same: results depend on how a \
                  prompt is cut.",
        mend: "Use the plain causal mask for prompts, too.",
        wrong: "mask = causal | (columns < prefix)",
        right: "mask = columns <= rows",
    },
    Lesson {
        name: "query_temperature",
        numbers: "Queries, and so scores, grow with the logarithm of the position: early tokens are right, later ones \
                  attend more sharply than they should.",
        mend: "Do not scale queries by position; M2 and M3 have no such factor.",
        wrong: "q = q * (1 + beta * torch.log1p(positions // floor))[:, None]",
        right: "q = rotate(q_norm(q), positions)",
    },
    Lesson {
        name: "no_mask",
        numbers: "Every token sees the whole prompt. The last row is right in the first layer; all others have looked \
                  ahead, and a decode does not agree with its prefill.",
        mend: "Give the causal mask; where a mask for padding is given instead of it, both are needed.",
        wrong: "F.scaled_dot_product_attention(q, k, v)",
        right: "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
    },
    Lesson {
        name: "values_rotated",
        numbers: "Queries, keys and probabilities are right; attention sums values that are turned by their \
                  positions. Position 0 is right.",
        mend: "Rotate queries and keys alone; a fused kernel that takes q, k and v must be told so.",
        wrong: "q, k, v = (rotate(x, positions) for x in (q, k, v))",
        right: "q, k = rotate(q, positions), rotate(k, positions)",
    },
    Lesson {
        name: "kv_cache_narrow",
        numbers: "Keys or values have three or seven bits behind the point: scores and contexts are off by a few per \
                  cent in E4M3, by some per mille in bf16, with no bias, and values beyond 448 saturate in E4M3.",
        mend: "Keep the cache in the activations' type, or declare the narrow one and give it scales.",
        wrong: "cache.k = k.to(torch.float8_e4m3fn)",
        right: "cache.k = k",
    },
    Lesson {
        name: "kv_cache_read_narrow",
        numbers: "A call's own tokens are right among themselves; whatever it reads of earlier calls is rounded. \
                  Prefill in one call shows nothing, decode steps all do.",
        mend: "Compare a prompt in one call with the same in chunks: the cache's type must be the activations', or be \
               declared.",
        wrong: "k = torch.cat([cache.k.to(k.dtype), k])  # the cache is float8",
        right: "k = torch.cat([cache.k, k])  # the cache has k's type",
    },
    Lesson {
        name: "kv_cache_whole_pages",
        numbers: "The newest keys are missing until their page is full: errors come and go with the position, by the \
                  page's length.",
        mend: "Count keys, not pages: the last page's length belongs to the kernel's arguments.",
        wrong: "length = (n_keys // page_size) * page_size",
        right: "length = n_keys  # pages = ceil(n_keys / page_size)",
    },
    Lesson {
        name: "kv_cache_seam",
        numbers: "One row at each seam between calls is another token's or zero. A zero key takes a share of every \
                  later softmax, and gives nothing for it; the rest is right. Where nothing is seen of the calls before, a \
                  decode step's one probability is 1, and its context is its own value.",
        mend: "Write n new rows at places length to length + n − 1, then add n to the length.",
        wrong: "cache.k[length - 1 : length - 1 + n] = k",
        right: "cache.k[length : length + n] = k; length += n",
    },
    Lesson {
        name: "gqa_repeat_vs_tile",
        numbers: "Most query heads attend with another head's keys and values; shapes, lengths and sums are all \
                  plausible. Only heads for which both rules agree, such as the first, are right.",
        mend: "Repeat each key head for its neighbouring query heads (repeat_interleave), do not tile the list of \
               heads.",
        wrong: "k = k.repeat(1, n_heads // n_kv_heads, 1, 1)",
        right: "k = k.repeat_interleave(n_heads // n_kv_heads, dim=1)",
    },
    Lesson {
        name: "scale_missing",
        numbers: "Scores are √head_dim times too large (11.3 times for 128): the softmax is nearly a choice of one \
                  key. Position 0, with one key, is right.",
        mend: "Scale by head_dim ** -0.5 once, in the query or in the kernel.",
        wrong: "scores = q @ k.transpose(-1, -2)",
        right: "scores = q @ k.transpose(-1, -2) * head_dim**-0.5",
    },
    Lesson {
        name: "scale_hidden",
        numbers: "Scores are off by a constant factor, √2 for half the width: the softmax is too sharp or too flat, \
                  everywhere but at position 0.",
        mend: "Take the head's own width: not rotary_dim, and not hidden_size / n_heads, which differs here.",
        wrong: "scale = rotary_dim**-0.5",
        right: "scale = head_dim**-0.5",
    },
    Lesson {
        name: "causal_off_by_one",
        numbers: "Each token sees one that it should not, or lacks itself; without itself the first row has no key at \
                  all, and is NaN or a mean of everything.",
        mend: "Let query s see keys 0 to s, itself included; with a cache the offset is the number of keys before the \
               call.",
        wrong: "mask = columns <= rows + 1",
        right: "mask = columns <= rows",
    },
    Lesson {
        name: "softmax_bf16",
        numbers: "Scores have eight bits: a score of 20 is off by up to 0.06, so its probability by 6 %. Long rows \
                  are off most.",
        mend: "Widen scores to float32 for the softmax, and round the probabilities or only the output.",
        wrong: "p = scores.bfloat16().softmax(-1)",
        right: "p = scores.softmax(-1, dtype=torch.float32).to(q.dtype)",
    },
];
