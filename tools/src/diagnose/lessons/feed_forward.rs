//! Of SwiGLU-OAI, and of the sum of routed and shared experts.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "swiglu_params_dropped",
        numbers: "silu(g)·u stands for (u′ + 1)·g′·σ(1.702·g′): a cosine of 0.97 in one layer, and no likeness after \
                  all of them.",
        mend: "Hand alpha, beta and the limit on to the fused kernel; its defaults are plain SwiGLU.",
        wrong: "hidden = F.silu(gate) * up",
        right: "hidden = (up.clamp(-L, L) + 1) * gate.clamp(max=L) * torch.sigmoid(alpha * gate.clamp(max=L))",
    },
    Lesson {
        name: "swiglu_clamp_symmetric",
        numbers: "Gates below −7 become −7: there g·σ(1.702·g) is −5·10⁻⁵ at most, so that hidden units, which are at \
                  most eight times that, hardly change.",
        mend: "Clamp the gate from above alone, as the released model does.",
        wrong: "gate = gate.clamp(-limit, limit)",
        right: "gate = gate.clamp(max=limit)",
    },
    Lesson {
        name: "swiglu_clamp_upper",
        numbers: "Gates below −7 stay as they are, where document 001 is read to clamp them: hidden units differ by \
                  at most 4·10⁻⁴.",
        mend: "Decide which is meant: --semantics gate_clamp=upper is the released model's, symmetric document 001's.",
        wrong: "gate = gate.clamp(max=limit)",
        right: "gate = gate.clamp(-limit, limit)",
    },
    Lesson {
        name: "swiglu_no_clamp",
        numbers: "Values within the limit are right; gates above 7 or up projections beyond ±7 make hidden units that \
                  are too large, in few tokens.",
        mend: "Clamp the gate from above and the up projection to both sides (swiglu_limit).",
        wrong: "hidden = (up + 1) * gate * torch.sigmoid(alpha * gate)",
        right: "gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)",
    },
    Lesson {
        name: "swiglu_up_no_plus_one",
        numbers: "Each hidden unit lacks g′·σ(α·g′), which is most of it where the up projection is small.",
        mend: "Add β = 1 to the clamped up projection.",
        wrong: "hidden = up * gate * torch.sigmoid(alpha * gate)",
        right: "hidden = (up + 1) * gate * torch.sigmoid(alpha * gate)",
    },
    Lesson {
        name: "swiglu_up_clamp",
        numbers: "Only up projections beyond the limit are off: by β where the sum is clamped, by all that is beyond \
                  where they are not.",
        mend: "Clamp up to both sides, then add β.",
        wrong: "up = (up + 1).clamp(-limit, limit)",
        right: "up = up.clamp(-limit, limit) + 1",
    },
    Lesson {
        name: "routed_scale_missing",
        numbers: "The routed experts' share is half of what it should be, beside a shared expert that is right.",
        mend: "Multiply the routed sum by routed_scaling_factor (2 for M3).",
        wrong: "y = routed + shared",
        right: "y = routed_scaling_factor * routed + shared",
    },
    Lesson {
        name: "routed_scale_twice",
        numbers: "The routed experts' share is twice what it should be: the factor is in the routing weights and in \
                  the sum.",
        mend: "Apply routed_scaling_factor in one place: in the weights, or to the sum.",
        wrong: "y = factor * moe(x, weights * factor) + shared",
        right: "y = moe(x, weights * factor) + shared",
    },
    Lesson {
        name: "shared_scaled",
        numbers: "The shared expert's share is double or half; routed experts are right.",
        mend: "Keep the shared expert out of the factor, and out of a second all-reduce.",
        wrong: "y = factor * (routed + shared)",
        right: "y = factor * routed + shared",
    },
    Lesson {
        name: "shared_unnormed",
        numbers: "The shared expert sees a stream that grows from layer to layer: its clamped units saturate.",
        mend: "Give it the same normed hidden state as the router.",
        wrong: "y = factor * routed(norm(h)) + shared(h)",
        right: "x = norm(h); y = factor * routed(x) + shared(x)",
    },
    Lesson {
        name: "shared_missing",
        numbers: "Of the five experts that a token of M3 goes through one is missing, the one that all tokens have.",
        mend: "Load shared_experts.* and add its output.",
        wrong: "y = factor * routed",
        right: "y = factor * routed + shared_experts(x)",
    },
];
