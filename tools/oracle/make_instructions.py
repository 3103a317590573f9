"""Makes operands of tensor-core instructions, and what MMA-Sim's model makes of them.

    git clone https://github.com/microsoft/MMA-Sim && git -C MMA-Sim checkout c78513835c8b2ae61b35062afce4c4255bc6901c
    python tools/oracle/make_instructions.py --mmasim MMA-Sim --out fixtures/golden-instructions

Needs exactly the versions in requirements.txt. MMA-Sim (arXiv 2511.10909, MIT licence) was found equal, bit
for bit, to the instructions of real GPUs. The folder has

    GENERATION-TYPE.safetensors   hopper-bf16, ada-e4m3, …: a and b [tiles, 16, k], and c and d = c + a·bᵀ [tiles, 16, 16]
                                  in f32
    provenance.json               command, versions, machine, MMA-Sim's commit, and the SHA-256 of each file

Hopper's `mma` of E4M3 is not MMA-Sim's own, because the hardware has none: ptxas (13.0, for sm_90a) makes of it two of f16 from
zero, of the first two of each four values of k and of the other two, whose result is added to c in f32. So is it here, from
MMA-Sim's `mma` of f16.
"""

import pinned  # isort: skip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from filled import filled
from provenance import record
from safetensors.torch import save_file

COMMIT = "c78513835c8b2ae61b35062afce4c4255bc6901c"
SEED, TILES, SIZE = 89, 2, 16
NOT_A_NUMBER = 0x7FFFFFFF
TYPES = {"bf16": (torch.bfloat16, 16), "f16": (torch.float16, 16), "e4m3": (torch.float8_e4m3fn, 32)}
EXPONENTS = {"bf16": (-126, 127), "f16": (-14, 15), "e4m3": (-6, 8)}
MADE = {
    "hopper": ("Hopper", ("bf16", "f16", "e4m3")),
    "ampere": ("Ampere", ("bf16", "f16")),
    "ada": ("Ada Lovelace", ("e4m3",)),
}
"""MMA-Sim's names of the generations, and the types of which there are files: Ada's others are Ampere's."""

Drawn = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def main() -> None:
    """Makes the folder."""
    filled("Makes what tensor cores make of numbers.", make, mmasim="a checkout of MMA-Sim")


def make(mmasim: Path, folder: Path) -> None:
    """Makes the files in `folder`."""
    found = subprocess.run(["git", "-C", mmasim, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    if found.stdout.strip() != COMMIT:
        sys.exit(f"error: {mmasim} is at {found.stdout.strip()}, expected {COMMIT}")
    sys.path.insert(0, str(mmasim))
    from mmasim.simulator.nv_ptx import mma

    for name, (generation, types) in MADE.items():
        for kind in types:
            multiply = instruction(mma, generation, kind)
            random = torch.Generator().manual_seed(SEED)
            tiles = [draw(random, kind) for draw in DRAWS for _ in range(TILES)]
            results = [multiplied(multiply, *tile) for tile in tiles]
            a, b, c = (torch.stack(parts) for parts in zip(*tiles, strict=True))
            all_ = {"a": a, "b": b, "c": c, "d": torch.stack(results)}
            save_file(all_, folder / f"{name}-{kind}.safetensors")
    said = {"repository": "https://github.com/microsoft/MMA-Sim", "commit": COMMIT, "licence": "MIT"}
    record(folder, "make_instructions.py --mmasim MMA-Sim --out fixtures/golden-instructions", mmasim=said)


def instruction(mma: type, generation: str, kind: str) -> Callable[..., torch.Tensor]:
    """Multiplies a [16, k], b [k, 8] and c [16, 8] of a type."""
    if (generation, kind) != ("Hopper", "e4m3"):
        k = TYPES[kind][1]
        return mma(generation, f"m16n8k{k}.f32.{kind}.{kind}.f32")
    of_f16 = mma(generation, "m16n8k16.f32.f16.f16.f32")

    def as_compiled(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        a, b = a.half(), b.half()
        total = torch.zeros_like(c)
        for first in (0, 2):
            half = [k for k in range(a.shape[1]) if k % 4 in (first, first + 1)]
            total = of_f16(a[:, half].contiguous(), b[half].contiguous(), total)
        total = total + c
        return torch.where(total.isnan(), number(NOT_A_NUMBER), total)

    return as_compiled


def multiplied(multiply: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """c + a·bᵀ, whose halves are an instruction each."""
    halves = (multiply(a, b[first : first + 8].T, c[:, first : first + 8]) for first in (0, 8))
    return torch.cat(tuple(halves), dim=1)


def number(bits_: int) -> torch.Tensor:
    """An f32 of these bits."""
    return torch.tensor(bits_, dtype=torch.uint32).view(torch.float32)


def magnitudes(random: torch.Generator, dim: tuple[int, int], lowest: int, highest: int) -> torch.Tensor:
    """Of both signs, with exponents between these, as f64."""
    exponent = torch.randint(lowest, highest + 1, dim, generator=random)
    sign = torch.randint(0, 2, dim, generator=random) * 2 - 1
    return sign * (1 + torch.rand(dim, generator=random, dtype=torch.float64)) * torch.exp2(exponent.double())


def within(kind: str, lowest: int, highest: int) -> tuple[int, int]:
    """Those of these exponents that a type has."""
    least, most = EXPONENTS[kind]
    return max(lowest, least), min(highest, most)


def drawn(random: torch.Generator, kind: str, exponents: tuple[int, int], of_c: tuple[int, int]) -> Drawn:
    """Operands with such exponents."""
    dtype, k = TYPES[kind]
    a, b = (magnitudes(random, (SIZE, k), *exponents).float().to(dtype) for _ in range(2))
    return a, b, magnitudes(random, (SIZE, SIZE), *of_c).float()


def one_magnitude(random: torch.Generator, kind: str) -> Drawn:
    """Of one magnitude, where nothing or little is cut off."""
    return drawn(random, kind, within(kind, -1, 1), (-2, 4))


def some_magnitudes(random: torch.Generator, kind: str) -> Drawn:
    """Of exponents as far apart as fractions are long."""
    return drawn(random, kind, within(kind, -7, 7), (-20, 20))


def all_magnitudes(random: torch.Generator, kind: str) -> Drawn:
    """Of all exponents that the type has, but those of which products overflow."""
    least, most = EXPONENTS[kind]
    return drawn(random, kind, (least, most // 2), (-126, 127))


def of_one_sign(random: torch.Generator, kind: str) -> Drawn:
    """Of one sign, beside a sum that is larger: what is cut off adds up."""
    a, b, c = drawn(random, kind, within(kind, -3, 2), (3, 12))
    return a.float().abs().to(a.dtype), b.float().abs().to(b.dtype), c.abs()


def cancelling(random: torch.Generator, kind: str) -> Drawn:
    """Of a sum that takes nearly all away again."""
    a, b, _ = drawn(random, kind, within(kind, -6, 6), (0, 0))
    return a, b, -(a.double() @ b.double().T).float()


def with_zeros(random: torch.Generator, kind: str) -> Drawn:
    """Zeros of both signs, many of them beside large and small factors, and sums of zero."""
    def holed(x: torch.Tensor, share: float) -> torch.Tensor:
        zero = torch.where(torch.rand(x.shape, generator=random) < 0.2, -0.0, 0.0)
        return torch.where(torch.rand(x.shape, generator=random) < share, zero, x.float()).to(x.dtype)

    a, b, c = drawn(random, kind, EXPONENTS[kind], (-126, 100))
    return holed(a, 0.6), holed(b, 0.6), holed(c, 0.7)


def vanishing(random: torch.Generator, kind: str) -> Drawn:
    """The smallest numbers, normal and not, beside sums as small or zero."""
    least = EXPONENTS[kind][0]
    of_b = (-40, -20) if kind == "bf16" else (least - 2, least + 1)
    dtype, k = TYPES[kind]
    a = magnitudes(random, (SIZE, k), least - 3, least + 1).float().to(dtype)
    b = magnitudes(random, (SIZE, k), *of_b).float().to(dtype)
    c = magnitudes(random, (SIZE, SIZE), -149, -120).float()
    c[torch.rand(c.shape, generator=random) < 0.5] = 0
    return a, b, c


def any_bits(random: torch.Generator, kind: str) -> Drawn:
    """Any bits at all, of which a few are infinite or no numbers."""
    dtype, k = TYPES[kind]
    size = torch.empty(0, dtype=dtype).element_size()
    whole = {1: torch.uint8, 2: torch.uint16}[size]
    a, b = (torch.randint(0, 256**size, (SIZE, k), generator=random).to(whole).view(dtype) for _ in range(2))
    c = torch.randint(0, 2**32, (SIZE, SIZE), generator=random).to(torch.uint32).view(torch.float32)
    # One column of k has all of them, so that some sums are spared.
    for x in (a, b):
        rest = x[:, 1:].float()
        rest[~rest.isfinite()] = 1
        x[:, 1:] = rest.to(dtype)
    return a, b, c


DRAWS = [
    one_magnitude,
    some_magnitudes,
    all_magnitudes,
    of_one_sign,
    cancelling,
    with_zeros,
    vanishing,
    any_bits,
]

if __name__ == "__main__":
    main()
