"""Errors with what to do about them."""

from parity._native import ParityError


def failed(problem: str, help: str) -> ParityError:
    """An error whose text is a problem and what to do about it, as the library's own have it."""
    error = ParityError(f"{problem}\nhelp: {help}")
    error.problem, error.help = problem, help
    return error
