"""Arguments of calls as the library takes them, which is as they are typed on a command line."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from parity._errors import failed

HELP_TOKENS = "give a list of token ids, or of lists, or what a tokenizer returns, or '@file.json'"

# What is told of a tokenizer's output, beside what tokens may be called.
OF_TOKENIZERS = ("attention_mask", "position_ids", "decode")
TOKENS = ("tokens", "input_ids", "prompt_token_ids", "prompt_ids", "token_ids", "ids", "sequences")

# Letters of an argument that a report repeats.
SHOWN = 60


def tokens_of(given: Any) -> str | None:
    """Tokens as `--tokens` takes them: text as it is, a path as a file's name, ids and a tokenizer's object as JSON.

    Raises:
        ParityError: they are none of these.
    """
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, os.PathLike):
        return f"@{os.fspath(given)}"
    if not isinstance(given, Mapping):
        return json.dumps(_numbers("tokens", given))
    known = {name: value for name, value in given.items() if name in TOKENS + OF_TOKENIZERS and value is not None}
    if not any(name in TOKENS for name in known):
        found = ", ".join(map(str, given)) or "nothing"
        raise failed(f"tokens: an object of {found}, expected input_ids or tokens", HELP_TOKENS)
    return json.dumps({name: _numbers(name, value) for name, value in known.items()})


def _numbers(name: str, value: Any) -> Any:
    """Whole numbers, and lists and objects of them, of arrays and tensors, too."""
    if isinstance(value, Mapping):
        return {key: _numbers(f"{name}.{key}", inner) for key, inner in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [_numbers(name, inner) for inner in value]
    if not isinstance(value, int):
        raise failed(f"{name}: {value!r}, expected whole numbers", HELP_TOKENS)
    return int(value)


def layers_of(given: Any) -> str | None:
    """Layers as `--layers` takes them: text as it is, one number, or a range without gaps."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int):
        return str(int(given))
    if isinstance(given, range) and given.step == 1:
        return f"{given.start}..{given.stop}"
    raise failed(f"layers: {given!r}", "expected a number, range(3, 7), or text such as '3..7', '..7' or '3..'")


def texts_of(given: str | Iterable[str]) -> list[str]:
    """One text, or several."""
    return [given] if isinstance(given, str) else [str(text) for text in given]


def paths_of(given: Any) -> list[str]:
    """One path, or several."""
    return [os.fspath(given)] if isinstance(given, (str, os.PathLike)) else [os.fspath(path) for path in given]


def model_of(given: Any) -> str:
    """A model's folder or name.

    Raises:
        ParityError: it is something else, such as a model's object.
    """
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    found = f"{type(given).__module__}.{type(given).__qualname__}"
    help = "name the folder that its weights are from; parity.watch(model, folder) judges what a PyTorch model computes"
    raise failed(f"model: expected a folder or a built-in case's name, found {found}", help)


def path_of(given: Any) -> str | None:
    """A path, or none."""
    return None if given is None else os.fspath(given)


def call(name: str, model: str, dump: Any, **options: Any) -> str:
    """A call as it can be made again; of tensors, and of what is long, the argument's name stands for it."""
    shown = [repr(model)]
    if dump is not None:
        shown.append("tensors" if isinstance(dump, Mapping) else repr(os.fspath(dump)))
    for option, value in options.items():
        if value is None or (isinstance(value, (list, tuple)) and not value) or value is False:
            continue
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        plain = isinstance(value, (str, int, list, tuple, range))
        text = repr(value) if plain else option
        shown.append(f"{option}={text if len(text) <= SHOWN else option}")
    return f"parity.{name}({', '.join(shown)})"
