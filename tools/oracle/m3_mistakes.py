"""Known mistakes of M3 implementations."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
from attention_mistakes import attention_mistakes
from expert_mistakes import expert_mistakes
from m3_indexer_mistakes import INDEXER_MISTAKES
from m3_mask_mistakes import MASK_MISTAKES
from mistakes import Inject, Mistake, everywhere, expert_blocks
from rotary_mistakes import rotary_mistakes
from router_mistakes import WeighedExperts, shared_unnormed
from torch import Tensor, nn
from torch.nn import functional
from transformers import MiniMaxM3VLForCausalLM
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as library


def _router(weigh: WeighedExperts) -> Inject:
    def wrong(self: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = functional.linear(x.reshape(-1, self.hidden_dim).to(self.weight.dtype), self.weight)
        return logits, *weigh(logits, self.e_score_correction_bias, self.top_k)

    return lambda model: patch.object(library.MiniMaxM3VLTopKRouter, "forward", wrong)


def _norm(wrong: Callable[[Tensor, Tensor, float], Tensor]) -> Inject:
    """Replaces every RMSNorm by a function of its input, its stored weight and ε."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return wrong(x.float(), self.weight.float(), self.eps).type_as(x)

    return lambda model: patch.object(library.MiniMaxM3VLRMSNorm, "forward", forward)


def _qk_full(model: MiniMaxM3VLForCausalLM) -> AbstractContextManager[object]:
    def wrong(norm: nn.Module) -> Callable[[Tensor], Tensor]:
        def forward(x: Tensor) -> Tensor:
            scaled = x.float() * (x.float().pow(2).mean((-2, -1), keepdim=True) + norm.eps).rsqrt()
            return (scaled * (1 + norm.weight.float())).type_as(x)

        return forward

    norms = [norm for layer in model.model.layers for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm)]
    return everywhere(patch.object(norm, "forward", wrong(norm)) for norm in norms)


def _activation(wrong: Callable[[nn.Module, Tensor], Tensor]) -> Inject:
    """Replaces the activation of routed experts, shared experts and dense layers, a function of gates and ups."""

    def dense(self: nn.Module, x: Tensor) -> Tensor:
        return self.down_proj(wrong(self, self.gate_up_proj(x)))

    return lambda model: everywhere(
        (
            patch.object(library.MiniMaxM3VLExperts, "_apply_gate", wrong),
            patch.object(library.MiniMaxM3VLDenseMLP, "forward", dense),
        )
    )


def _swiglu_oai(mlp: nn.Module, gate: Tensor, up: Tensor) -> Tensor:
    return (up + 1) * (gate * torch.sigmoid(gate * mlp.swiglu_alpha))


def _clamp_symmetric(mlp: nn.Module, gate_up: Tensor) -> Tensor:
    return _swiglu_oai(mlp, *gate_up.clamp(-mlp.swiglu_limit, mlp.swiglu_limit).chunk(2, dim=-1))


def _no_clamp(mlp: nn.Module, gate_up: Tensor) -> Tensor:
    return _swiglu_oai(mlp, *gate_up.chunk(2, dim=-1))


def _clamped(mlp: nn.Module, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return gate.clamp(max=mlp.swiglu_limit), up.clamp(-mlp.swiglu_limit, mlp.swiglu_limit)


def _up_no_plus_one(mlp: nn.Module, gate_up: Tensor) -> Tensor:
    gate, up = _clamped(mlp, *gate_up.chunk(2, dim=-1))
    return _swiglu_oai(mlp, gate, up - 1)


def _sum_clamped(mlp: nn.Module, gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    gate, both = _clamped(mlp, gate, up + 1)
    return _swiglu_oai(mlp, gate, both - 1)


def _interleaved(mlp: nn.Module, gate_up: Tensor) -> Tensor:
    return _swiglu_oai(mlp, *_clamped(mlp, gate_up[..., ::2], gate_up[..., 1::2]))


def _plain_silu(mlp: nn.Module, gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def _routed_scale(power: int) -> Inject:
    return lambda model: everywhere(
        patch.object(block, "routed_scaling_factor", block.routed_scaling_factor**power)
        for block in expert_blocks(model)
    )


def _shared(change: Callable[[Tensor, float], Tensor]) -> Inject:
    """Changes what the shared expert returns; the second argument is the factor of the routed experts."""

    def wrong(block: nn.Module) -> Callable[[Tensor], Tensor]:
        forward = block.shared_experts.forward
        return lambda x: change(forward(x), block.routed_scaling_factor)

    return lambda model: everywhere(
        patch.object(block.shared_experts, "forward", wrong(block)) for block in expert_blocks(model)
    )


MISTAKES = (
    rotary_mistakes(library)
    | attention_mistakes(library)
    | expert_mistakes(_router)
    | INDEXER_MISTAKES
    | MASK_MISTAKES
    | {
        "qk_full_on_M3": Mistake("q and k are normalized over the whole projection, not head by head", _qk_full),
        "gemma_missing_plus_one": Mistake(
            "every RMSNorm multiplies by the stored weight, not by it plus one",
            _norm(lambda x, w, eps: x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * w),
        ),
        "eps_outside": Mistake(
            "every RMSNorm adds 1e-8 to the root mean square, not epsilon under the root",
            _norm(lambda x, w, eps: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-8) * (1 + w)),
        ),
        "swiglu_clamp_symmetric": Mistake("gates are clamped from below too", _activation(_clamp_symmetric)),
        "swiglu_no_clamp": Mistake("gates and ups are not clamped", _activation(_no_clamp)),
        "swiglu_up_no_plus_one": Mistake("ups are not increased by one", _activation(_up_no_plus_one)),
        "swiglu_params_dropped": Mistake("the activation is SwiGLU: no clamp, alpha or one", _activation(_plain_silu)),
        "halves_interleaved": Mistake("gates and ups are read in turns, not as halves", _activation(_interleaved)),
        "swiglu_up_clamp": Mistake("ups are clamped together with their one", _activation(_sum_clamped)),
        "routed_scale_missing": Mistake("the routed experts' sum is not scaled", _routed_scale(0)),
        "routed_scale_twice": Mistake("the routed experts' sum is scaled twice", _routed_scale(2)),
        "shared_scaled": Mistake(
            "the shared expert is scaled as the routed ones are", _shared(lambda y, factor: factor * y)
        ),
        "shared_unnormed": Mistake("the shared expert reads the stream, not its norm", shared_unnormed),
        "shared_missing": Mistake("the shared expert is left out", _shared(lambda y, factor: torch.zeros_like(y))),
    }
)
