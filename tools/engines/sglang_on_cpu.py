"""SGLang's model runner on a processor, without its compiled kernels.

Real are the runner, its batches and cache, attention in torch (`torch_native`), the experts in torch, norms and
rotation in torch; M3's Triton kernels of the indexer and of sparse attention run in Triton's interpreter, which in
bfloat16 gives nonsense. `stand_in` replaces M2's Triton norm of queries and keys, and torch's product that gives
another type. Imported before sglang. Checked with SGLang 0.5.23.
"""

import os
import sys
from types import ModuleType
from typing import Any

from making import Absent

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "SGLANG_ENABLE_TORCH_COMPILE": "0",
    "SGLANG_USE_CPU_ENGINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TRITON_INTERPRET": "1",
}

STAND_INS = ("m2: self_attn.q_norm and self_attn.k_norm, which no module shows",)
"""What a stand-in computes."""

COMPILED = ("sgl_kernel", "flashinfer", "deep_gemm", "flash_mla", "sgl_deep_gemm")
"""Packages of compiled kernels."""


class NoKernel:
    """Something in such a package: it can be named, and not be called."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    def __getattr__(self, member: str) -> "NoKernel":
        if member.startswith("__"):
            raise AttributeError(member)
        return NoKernel(f"{self.name}.{member}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(f"there is no kernel {self.name} on a CPU")

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoKernel) and other.name == self.name


class Package(ModuleType):
    """Such a package."""

    __path__: list[str] = []
    __version__ = "99.0"

    def __getattr__(self, member: str) -> NoKernel:
        if member.startswith("__"):
            raise AttributeError(member)
        return NoKernel(f"{self.__name__}.{member}")


sys.meta_path.insert(0, Absent(COMPILED, Package))

import torch
import triton.runtime.autotuner as autotuner
from torch import Tensor


def stand_in() -> None:
    """Puts torch in the place of what has no form on a CPU."""
    import sglang.srt.models.minimax_m2 as m2

    def squares(q: Tensor, k: Tensor) -> Tensor:
        return torch.cat([x.float().pow(2).sum(-1) for x in (q, k)])

    def norm(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, sums: Tensor, shards: int, eps: float) -> Any:
        both = zip((q, k), (q_weight, k_weight), (sums[: len(q)], sums[len(q) : 2 * len(q)]), strict=True)
        roots = [(x, w, torch.rsqrt(total / x.shape[1] / shards + eps)[:, None]) for x, w, total in both]
        return tuple((x.float() * root * w.float()).to(x.dtype) for x, w, root in roots)

    m2.rms_sumsq_serial, m2.rms_apply_serial = squares, norm
    product, first = torch.mm, autotuner.Autotuner.__init__

    def mm(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None, **options: Any) -> Tensor:
        return product(a, b, **options) if out_dtype is None else product(a.to(out_dtype), b.to(out_dtype))

    def without_tuning(self: Any, function: Any, names: Any, configs: Any, *rest: Any, **options: Any) -> None:
        first(self, function, names, configs[:1], *rest, **options)

    torch.mm, autotuner.Autotuner.__init__ = mm, without_tuning
