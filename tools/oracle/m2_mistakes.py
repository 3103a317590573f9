"""Known mistakes of M2 implementations."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

from mistakes import Inject, Mistake, WeighedExperts, common, everywhere
from torch import Tensor, nn
from torch.nn import functional
from transformers import MiniMaxM2ForCausalLM
from transformers.models.minimax_m2 import modeling_minimax_m2 as library


def _qk_per_head(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    head_dim = model.config.head_dim

    def wrong(norm: nn.Module) -> Callable[[Tensor], Tensor]:
        def forward(x: Tensor) -> Tensor:
            heads = x.float().unflatten(-1, (-1, head_dim))
            scaled = heads * (heads.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()
            return norm.weight * scaled.flatten(-2).to(x.dtype)

        return forward

    norms = [norm for layer in model.model.layers for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm)]
    return everywhere(patch.object(norm, "forward", wrong(norm)) for norm in norms)


def _eps_outside(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    def wrong(self: nn.Module, x: Tensor) -> Tensor:
        root = x.float().pow(2).mean(-1, keepdim=True).sqrt()
        return self.weight * (x.float() / (root + 1e-8)).to(x.dtype)

    return patch.object(library.MiniMaxM2RMSNorm, "forward", wrong)


def _router(weigh: WeighedExperts) -> Inject:
    def wrong(self: nn.Module, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = functional.linear(x.reshape(-1, self.hidden_dim).to(self.weight.dtype), self.weight)
        return logits, *weigh(logits, bias, self.top_k)

    return lambda model: patch.object(library.MiniMaxM2TopKRouter, "forward", wrong)


MISTAKES = common(library, _router) | {
    "qk_per_head_on_M2": Mistake("q and k are normalized head by head, not over the whole projection", _qk_per_head),
    "eps_outside": Mistake("every RMSNorm adds 1e-8 to the root mean square, not epsilon under the root", _eps_outside),
}
