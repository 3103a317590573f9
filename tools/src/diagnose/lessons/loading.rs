//! Of loading.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "missing_keys_ignored",
        numbers: "The operator gives zeros for every input, or a norm's rows vanish: what follows in its branch is \
                  zero or uniform, and the stream goes on without it.",
        mend: "Load strictly, and read the list of missing and unexpected keys; map the checkpoint's names, index \
               branch included.",
        wrong: "model.load_state_dict(weights, strict=False)",
        right: "missing, unexpected = model.load_state_dict(weights, strict=False); assert not missing and not \
                unexpected",
    },
    Lesson {
        name: "head_tied",
        numbers: "All layers are right. Logits are those of the embedding's rows: of the right size, and unrelated.",
        mend: "Load lm_head.weight where tie_word_embeddings is false.",
        wrong: "lm_head.weight = embed_tokens.weight",
        right: "lm_head.weight = checkpoint[\"lm_head.weight\"]",
    },
];
