"""The library as a module. What people call is in `parity`, which checks arguments and hands them over."""

from typing import Any, final

__all__ = [
    "Diagnosis",
    "Difference",
    "Mistake",
    "Pair",
    "ParityError",
    "Probe",
    "Report",
    "Site",
    "diagnose",
    "diff",
    "probe",
    "run",
    "verify",
]

class ParityError(Exception):
    """What keeps parity from an answer: bad arguments, unreadable input, nothing compared."""

    problem: str
    """What was expected, what was found, and where."""
    help: str | None
    """What to do about it."""

@final
class Site:
    """One site under one lens."""

    @property
    def name(self) -> str:
        """Its path, as transformers names modules: `model.layers.3.self_attn.q_norm`."""
    @property
    def operator(self) -> str:
        """The path inside its layer: `self_attn.q_norm`."""
    @property
    def lens(self) -> str:
        """`local`, `layer` or `global`."""
    @property
    def verdict(self) -> str:
        """`exact`, `within`, `tie`, `inconclusive`, `suspicious` or `fault`."""
    @property
    def ratio(self) -> float | None:
        """The worst element's distance in units of its bound: above 1 it is a fault."""
    @property
    def index(self) -> list[int] | None:
        """The worst element's index, without a batch axis."""
    @property
    def candidate(self) -> float | None:
        """What the candidate has there."""
    @property
    def reference(self) -> float | None:
        """What the reference has there."""
    @property
    def bound(self) -> float | None:
        """How far the two may be apart."""
    @property
    def request(self) -> int:
        """The request, from 0."""
    @property
    def step(self) -> int:
        """The forward pass, from 0."""
    @property
    def count(self) -> int:
        """Elements, or tokens that chose."""
    @property
    def faults(self) -> int:
        """How many of them are outside."""
    @property
    def deviation(self) -> float:
        """‖candidate − reference‖ / ‖reference‖."""
    @property
    def segment(self) -> list[str]:
        """Paths of operators that were judged together with it, since the dump does not show what is between them."""
    @property
    def note(self) -> str | None:
        """What else there is to say, in a sentence."""

@final
class Report:
    """A comparison of a dump with the reference; of several requests, all of them. As text, the terminal's report."""

    @property
    def verdict(self) -> str:
        """`PASS`, `INCONCLUSIVE`, `SUSPICIOUS` or `FAIL`, the worst of all requests."""
    @property
    def passed(self) -> bool:
        """Whether there is no fault, nor what was denied or required and not compared."""
    @property
    def sites(self) -> list[Site]:
        """Every judged site under every lens, in the order in which a token meets them."""
    @property
    def faults(self) -> list[Site]:
        """The sites whose verdict is `fault`, the local lens's first: the first one names the operator."""
    def json(self) -> str:
        """The report as `--json` writes it: an object with a list `reports`, one a request."""
    def html(self) -> str:
        """The report as `--html` writes it: a page in one file."""
    def _repr_html_(self) -> str: ...

@final
class Mistake:
    """A mistake that explains a fault."""

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def way(self) -> str:
        """How it is made."""
    @property
    def about(self) -> str:
        """What it does."""
    @property
    def right(self) -> str:
        """What is right."""
    @property
    def layers(self) -> list[int]:
        """The layers of which more is right under it; none where the fault is in no layer."""
    @property
    def equivalent(self) -> list[str]:
        """Other mistakes that explain as much."""
    @property
    def reproduced(self) -> tuple[int, int] | None:
        """Values at the fault's site that are, under the mistake, bit for bit those expected, of so many."""
    @property
    def request(self) -> int:
        """The request, from 0."""
    @property
    def fault(self) -> Site:
        """The fault."""

@final
class Diagnosis:
    """What makes a dump what it is. As text, what the command line says."""

    @property
    def passed(self) -> bool:
        """Whether there is nothing to explain."""
    @property
    def mistakes(self) -> list[Mistake]:
        """The mistakes that explain faults, in the order in which these arise."""
    @property
    def left(self) -> int:
        """How many faults no known mistake explains."""
    def json(self) -> str:
        """The diagnosis as `--json` writes it."""
    def html(self) -> str:
        """The diagnosis as `--html` writes it: a page in one file."""
    def _repr_html_(self) -> str: ...

@final
class Pair:
    """How two tensors of one name differ. Figures are None where the shapes differ."""

    @property
    def name(self) -> str:
        """The name in both."""
    @property
    def shapes(self) -> tuple[list[int], list[int]]:
        """The shape in each, without axes of 1 before it."""
    @property
    def count(self) -> int | None:
        """Elements."""
    @property
    def unequal(self) -> int | None:
        """How many of them differ."""
    @property
    def first_unequal(self) -> list[int] | None:
        """The index of the first that does."""
    @property
    def max_absolute(self) -> float | None:
        """The largest |a − b|."""
    @property
    def worst(self) -> list[int] | None:
        """The index of that."""
    @property
    def relative(self) -> float | None:
        """RMS(a − b) / RMS(b)."""
    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between the two."""
    @property
    def nan(self) -> tuple[int, int] | None:
        """NaN in each."""
    @property
    def infinite(self) -> tuple[int, int] | None:
        """Infinities in each."""

@final
class Difference:
    """How two dumps differ. As text, what the command line prints."""

    @property
    def equal(self) -> bool:
        """Whether every value is the same in both, of all that both have."""
    @property
    def pairs(self) -> list[Pair]:
        """What both have, in the order in which a token meets it."""
    @property
    def first(self) -> Pair | None:
        """The first pair that differs at all."""
    @property
    def only_a(self) -> list[str]:
        """Names that only the first has."""
    @property
    def only_b(self) -> list[str]:
        """Names that only the second has."""
    def json(self) -> str:
        """The difference as `--json` writes it."""

@final
class Probe:
    """What a function does with the last bits. As text, a line for each thing that is told."""

    @property
    def kind(self) -> str:
        """What the function computes."""
    @property
    def order(self) -> str | None:
        """The order of additions, as nested sums of the terms' numbers, `((0+1)+2)`; None where it is not told."""
    @property
    def places(self) -> list[int] | None:
        """The terms that the order has; None where it has all."""
    @property
    def foretold(self) -> tuple[int, int] | None:
        """Random sums that came out bit for bit as this order and this arithmetic have them, of how many."""
    @property
    def fields(self) -> dict[str, str]:
        """What is said of a precision, by its fields' names."""
    @property
    def precision(self) -> str:
        """The precision that was given with these fields, as `precision=` of `verify` and `--precision` take it."""
    @property
    def findings(self) -> list[tuple[str, str]]:
        """What is told, and what is told of it."""
    @property
    def text(self) -> str:
        """All of it, as `print` shows it."""

def probe(function: Any, question: dict[str, Any]) -> Probe: ...
def verify(model: str, dump: Any, known: dict[str, Any], question: dict[str, Any]) -> Report: ...
def diagnose(model: str, dump: Any, known: dict[str, Any]) -> Diagnosis: ...
def diff(a: Any, b: Any, model: str | None, names: str | None, part: dict[str, Any]) -> Difference: ...
def run(job: dict[str, Any]) -> tuple[list[tuple[str, str, list[int], bytearray]], list[int]]: ...
