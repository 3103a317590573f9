"""Tensors in memory: which are looked at where they are, which are copied, and which are refused."""

import ml_dtypes
import numpy as np
import parity
import pytest
from parity._tensors import TYPES, lend

NUMBERS = np.arange(12.0).reshape(3, 4)


def lent(value):
    """A lent tensor's type, shape and values, read again by its type."""
    name, dtype, shape, data = lend("x", value)
    known = {own: numpy for numpy, own in TYPES.items()}
    assert name == "x" and data.dtype == np.uint8 and data.flags.c_contiguous
    return dtype, shape, data.view(known[dtype]).reshape(shape)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_is_lent_without_a_copy(dtype):
    value = (NUMBERS + 1).astype(dtype)  # No scale is 0.
    own, shape, values = lent(value)
    assert own == TYPES[dtype] and shape == [3, 4] and (values == value).all()
    assert np.shares_memory(lend("x", value)[3], value)


@pytest.mark.parametrize(
    "value",
    [
        NUMBERS[:, ::2],
        NUMBERS.T,
        np.asfortranarray(NUMBERS),
        NUMBERS.astype(">f4"),
        NUMBERS.astype(ml_dtypes.bfloat16)[::-1],
    ],
    ids=["gaps", "transposed", "by columns", "big-endian", "backwards"],
)
def test_other_orders_are_copied(value):
    _, shape, values = lent(value)
    assert shape == list(value.shape) and (values == value).all()


@pytest.mark.parametrize("value", [np.float32(3), np.array(3.0), np.zeros((0, 4)), memoryview(b"abc")])
def test_small_things_are_tensors(value):
    _, shape, values = lent(value)
    assert shape == list(np.shape(value)) and (values == np.asarray(value)).all()


class OfDlpack:
    """An array of a library that has nothing but the DLPack protocol."""

    def __dlpack__(self, **options):
        return NUMBERS.__dlpack__(**options)

    def __dlpack_device__(self):
        return NUMBERS.__dlpack_device__()


class OnDevice(OfDlpack):
    """One whose values are on a device that numpy cannot reach."""

    def __dlpack__(self, **options):
        raise BufferError("values on device 2")


def test_dlpack_is_taken():
    assert (lent(OfDlpack())[2] == NUMBERS).all()
    assert np.shares_memory(lend("x", OfDlpack())[3], NUMBERS)


@pytest.mark.parametrize(
    ("name", "value", "problem", "help"),
    [
        ("x", NUMBERS.astype(complex), "x: values of type complex128", "convert it with .astype"),
        ("x", NUMBERS.astype(object), "x: values of type object", "convert it with .astype"),
        ("x", np.ma.masked_less(NUMBERS, 3), "x: a masked array", "give array.filled(value)"),
        ("x", [1.0, 2.0], "x: builtins.list is no tensor", "give an array of numpy's or a tensor of torch's"),
        ("x", None, "x: builtins.NoneType is no tensor", "give an array of numpy's or a tensor of torch's"),
        ("x", OnDevice(), "x: test_tensors.OnDevice cannot be read as an array", "copy it to the processor's memory"),
        (3, NUMBERS, "names are text, found 3", "name tensors as transformers names modules"),
    ],
)
def test_what_is_no_tensor_says_what_to_do(name, value, problem, help):
    with pytest.raises(parity.ParityError) as raised:
        lend(name, value)
    assert problem in raised.value.problem and help in raised.value.help


def test_what_the_library_is_handed_must_fit():
    from parity import _native

    part = {"layers": None, "sites": []}
    with pytest.raises(parity.ParityError, match="holds 8 bytes, expected as many as f32 and shape \\[3\\] take"):
        _native.diff(([("x", "f32", [3], np.zeros(8, np.uint8))], None), "nowhere", None, None, part)
    with pytest.raises(ValueError, match="there is no type f31"):
        _native.diff(([("x", "f31", [2], np.zeros(8, np.uint8))], None), "nowhere", None, None, part)
    with pytest.raises(ValueError, match="not one behind the other"):
        _native.diff(([("x", "f32", [2], np.zeros(16, np.uint8)[::2])], None), "nowhere", None, None, part)


def test_arrays_live_as_long_as_they_are_looked_at(tensors):
    import gc
    import weakref

    copies = {name: value.copy() for name, value in tensors.items()}
    array = next(iter(copies.values()))
    watched = weakref.ref(array)
    del array
    assert parity.verify("m2-gqa3-f32", copies).passed
    assert watched() is not None
    copies.clear()
    parity.diff({"x": NUMBERS}, {"x": NUMBERS})  # What was let go without the interpreter's lock is let go now.
    gc.collect()
    assert watched() is None
