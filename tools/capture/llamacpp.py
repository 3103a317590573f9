"""Writes every tensor that llama.cpp computed of a prompt into one file that `parity verify` reads.

    python llamacpp.py MODEL.gguf --tokens 9707,11,1879 --out dump.safetensors

It needs llama-cpp-python (`pip install llama-cpp-python`), numpy, torch and safetensors, and `capture.py` beside it.
Tensors keep the names that llama.cpp's graph gives them, such as `attn_norm-3`; a name that it gives again is
`NAME#1`, then `NAME#2`. Views, copies into the cache and tensors without a name of their own are left out.
`--decode N` takes N greedy tokens after the prompt; names of call N then begin with `step.N.`.

`--cache-type` and `--flash-attention` are what llama.cpp's own flags are; MiniMax-M3's block-sparse attention runs only
with flash attention, and attends densely without it. llama.cpp computes logits, and what follows the last attention, of
the last token alone; `--all-logits` asks for every token's.

Checked with llama-cpp-python 0.3.36 on a CPU; on a GPU, tensors are copied from it one at a time.
"""

import argparse
import ctypes
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import llama_cpp
import numpy as np
import torch
from capture import Recording

GGML_TYPES = {0: torch.float32, 1: torch.float16, 26: torch.int32, 27: torch.int64, 30: torch.bfloat16}
"""Types of ggml that hold one element in a fixed number of bytes, by their numbers in `enum ggml_type`."""

CACHE_TYPES = {"f32": 0, "f16": 1, "bf16": 30}
"""What keys and values may be stored in, by `enum ggml_type`."""

UNNAMED = ("node_", "leaf_", "cache_")
"""Beginnings of names that say nothing of a tensor's meaning."""

SAME = {b"NONE", b"RESHAPE", b"VIEW", b"PERMUTE", b"TRANSPOSE"}
"""Operations that compute nothing: their results are other tensors' values."""


class Header(ctypes.Structure):
    """The first fields of ggml's `struct ggml_tensor`; extents and strides in bytes, the innermost axis first."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("extents", ctypes.c_int64 * 4),
        ("strides", ctypes.c_size_t * 4),
    ]


def main() -> None:
    """Runs the prompt that the command line gives."""
    parser = argparse.ArgumentParser(description="Writes every tensor that llama.cpp computed of a prompt.")
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--tokens", required=True, help="ids, with commas between them")
    parser.add_argument("--out", required=True, help="a .safetensors or .npz file")
    parser.add_argument("--decode", type=int, default=0, help="greedy tokens to take after the prompt")
    parser.add_argument("--all-logits", action="store_true", help="logits of every token, not of the last alone")
    parser.add_argument("--cache-type", choices=CACHE_TYPES, default="f16", help="what keys and values are stored in")
    parser.add_argument("--flash-attention", choices=("auto", "on", "off"), default="auto")
    arguments = parser.parse_args()
    tokens = [int(token) for token in arguments.tokens.split(",")]
    recorder = Recorder()
    run(arguments, tokens, recorder)
    producer = {
        "library": "llama.cpp",
        "version": f"llama-cpp-python {_version()}",
        "kv_cache": arguments.cache_type,
        "flash_attention": arguments.flash_attention,
    }
    recorder.save(arguments.out, producer=producer)


def run(arguments: argparse.Namespace, tokens: list[int], recorder: "Recorder") -> None:
    """Decodes the prompt and what follows it."""
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(arguments.model.encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise SystemExit(f"error: {arguments.model} could not be loaded; llama.cpp's own message is above")
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = max(256, len(tokens) + arguments.decode)
    parameters.flash_attn_type = {"auto": -1, "off": 0, "on": 1}[arguments.flash_attention]
    parameters.type_k = parameters.type_v = CACHE_TYPES[arguments.cache_type]
    parameters.cb_eval = recorder.callback
    context = llama_cpp.llama_init_from_model(model, parameters)
    if not context:
        raise SystemExit("error: llama.cpp refused these options; its own message is above")
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    fed, piece = 0, tokens
    for _ in range(arguments.decode + 1):
        recorder.begin_call(first=fed, tokens=[piece], logits=None if arguments.all_logits else 1)
        _decode(context, piece, fed, arguments.all_logits)
        fed += len(piece)
        logits = llama_cpp.llama_get_logits_ith(context, -1)
        piece = [int(np.argmax(np.ctypeslib.as_array(logits, shape=(vocabulary,))))]
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)


def _decode(context: object, tokens: list[int], before: int, all_logits: bool) -> None:
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for index, token in enumerate(tokens):
        batch.token[index], batch.pos[index] = token, before + index
        batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
        batch.logits[index] = all_logits or index + 1 == len(tokens)
    status = llama_cpp.llama_decode(context, batch)
    llama_cpp.llama_batch_free(batch)
    if status:
        raise SystemExit(f"error: llama_decode returned {status}, expected 0")


class Recorder(Recording):
    """Keeps a copy of each tensor of the graph when it has been computed."""

    def __init__(self) -> None:
        super().__init__()
        self._ggml = _ggml()
        # A field, because ctypes does not keep what it was given.
        self.callback = llama_cpp.ggml_backend_sched_eval_callback(self._evaluated)

    def _evaluated(self, tensor: int, ask: bool, _: object) -> bool:
        if ask or self._ggml.ggml_op_desc(tensor) in SAME:
            return True
        name = self._ggml.ggml_get_name(tensor).decode()
        value = None if name.startswith(UNNAMED) or " (" in name else self._copy(tensor)
        if name and value is not None:
            self.keep(name, value)
        return True

    def _copy(self, tensor: int) -> torch.Tensor | None:
        """The tensor in its four axes, the outermost first; None where it is quantised."""
        header = Header.from_address(tensor)
        dtype = GGML_TYPES.get(header.type)
        if dtype is None:
            return None
        raw = torch.empty(self._ggml.ggml_nbytes(tensor), dtype=torch.uint8)
        self._ggml.ggml_backend_tensor_get(tensor, raw.data_ptr(), 0, raw.numel())
        extents, strides = header.extents[::-1], [stride // dtype.itemsize for stride in header.strides[::-1]]
        return raw.view(dtype).as_strided(extents, strides).clone(memory_format=torch.contiguous_format)


def _ggml() -> ctypes.CDLL:
    """ggml's own functions, from the library that llama.cpp has loaded."""
    library = llama_cpp.llama_cpp._lib

    def function(name: str, result: type | None, arguments: list[type]) -> Callable[..., object]:
        found = getattr(library, name)
        found.restype, found.argtypes = result, arguments
        return found

    function("ggml_get_name", ctypes.c_char_p, [ctypes.c_void_p])
    function("ggml_op_desc", ctypes.c_char_p, [ctypes.c_void_p])
    function("ggml_nbytes", ctypes.c_size_t, [ctypes.c_void_p])
    function("ggml_backend_tensor_get", None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t])
    return library


def _version() -> str:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return llama_cpp.__version__


if __name__ == "__main__":
    main()
