//! Of the experts, and of the networks like them.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "w1_w3_swapped",
        numbers: "The product silu(w3·x) ⊙ w1·x has about the right size and is wrong in every element: garbage that \
                  looks plausible.",
        mend: "Stack w1 first, then w3, and apply the nonlinearity to the first half; check which order the kernel \
               expects.",
        wrong: "gate_up = torch.cat([w3, w1])",
        right: "gate_up = torch.cat([w1, w3])  # silu on the first half",
    },
    Lesson {
        name: "halves_interleaved",
        numbers: "Each hidden unit's gate meets another unit's up projection: shapes fit, every element is wrong.",
        mend: "Split the stacked output where it was stacked: halves here, alternate rows in gpt-oss.",
        wrong: "gate, up = y[..., 0::2], y[..., 1::2]",
        right: "gate, up = y.chunk(2, dim=-1)",
    },
    Lesson {
        name: "w2_transposed",
        numbers: "Where hidden and intermediate size are equal nothing fails, and the outputs are unrelated to the \
                  right ones.",
        mend: "nn.Linear stores [out, in], x @ w takes [in, out]: transpose w2 where the kernel asks for it, and \
               nowhere else.",
        wrong: "y = hidden @ w2",
        right: "y = hidden @ w2.T",
    },
    Lesson {
        name: "nongated",
        numbers: "Hidden units lack the factor w3·x: their size and sign are wrong.",
        mend: "Use the gated network, with w3.",
        wrong: "y = w2(F.silu(w1(x)))",
        right: "y = w2(F.silu(w1(x)) * w3(x))",
    },
    Lesson {
        name: "activation_gelu",
        numbers: "GELU differs from SiLU by up to 0.2, ReLU by up to 0.28, most where a gate is near 2 or −2, for \
                  ReLU near 1.3: large gates are nearly right.",
        mend: "Read hidden_act: silu.",
        wrong: "hidden = F.gelu(w1(x)) * w3(x)",
        right: "hidden = F.silu(w1(x)) * w3(x)",
    },
    Lesson {
        name: "weights_on_input",
        numbers: "Experts are not linear: with inputs that are smaller by the weight, gate and up projection shrink \
                  both, and outputs by more than the weight.",
        mend: "Multiply the outputs (apply_router_weight_on_input=False).",
        wrong: "out += expert(weight * x)",
        right: "out += weight * expert(x)",
    },
    Lesson {
        name: "expert_map_shift",
        numbers: "Experts 0 and 1 are right, nearly each from the third on is another's: choices and weights are \
                  right, outputs are not.",
        mend: "Sort by the number in a tensor's name, not by the name.",
        wrong: "names = sorted(weights)  # experts.10 before experts.2",
        right: "names = sorted(weights, key=lambda name: int(name.split(\".\")[5]))",
    },
];
