"""The reference of a model, as an object."""

from typing import TYPE_CHECKING, Any

from parity._arguments import model_of
from parity._calls import Path, run

if TYPE_CHECKING:
    import numpy as np


def reference(model: Path, **options: Any) -> "Reference":
    """The reference of a model, to be run on one prompt after another.

        values = parity.reference("MODEL", precision="f32").run([1, 2, 3])

    Args:
        model: as in `verify`.
        options: those of `run` that hold for every prompt: `semantics`, `precision`, `layers`, `sites`, `decode`, ….

    Raises:
        ParityError: `model` is no folder's or built-in case's name.
    """
    return Reference(model_of(model), options)


class Reference:
    """The reference of a model. Nothing is read before it is run."""

    def __init__(self, model: str, options: dict[str, Any]) -> None:
        self.model, self._options = model, options

    def __repr__(self) -> str:
        return f"<parity.Reference {self.model}>"

    def run(self, tokens: Any = None, **options: Any) -> "dict[str, np.ndarray[Any, Any]]":
        """What it computes of a prompt [T] at every site, by name: `parity.run` of the model.

        Args:
            tokens: the prompt; a built-in case has its own.
            options: those of `parity.run`, over the reference's own.

        Raises:
            ParityError: as in `parity.run`.
            TypeError: an option that `parity.run` does not have.
        """
        return run(self.model, tokens, **(self._options | options))
