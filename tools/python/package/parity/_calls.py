"""The calls, with their arguments checked and handed over."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from parity import _native
from parity._arguments import call, layers_of, model_of, path_of, paths_of, texts_of, tokens_of
from parity._errors import failed
from parity._tensors import dump_of

if TYPE_CHECKING:
    import numpy as np

Path = str | os.PathLike[str]
Dump = Path | Mapping[str, Any]
Texts = str | Iterable[str]


def verify(
    model: Path,
    dump: Dump | None = None,
    *,
    tokens: Any = None,
    precision: str | None = None,
    semantics: str | None = None,
    names: Path | None = None,
    lenses: Texts = (),
    layers: int | range | str | None = None,
    sites: Texts = (),
    require: Texts = (),
    deny: Texts = (),
    coverage: bool = False,
    pixels: Path | None = None,
    images: Path | Iterable[Path] = (),
    videos: Path | Iterable[Path] = (),
    manifest: Mapping[str, Any] | str | None = None,
) -> _native.Report:
    """Puts a dump from any engine next to the reference, operator by operator.

    Args:
        model: a folder in the hub's format, or a built-in case's name.
        dump: a `.safetensors`, `.npz` or `.pt` file, a folder of those or of `.npy` files, or a mapping of names to
            tensors: numpy arrays (ml_dtypes' bfloat16, too), torch tensors on any device, or what has the array or
            DLPack protocol. Names are those of the transformers library's modules, or of vLLM, SGLang, llama.cpp,
            mlx-lm or mlx-vlm. Rows are tokens: [T, …] or [1, T, …] for one request, [B, T, …] for a batch. None for a
            built-in case's own values. Tensors are read where they are, and must not be changed meanwhile.
        tokens: what went in: ids [T] or [B, T] as lists, arrays or tensors, or what a tokenizer returns (`input_ids`,
            `attention_mask`), or as on the command line, "1,2,3" or "@file.json"; a path is the name of a file.
        precision: what the candidate rounds, such as "transformers_bf16"; found in the values if not given.
        semantics: the reading of the documents, "documents" or "released", then ",field=value".
        names: a JSON file that maps an engine's names to sites, beside those that ship.
        lenses: only these of "local", "layer" and "global".
        layers: only these: 3, range(3, 7), "3..7".
        sites: only sites whose path fits one of these patterns, such as "layers.*.self_attn.*".
        require: operators that must be compared, patterns or "all".
        deny: verdicts that count as faults, too, of "suspicious", "inconclusive" and "missing".
        coverage: whether to say what the dump can show.
        pixels, images, videos: files of what the prompt shows.
        manifest: what `parity.json` would say of tensors in memory, such as `calls` and `producer`.

    Returns:
        The report; a fault is no exception. `assert_parity` raises one.

    Raises:
        ParityError: bad arguments, unreadable input, nothing compared; with what to do.
        KeyboardInterrupt: Ctrl-C; the work has stopped by then.
    """
    opened, known = dump_of(dump, manifest), _known(tokens, precision, semantics, names, _shown(pixels, images, videos))
    question = {
        "lenses": texts_of(lenses),
        "part": {"layers": layers_of(layers), "sites": texts_of(sites)},
        "require": texts_of(require),
        "deny": texts_of(deny),
        "coverage": coverage,
        "command": call(
            "verify",
            model_of(model),
            dump,
            tokens=tokens,
            precision=precision,
            semantics=semantics,
            names=names,
            pixels=pixels,
            images=images,
            videos=videos,
            manifest=manifest,
        ),
    }
    return _native.verify(model_of(model), opened, known, question)


def diagnose(
    model: Path,
    dump: Dump | None = None,
    *,
    tokens: Any = None,
    precision: str | None = None,
    semantics: str | None = None,
    names: Path | None = None,
    pixels: Path | None = None,
    images: Path | Iterable[Path] = (),
    videos: Path | Iterable[Path] = (),
    manifest: Mapping[str, Any] | str | None = None,
) -> _native.Diagnosis:
    """Names the mistake that makes a dump what it is: each known mistake of ports is assumed in turn.

    Arguments and errors are those of `verify`. It takes longer: a layer is computed again for each mistake that could
    explain a fault.
    """
    known = _known(tokens, precision, semantics, names, _shown(pixels, images, videos))
    return _native.diagnose(model_of(model), dump_of(dump, manifest), known)


def diff(
    a: Dump,
    b: Dump,
    *,
    model: Path | None = None,
    names: Path | None = None,
    layers: int | range | str | None = None,
    sites: Texts = (),
) -> _native.Difference:
    """Puts two dumps side by side, name by name; relative figures refer to the second.

    Args:
        a, b: files, folders, or mappings of names to tensors, as `verify` takes them.
        model: the model of both, where their engines name or group values differently: sites are compared then, not
            names.
        names: a map of more names, which needs `model`.
        layers, sites: only these, as in `verify`.

    Raises:
        ParityError: unreadable input, or no selected name is in both.
    """
    part = {"layers": layers_of(layers), "sites": texts_of(sites)}
    return _native.diff(dump_of(a), dump_of(b), path_of(model), path_of(names), part)


def run(
    model: Path,
    tokens: Any = None,
    *,
    decode: int = 0,
    steps: bool = False,
    layers: int | range | str | None = None,
    sites: Texts = (),
    semantics: str | None = None,
    precision: str = "f64",
    pixels: Path | None = None,
    images: Path | Iterable[Path] = (),
    videos: Path | Iterable[Path] = (),
) -> "dict[str, np.ndarray[Any, Any]]":
    """What the reference computes at every site, by name, in the order in which it does.

    Args:
        model: as in `verify`.
        tokens: the prompt, [T]; a built-in case has its own.
        decode: tokens to decode greedily after it, which are under the name "tokens".
        steps: whether each decode step's values are wanted, too, as "step.N.…".
        layers, sites: only these; what costs more to make, such as "*.self_attn.scores", is made only where a pattern
            names it.
        semantics: as in `verify`.
        precision: "f64", "f32", or a profile whose roundings it makes.
        pixels, images, videos: files of what the prompt shows.

    Returns:
        Arrays without a batch axis, [T, …]: floats as float64, which holds what `precision` rounds to exactly, and what
        was chosen (experts, blocks) as int64, −1 where nothing was.

    Raises:
        ParityError: as in `verify`.
    """
    import numpy as np

    if decode < 0:
        raise failed(f"decode: {decode}, expected 0 or more", "give the number of tokens to decode")
    job = {
        "model": model_of(model),
        "tokens": tokens_of(tokens),
        "shown": _shown(pixels, images, videos),
        "semantics": semantics,
        "precision": precision,
        "decode": decode,
        "steps": steps,
        "part": {"layers": layers_of(layers), "sites": texts_of(sites)},
    }
    made, decoded = _native.run(job)
    arrays = {name: np.frombuffer(data, dtype).reshape(shape) for name, dtype, shape, data in made}
    return arrays | ({"tokens": np.array(decoded, "<i8")} if decode else {})


def _known(
    tokens: Any, precision: str | None, semantics: str | None, names: Path | None, shown: dict[str, Any]
) -> dict[str, Any]:
    return {
        "tokens": tokens_of(tokens),
        "precision": precision,
        "semantics": semantics,
        "names": path_of(names),
        "shown": shown,
    }


def _shown(pixels: Path | None, images: Path | Iterable[Path], videos: Path | Iterable[Path]) -> dict[str, Any]:
    return {"pixels": path_of(pixels), "images": paths_of(images), "videos": paths_of(videos)}
