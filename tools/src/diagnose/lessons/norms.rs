//! Of the norms.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "qk_per_head_on_M2",
        numbers: "Each head is scaled to unit length by itself, so that heads which should be quiet are as loud as \
                  the others: every head is off by a factor of its own, the same for all of its channels.",
        mend: "Norm the flat projection before it is split into heads; the weight has n_heads · head_dim elements. A \
               norm behind the reshape into heads (document 002, section 3: qk_after_reshape_on_M2) is the same mistake.",
        wrong: "q = q_norm(q.view(n, n_heads, head_dim))",
        right: "q = q_norm(q).view(n, n_heads, head_dim)",
    },
    Lesson {
        name: "qk_full_on_M3",
        numbers: "One mean square stands for all heads: each head is off by a factor of its own, loud heads too large \
                  and quiet ones too small.",
        mend: "Split into heads, then norm each, where qk_norm_type is per_head; the weight has head_dim elements.",
        wrong: "q = (q_norm_weight.repeat(n_heads) * rms(q)).view(n, n_heads, head_dim)",
        right: "q = q_norm(q.view(n, n_heads, head_dim))",
    },
    Lesson {
        name: "qk_local_variance_TP",
        numbers: "Each device's heads are scaled by those heads' own mean square: a factor for each device, and \
                  results that depend on how many devices there are. Text repeats or is garbled.",
        mend: "All-reduce the sum of squares before the root, in float32. A fused all-reduce needs a workspace of the \
               sums' own size: one of another size is said to have given wrong sums (knorm_allreduce_workspace_mismatch), \
               which is unconfirmed, and has no entry of its own.",
        wrong: "variance = q_local.float().pow(2).mean(-1, keepdim=True)",
        right: "variance = all_reduce(q_local.float().pow(2).sum(-1, keepdim=True)) / full_width",
    },
    Lesson {
        name: "qk_rank_const",
        numbers: "The first device is right. All others multiply by the wrong channels' weights: each channel is off \
                  by a factor of its own, the same for every token.",
        mend: "Take the rank where the code runs, not where it is traced: a Python constant in a compiled graph is \
               rank 0 everywhere.",
        wrong: "rank = int(get_rank()); w = weight.chunk(world)[rank]  # traced once",
        right: "w = weight_of_this_rank  # loaded as a sharded parameter",
    },
    Lesson {
        name: "qk_divisor_padded_q",
        numbers: "All queries are too large by one factor, √(64/48) = 1.155 with 64 devices: scores are, too, and the \
                  softmax is too sharp.",
        mend: "Divide the sum of squares by the number of real channels, not by the width with padding heads.",
        wrong: "variance = all_reduce(q.pow(2).sum(-1)) / (world * heads_per_rank * head_dim)",
        right: "variance = all_reduce(q.pow(2).sum(-1)) / (n_heads * head_dim)",
    },
    Lesson {
        name: "qk_divisor_unreplicated_k",
        numbers: "All keys are too small by one factor, 1/√8 = 0.354 with eight replicas: scores are, too, and the \
                  softmax is too flat.",
        mend: "Count each key head once, or divide by the width with its replicas.",
        wrong: "variance = all_reduce(k.pow(2).sum(-1)) / (n_kv_heads * head_dim)  # sums each head 8 times",
        right: "variance = all_reduce(k.pow(2).sum(-1)) / (replicas * n_kv_heads * head_dim)",
    },
    Lesson {
        name: "knorm_elementwise_repeat",
        numbers: "Each channel of a key is multiplied by another channel's weight; the root mean square before it is \
                  right.",
        mend: "Repeat the weight head by head, in the order in which the heads are replicated.",
        wrong: "weight = weight.repeat_interleave(replicas)[: k.shape[-1]]",
        right: "weight = weight.view(n_kv_heads, head_dim).repeat_interleave(replicas, 0).flatten()",
    },
    Lesson {
        name: "knorm_shard_when_tp_gt_kv",
        numbers: "A rank has a whole key head, but K·D/R of the norm's weights: where that is repeated or read on past \
                  its end, all channels but the first of each head are multiplied by others' weights. Elsewhere the \
                  shapes do not match, which is an error rather than a wrong answer.",
        mend: "Cut the key norm by key heads, not by ranks: rank r takes the part of head r // (R // K).",
        wrong: "shard = weight.numel() // tp_size; weight[rank * shard : (rank + 1) * shard]",
        right: "head = rank * n_kv_heads // tp_size; weight[head * head_dim : (head + 1) * head_dim]",
    },
    Lesson {
        name: "gemma_plus_one_on_M2",
        numbers: "Every norm's output is (1 + w)/w times what it should be: about double where weights are near 1, \
                  and without a limit where they are near 0.",
        mend: "Multiply by w for M2; 1 + w belongs to M3 (use_gemma_norm).",
        wrong: "y = (1 + weight) * rms(x)",
        right: "y = weight * rms(x)",
    },
    Lesson {
        name: "gemma_missing_plus_one",
        numbers: "Weights are stored around 0, so that norms put out nearly nothing: the stream's blocks fall silent.",
        mend: "Multiply by 1 + w in every norm of M3's text model, those of queries, keys and the index branch \
               included; or add 1 when weights are loaded, once.",
        wrong: "y = weight * rms(x)",
        right: "y = (1 + weight) * rms(x)",
    },
    Lesson {
        name: "eps_outside",
        numbers: "Rows of usual size are the same to the last bits. Rows whose root mean square is near ε or √ε, such \
                  as those of rare embeddings, come out larger.",
        mend: "Add ε to the mean square, inside the root.",
        wrong: "y = weight * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps)",
        right: "y = weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)",
    },
    Lesson {
        name: "layer_norm_for_rms",
        numbers: "The mean of each row is missing from its output, and the rest is longer for it: small where rows \
                  have no mean, large in the few rows that do.",
        mend: "Use RMSNorm, which takes off no mean and adds no bias.",
        wrong: "y = F.layer_norm(x, (d,), weight, None, eps)",
        right: "y = F.rms_norm(x, (d,), weight, eps)",
    },
    Lesson {
        name: "final_norm_missing",
        numbers: "All layers are right. Logits have the stream's scale, which differs from token to token, and lack \
                  the weight.",
        mend: "Norm the last layer's output before the head; where norms are fused with the next layer's sum, the \
               last one has no next layer.",
        wrong: "logits = lm_head(hidden)",
        right: "logits = lm_head(norm(hidden))",
    },
    Lesson {
        name: "qk_norm_missing",
        numbers: "Queries and keys have the projections' lengths: scores are off by a factor of both lengths, at \
                  every token.",
        mend: "Norm both between projection and rotation.",
        wrong: "q, k = rotate(q_proj(x)), rotate(k_proj(x))",
        right: "q, k = rotate(q_norm(q_proj(x))), rotate(k_norm(k_proj(x)))",
    },
    Lesson {
        name: "qk_norm_not_on_k",
        numbers: "Queries are right, keys have the projection's lengths: keys of long rows draw too much attention.",
        mend: "Norm keys by k_norm's weight, too.",
        wrong: "q, k = q_norm(q_proj(x)), k_proj(x)",
        right: "q, k = q_norm(q_proj(x)), k_norm(k_proj(x))",
    },
    Lesson {
        name: "qk_norm_on_v",
        numbers: "Probabilities are right; values have unit length times the key norm's weight, so that contexts are \
                  wrong everywhere, position 0 included.",
        mend: "Norm queries and keys alone; in a fused projection values are the last part.",
        wrong: "kv = k_norm(torch.cat([k, v]))",
        right: "k = k_norm(k)  # v as it is",
    },
];
