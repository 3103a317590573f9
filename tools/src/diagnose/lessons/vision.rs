//! Of the vision tower, and of the projector behind it.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "conv_weight_order",
        numbers: "Colours and frames are multiplied by each other's weights: every patch is off from the first \
                  operator on.",
        mend: "Flatten the convolution's weight and the patches in the same order: colour, time, row, column.",
        wrong: "weight = conv.weight.permute(0, 2, 1, 3, 4).flatten(1)",
        right: "weight = conv.weight.flatten(1)  # [out, C, T, h, w]",
    },
    Lesson {
        name: "rope3d_axis_contiguous",
        numbers: "Channels are paired with others of the same axis instead of half the width away: each pair turns by \
                  a right angle of the wrong channel.",
        mend: "Put the angles of all axes side by side, double them, and pair i with i + half.",
        wrong: "q = torch.cat([rotate_half_of(part, axis) for axis, part in enumerate(q.split(sizes, -1))], -1)",
        right: "q = q * cos + rotate_half(q) * sin  # cos of [t, h, w, t, h, w]",
    },
    Lesson {
        name: "video_t_not_reset",
        numbers: "The first chunk is right; in others all times are shifted alike, which cancels within a chunk's \
                  attention: tables and rotated values differ, contexts hardly do.",
        mend: "Let the time of each chunk begin at 0.",
        wrong: "t = torch.arange(total_frames)",
        right: "t = torch.cat([torch.arange(frames) for frames in chunks])",
    },
    Lesson {
        name: "vision_global_attention",
        numbers: "One image is right. With several each patch attends to all of them, and the features of an image \
                  depend on its neighbours in the batch.",
        mend: "Give attention the images' boundaries (cu_seqlens).",
        wrong: "out = attention(q, k, v)",
        right: "out = varlen_attention(q, k, v, cu_seqlens)",
    },
    Lesson {
        name: "vision_causal",
        numbers: "The last patch of an image is right in the first layer; the first sees itself alone.",
        mend: "Use no mask within an image: is_causal=False.",
        wrong: "out = attention(q, k, v, is_causal=True)",
        right: "out = attention(q, k, v, is_causal=False)",
    },
    Lesson {
        name: "vision_frames_apart",
        numbers: "Images are right. In a video each pair of frames is by itself: nothing moves.",
        mend: "Let a segment be a chunk of a video with all of its times.",
        wrong: "cu_seqlens = cumulative(h * w for _ in range(t))",
        right: "cu_seqlens = cumulative([t * h * w])",
    },
    Lesson {
        name: "vision_positions_raster",
        numbers: "Patches come in squares of 2 × 2 and are rotated as if row by row: right in images one token wide, \
                  else wrong in most patches.",
        mend: "Make row and column ids in the order of the squares.",
        wrong: "h, w = ids // width, ids % width",
        right: "h = rows.view(H // m, m, W // m, m).permute(0, 2, 1, 3).flatten()  # w alike",
    },
    Lesson {
        name: "vision_axes_exchanged",
        numbers: "Rows turn the channels of columns or of time: pictures are seen transposed, or without an axis.",
        mend: "Order the angles as time, height, width.",
        wrong: "angles = torch.cat([t, w, h], -1)",
        right: "angles = torch.cat([t, h, w], -1)",
    },
    Lesson {
        name: "rope3d_interleaved",
        numbers: "Pairs are of neighbouring channels: queries and keys keep their lengths, scores are wrong beyond \
                  the first patch.",
        mend: "Use rotate_half over all channels that rotate.",
        wrong: "x1, x2 = x[..., 0::2], x[..., 1::2]",
        right: "x1, x2 = x.chunk(2, -1)",
    },
    Lesson {
        name: "gelu_tanh",
        numbers: "Each activation is off by at most 5·10⁻⁴, in f32 visible everywhere, in bf16 often less than a \
                  rounding.",
        mend: "Use the exact GELU, which is the default of F.gelu.",
        wrong: "F.gelu(x, approximate=\"tanh\")",
        right: "F.gelu(x)",
    },
    Lesson {
        name: "gelu_quick",
        numbers: "Each activation is off by up to 0.02, most where x is near 2 or −2: visible in bf16, too.",
        mend: "Use the exact GELU: hidden_act is gelu, not quick_gelu.",
        wrong: "x * torch.sigmoid(1.702 * x)",
        right: "F.gelu(x)",
    },
    Lesson {
        name: "pixels_bf16",
        numbers: "Pixels have eight bits behind the normalization, so that patches are off by some per mille.",
        mend: "Keep pixel_values in the model's type; do not cast them when inputs are sent to the device.",
        wrong: "pixel_values = processor(...).pixel_values.to(torch.bfloat16)",
        right: "pixel_values = processor(...).pixel_values.to(model.dtype)",
    },
    Lesson {
        name: "features_misplaced",
        numbers: "All features are right and stand at other tokens: the model sees images exchanged, or shifted by a \
                  token.",
        mend: "Scatter features in the order of the placeholders, images and videos each by their own token id.",
        wrong: "embeds[start - 1 : start - 1 + n] = features",
        right: "embeds.masked_scatter_(ids.eq(image_token_id)[..., None], features)",
    },
    Lesson {
        name: "post_layernorm_applied",
        numbers: "The tower's output is scaled to unit length, by weights that were never loaded.",
        mend: "Leave post_layernorm out: no checkpoint has it.",
        wrong: "features = projector(post_layernorm(hidden))",
        right: "features = projector(hidden)",
    },
    Lesson {
        name: "merge_order_rowmajor",
        numbers: "A token is made of four patches that are not a square, or of a square's patches in another order.",
        mend: "Take each four patches in a row, as they come.",
        wrong: "x = x.view(H // 2, 2, W // 2, 2, d).transpose(1, 2).reshape(-1, 4 * d)",
        right: "x = x.view(-1, 4 * d)",
    },
];
