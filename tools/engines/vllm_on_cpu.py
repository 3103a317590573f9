"""vLLM's model classes on a processor, for which its wheel has no compiled kernels.

Real are the model classes with their modules, projections, norms (M2's), rotation and loading of weights. `stand_in`
puts plain torch in the place of what only a GPU computes: attention, the routed experts' products, the choice of
experts, and for M3 flashinfer's norms, the fused norm and rotation of queries and keys, and the choice of blocks. What
a stand-in computes proves nothing of vLLM; what goes into it and comes out of it, and what is made of that, does.

Checked with vLLM 0.33.0.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29571",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_TARGET_DEVICE": "cpu",
}

import torch
from torch import Tensor
from torch.nn import functional
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.forward_context import set_forward_context
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.fused_moe.experts import cpu_moe
from vllm.model_executor.layers.fused_moe.router.cpu_router import CPURouter
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.utils import initialize_model, process_weights_after_loading
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm_attention import attend, within_requests

STAND_INS = (
    "m2: self_attn.attn",
    "m2: block_sparse_moe.experts",
    "vision: input_layernorm, post_attention_layernorm and model.norm",
    "vision: what self_attn computes between qkv_proj and o_proj, and self_attn.indexer",
    "vision: block_sparse_moe.experts",
    "vision: the rotation of the vision tower",
)
"""What a stand-in computes, by case."""


def stand_in_attention() -> None:
    """Causal attention to what is in the call."""

    def forward(self: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Tensor:
        scale = getattr(self.impl, "scale", self.head_size**-0.5)
        return attend(query, key, value, (self.num_heads, self.num_kv_heads), scale, within_requests(len(query))[None])

    Attention.forward = forward
    RotaryEmbedding.forward_cpu = RotaryEmbedding.forward_native


def stand_in_experts() -> None:
    """Experts with vLLM's rounding points on a GPU: f32 sums, weighted outputs stored, then added in f32."""

    def activated(experts: Any, kind: Any, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.float().chunk(2, -1)
        if getattr(kind, "value", kind) == "silu":
            return (functional.silu(gate) * up).to(gate_up.dtype)
        config = experts.quant_config
        limit = config.gemm1_clamp_limit
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        hidden = gate * torch.sigmoid(config.gemm1_alpha * gate) * (up + config.gemm1_beta)
        return hidden.to(gate_up.dtype)

    def apply(
        self: Any,
        output: Tensor,
        hidden_states: Tensor,
        w1: Tensor,
        w2: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        activation: Any,
        *_: Any,
        **__: Any,
    ) -> None:
        total = torch.zeros(hidden_states.shape)
        for expert in range(len(w1)):
            token, slot = (topk_ids == expert).nonzero(as_tuple=True)
            hidden = activated(self, activation, hidden_states[token] @ w1[expert].T)
            weighted = (hidden.float() @ w2[expert].T.float()) * topk_weights[token, slot, None]
            total.index_add_(0, token, weighted.to(hidden_states.dtype).float())
        output.copy_(total)

    def route(self: Any, hidden_states: Tensor, router_logits: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        scores = router_logits.float().sigmoid()
        chosen = torch.topk(scores + self.e_score_correction_bias, self.top_k, dim=-1)[1]
        weights = scores.gather(1, chosen)
        return weights / weights.sum(-1, keepdim=True) * self.routed_scaling_factor, chosen.to(torch.int32)

    experts = cpu_moe.CPUUnquantizedExperts
    experts.apply = apply
    experts.process_weights_after_loading = lambda self, layer: None
    experts._supports_grouped_gemm = classmethod(lambda *_: (True, None))
    experts._supports_activation = staticmethod(lambda *_: True)
    experts.is_supported_config = staticmethod(lambda *_, **__: (True, None))
    cpu_moe.X86CPUUnquantizedExperts.is_supported_config = staticmethod(lambda *_, **__: (True, None))
    cpu_moe.X86CPUUnquantizedExperts.apply = apply
    CPURouter._compute_routing = route


@contextmanager
def model_of(folder: Path, dtype: str, family: str) -> Iterator[torch.nn.Module]:
    """The model of a checkpoint, ready to be called; `dtype` is vLLM's word for it."""
    stand_in_attention()
    stand_in_experts()
    if family != "m2":
        import vllm_m3_on_cpu

        vllm_m3_on_cpu.stand_in()
    arguments = EngineArgs(
        model=str(folder),
        skip_tokenizer_init=True,
        dtype=dtype,
        enforce_eager=True,
        max_model_len=256,
        max_num_batched_tokens=256,
    )
    config: VllmConfig = arguments.create_engine_config()
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, "env://", 0, "gloo")
        initialize_model_parallel(1, 1)
        with set_default_torch_dtype(config.model_config.dtype):
            model = initialize_model(vllm_config=config, model_config=config.model_config)
            DefaultModelLoader(config.load_config).load_weights(model, config.model_config)
            process_weights_after_loading(model, config.model_config, torch.device("cpu"))
        if family != "m2":
            vllm_m3_on_cpu.prepare(model)
        with set_forward_context(None, config), torch.no_grad():
            yield model.eval()
