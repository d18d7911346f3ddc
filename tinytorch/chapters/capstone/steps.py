"""The steps of the capstone: each is one change of a configuration, and the chapter that taught it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinytorch.chapters.capstone.configuration import PLAIN, Configuration

#: Values that may take the place of another choice than the plain one.
_REPLACING = ("8-bit", "token", "distilled")


@dataclass(frozen=True, slots=True)
class Step:
    """One change.

    Attributes:
        name: what tables call it.
        field, value: which choice of a `Configuration` it makes.
        chapter: the page that taught it.
    """

    name: str
    field: str
    value: Any
    chapter: str

    def after(self, before: Configuration) -> Configuration | None:
        """Return the configuration after this step, or None if it cannot be taken from ``before``.

        A choice is made once, but a cache may become one of codes, one op a token may take the place of fused layers,
        and the distilled model that of any other.
        """
        now = getattr(before, self.field)
        is_new = now == getattr(PLAIN, self.field)
        if now == self.value or not (is_new or self.value in _REPLACING) or (self.value, now) == ("8-bit", "none"):
            return None
        try:
            return replace(before, **{self.field: self.value})
        except ValueError:
            return None


#: Every step on one core. Steps that cannot be taken yet are offered later.
STEPS = (
    Step("key-value cache", "cache", "float32", "memoization"),
    Step("compiled kernels", "kernels", True, "whole_model"),
    Step("fused layers", "fusion", "layers", "whole_model"),
    Step("one op a token", "fusion", "token", "memoization"),
    Step("8-bit weights", "weights", "8-bit weights", "quantization"),
    Step("8-bit layers", "weights", "8-bit layers", "quantization"),
    Step("8-bit cache", "cache", "8-bit", "memoization"),
    Step("half of the units", "model", "half of the units", "compression"),
    Step("low rank", "model", "low rank", "compression"),
    Step("sparse weights", "model", "sparse", "compression"),
    Step("distilled model", "model", "distilled", "compression"),
)


def step_named(name: str) -> Step:
    """Return the step of that name.

    Raises:
        ValueError: if there is none.
    """
    for step in STEPS:
        if step.name == name:
            return step
    raise ValueError(f"name must be one of {', '.join(step.name for step in STEPS)}, not {name!r}")


#: One step, or two of which the second cannot be taken without the first.
Move = tuple[Step, ...]


def name_of(move: Move) -> str:
    """Return what tables call a move."""
    return " + ".join(step.name for step in move)


def single_moves(before: Configuration, steps: Sequence[Step] = STEPS) -> dict[Move, Configuration]:
    """Return every step that can be taken from ``before``, and the configuration that it makes."""
    return {(step,): after for step in steps if (after := step.after(before)) is not None}


def double_moves(before: Configuration, steps: Sequence[Step] = STEPS) -> dict[Move, Configuration]:
    """Return every pair of steps of which the first makes the second possible, and the configuration that they make."""
    alone = single_moves(before, steps)
    return {
        (*move, second): after
        for move, between in alone.items()
        for second in steps
        if second.field != move[0].field and (second,) not in alone and (after := second.after(between)) is not None
    }
