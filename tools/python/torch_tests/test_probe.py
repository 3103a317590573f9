"""What torch and transformers add in which order, and where they round, on a processor.

pip install -r tools/oracle/requirements.txt './tools/python[test]' && pytest tools/python/torch_tests
"""

import math

import parity
import pytest
import torch
from transformers.models.minimax_m2.modeling_minimax_m2 import MiniMaxM2RMSNorm, eager_attention_forward
from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLRMSNorm

NARROW = [torch.bfloat16, torch.float16]


def test_a_sums_reduction_is_torchs():
    found = parity.probe(lambda x: x.sum(-1), "sum", dtype=torch.float32, size=1024)
    assert found.foretold == (64, 64) and found.fields == {"reduction": "torch"}, found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *NARROW])
def test_the_order_of_a_product_is_told_and_foretells_it(dtype):
    found = parity.probe(torch.matmul, "product", dtype=dtype, size=256)
    assert found.order is not None and found.foretold == (64, 64), found


@pytest.mark.parametrize("dtype", NARROW)
def test_m2s_norm_rounds_twice_and_m3s_once(dtype):
    def of(norm):
        def run(x, w):
            own = norm(w.shape[0]).to(dtype)
            own.weight.data = w
            return own(x)

        return run

    found = parity.probe(of(MiniMaxM2RMSNorm), "norm", dtype=dtype, size=256)
    assert found.fields["rms"] == "two" and "one_plus" not in found.fields, found
    found = parity.probe(of(MiniMaxM3VLRMSNorm), "norm", dtype=dtype, size=256)
    assert (found.fields["rms"], found.fields["one_plus"]) == ("one", "norm"), found


def test_a_norms_order_is_seen_in_f32():
    def norm(x, w):
        return torch.nn.functional.rms_norm(x, w.shape, w, 1e-6)

    found = parity.probe(norm, "norm", dtype=torch.float32, size=1024)
    assert found.order is not None and dict(found.findings)["sums"] == "f32", found


def test_what_a_norm_after_an_addition_reads_is_told():
    def of(reads):
        def run(x, y, w):
            total = x.float() + y.float()
            wide = total.to(x.dtype).float() if reads == "stored" else total
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)

        return run

    for reads in ("stored", "sum"):
        found = parity.probe(of(reads), "add_norm", dtype=torch.bfloat16, size=256)
        assert found.fields["norm_input"] == reads, found


def test_a_softmax_rounds_once():
    found = parity.probe(lambda x: x.softmax(-1), "softmax", dtype=torch.bfloat16, size=512)
    assert dict(found.findings)["rounds"].startswith("once, at the end"), found
    found = parity.probe(lambda x: x.softmax(-1), "softmax", dtype=torch.float32, size=512)
    assert dict(found.findings)["sums"] == "f32" and found.order is not None, found


def test_eager_attention_rounds_at_each_step_and_torchs_own_before_the_division():
    class Module(torch.nn.Module):
        num_key_value_groups = 1

    def eager(q, k, v):
        own = eager_attention_forward(Module().eval(), q[None], k[None], v[None], None, scaling=1 / math.sqrt(64))[0]
        return own[0].transpose(0, 1)

    known = {"dtype": torch.bfloat16, "size": 256, "precision": "transformers_bf16"}
    found = parity.probe(eager, "attention", **known)
    assert found.precision == "transformers_bf16,attention=eager", found
    # Of four axes it takes its own kernel.
    own = torch.nn.functional.scaled_dot_product_attention
    found = parity.probe(lambda q, k, v: own(q[None], k[None], v[None])[0], "attention", **known)
    assert "probabilities before their division" in dict(found.findings)["rounds"], found
    assert found.precision == "transformers_bf16", found
