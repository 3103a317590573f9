"""`parity.probe`: functions of numpy's, of which it is known in what order they add."""

import ml_dtypes
import numpy as np
import parity
import pytest
from conftest import CASE


def one_by_one(x):
    return np.add.accumulate(x, axis=1)[:, -1]


def test_the_order_of_a_sum_is_told():
    found = parity.probe(one_by_one, "sum", size=40)
    assert dict(found.findings)["order"] == "40 one after another"
    assert found.order.startswith("(" * 39 + "0+1)+2)") and found.foretold == (64, 64)
    assert "bit for bit" in str(found) and repr(found) == "<parity.Probe sum: eager_f32>"


def test_numpy_adds_in_eight_lanes_and_then_in_pairs():
    # `pairwise_sum` in numpy's loops_utils.h.src.
    found = parity.probe(lambda x: x.sum(axis=1), "sum", size=128)
    assert dict(found.findings)["order"] == "8 in pairs, each 16 one after another, 8 apart"
    assert found.foretold == (64, 64)


def test_a_wider_sum_is_told():
    found = parity.probe(lambda x: x.sum(axis=1, dtype="f8").astype("f4"), "sum", size=64)
    assert dict(found.findings)["sums"] == "f64, rounded to nearest, ties to even"
    assert dict(found.findings)["output"] == "f32, rounded once from the sum"


@pytest.mark.parametrize(("dtype", "accumulator"), [("float32", "f32"), ("float64", "f64")])
def test_a_product_is_foretold(dtype, accumulator):
    found = parity.probe(np.matmul, "product", dtype=dtype, size=96)
    assert found.foretold == (64, 64), found
    assert found.fields == {"accumulator": accumulator} and found.places is None


def test_a_products_precision_judges_a_dump(dump):
    found = parity.probe(np.matmul, "product", size=32, precision="transformers_f32")
    assert found.precision.startswith("transformers_f32,accumulator=f32")
    assert parity.verify(CASE, dump, precision=found.precision).passed


@pytest.mark.parametrize("twice", [True, False])
def test_where_a_norm_rounds_is_told(twice):
    def norm(x, w):
        wide = x.astype("f4")
        y = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + np.float32(1e-6))
        y = y.astype(ml_dtypes.bfloat16).astype("f4") if twice else y
        return (y * w.astype("f4")).astype(ml_dtypes.bfloat16)

    found = parity.probe(norm, "norm", dtype=ml_dtypes.bfloat16, size=64)
    assert found.fields["rms"] == ("two" if twice else "one"), found


def test_what_cannot_be_is_refused():
    def ask(kind="sum", f=one_by_one, **options):
        with pytest.raises(parity.ParityError) as raised:
            parity.probe(f, kind, **options)
        return raised.value.problem

    assert ask("mean") == "kind: there is no mean"
    assert ask(dtype="int32") == "dtype: int32"
    assert ask(size=3) == "probe: size 3, expected 8 to 65536"
    assert ask(device="cuda").startswith("device: arrays of numpy's")
    assert "bf17" in ask(precision="bf17")
    assert ask(f=lambda x: x).startswith("probe: a sum gave values of shape [64, 256]")
    assert ask(f=lambda x: x.sum(axis=1).astype(int)) == "the function gave values of type int64"


def test_what_the_function_raises_is_raised():
    def broken(x):
        raise ZeroDivisionError("of its own")

    with pytest.raises(ZeroDivisionError, match="of its own"):
        parity.probe(broken, "sum")
