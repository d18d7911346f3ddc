"""The steps of the capstone: each is one change of a configuration, and the chapter that taught it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinytorch.perf.capstone.configuration import PLAIN, Configuration

#: Values of which the first is not chosen where the second was.
_NOT_AFTER = (("8-bit", "none"), ("float32", "8-bit"), ("layers", "token"))


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

        A step can be taken where its choice was still the plain one, or was another of the same kind; never where it
        was made already or what comes out could not run.
        """
        now = getattr(before, self.field)
        # The distilled model is smaller than all others, a cache of codes is a change of a cache, and layers are not
        # fused again once a token is one op.
        if now in (self.value, "distilled") or (self.value, now) in _NOT_AFTER:
            return None
        try:
            return replace(before, **{self.field: self.value})
        except ValueError:
            return None


#: Every step on one core. Steps that cannot be taken yet are offered later.
STEPS = (
    Step("key-value cache", "cache", "float32", "memoization"),
    Step("compiled kernels", "kernels", True, "acceleration"),
    Step("fused layers", "fusion", "layers", "acceleration"),
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


def taken_by_itself(step: Step) -> Configuration | None:
    """Return the plain start with this step alone, or None where it needs another one first."""
    return step.after(PLAIN)
