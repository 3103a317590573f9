//! Of the residual stream, and of the end of the model.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "residual_scaled",
        numbers: "The stream is multiplied at each block, so that it grows exponentially with the layers, and what a \
                  block adds vanishes beside it.",
        mend: "Add to the stream as it is: the α of MiniMax-Text-01 is not in M2 or M3.",
        wrong: "h = alpha * h + attention(norm(h))",
        right: "h = h + attention(norm(h))",
    },
    Lesson {
        name: "block_scaled",
        numbers: "A block contributes a constant times what it should; the direction of its output is right.",
        mend: "Add each block's output once: look for a second sum in a fused kernel, or a second all-reduce.",
        wrong: "h, x = add_rms_norm(h + mlp(x), mlp(x))",
        right: "h, x = add_rms_norm(h, mlp(x))",
    },
    Lesson {
        name: "block_left_out",
        numbers: "What the block computes is right and has no effect: the stream is the one that went in.",
        mend: "Add the block's output; an in-place sum into a copy is lost.",
        wrong: "h.clone().add_(attention(x))",
        right: "h = h + attention(x)",
    },
    Lesson {
        name: "residual_left_out",
        numbers: "The stream forgets all earlier layers at each block, and has the block's scale.",
        mend: "Add the block's output to what the block's norm read.",
        wrong: "h = attention(norm(h))",
        right: "h = h + attention(norm(h))",
    },
    Lesson {
        name: "residual_after_norm",
        numbers: "The stream is scaled to unit length at each block before it is added to: the early layers' share is \
                  lost bit by bit.",
        mend: "Keep the input of the norm for the sum.",
        wrong: "x = norm(h); h = x + attention(x)",
        right: "h = h + attention(norm(h))",
    },
    Lesson {
        name: "parallel_blocks",
        numbers: "The feed-forward network does not see what attention of the same layer found; both are added to the \
                  stream.",
        mend: "Norm the stream again behind attention's sum.",
        wrong: "h = h + attention(norm1(h)) + mlp(norm2(h))",
        right: "h = h + attention(norm1(h)); h = h + mlp(norm2(h))",
    },
    Lesson {
        name: "norm_without_residual",
        numbers: "The feed-forward network sees attention's output alone; the stream itself is right up to there.",
        mend: "Give the fused kernel the residual: it returns the sum, and its norm.",
        wrong: "x = norm2(attention_output)",
        right: "h = h + attention_output; x = norm2(h)",
    },
    Lesson {
        name: "logits_shifted",
        numbers: "Every row is a right row of logits, of the neighbouring token: the model seems to predict what it \
                  was given, or one further.",
        mend: "Take the rows of the tokens asked for; the last is n − 1, and shifting is the loss's affair.",
        wrong: "logits = lm_head(hidden.roll(1, 0))",
        right: "logits = lm_head(hidden)",
    },
];
