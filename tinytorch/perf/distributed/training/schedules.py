"""Schedules of a pipeline: in which order a stage runs the forward and the backward of each micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple


class Action(NamedTuple):
    """One piece of a stage's work."""

    phase: Literal["forward", "backward"]
    micro: int


#: From stage, stages and micro-batches to the stage's work, in order.
Schedule = Callable[[int, int, int], list[Action]]


def _checked(stage: int, stages: int, micro: int) -> None:
    if not 0 <= stage < stages:
        raise ValueError(f"stage must be 0 to {stages - 1}, not {stage}")
    if micro < 1:
        raise ValueError(f"micro must be at least 1, not {micro}")


def gpipe(stage: int, stages: int, micro: int) -> list[Action]:
    """Return all forwards, then all backwards; a stage holds the activations of all micro-batches.

    Source: Y. Huang et al., GPipe, 2019 (arXiv:1811.06965).

    Raises:
        ValueError: if a number is out of range.
    """
    _checked(stage, stages, micro)
    return [Action("forward", m) for m in range(micro)] + [Action("backward", m) for m in range(micro)]


def one_forward_one_backward(stage: int, stages: int, micro: int) -> list[Action]:
    """Return forwards until the first gradient can be back, then backward and forward in turns.

    A stage holds the activations of at most ``stages - stage`` micro-batches; the time in which it waits is GPipe's.
    Source: D. Narayanan et al., 2021 (arXiv:2104.04473), section 2.2.1.

    Raises:
        ValueError: if a number is out of range.
    """
    _checked(stage, stages, micro)
    ahead = min(stages - stage - 1, micro)
    actions = [Action("forward", m) for m in range(ahead)]
    for m in range(micro - ahead):
        actions += [Action("forward", ahead + m), Action("backward", m)]
    return actions + [Action("backward", m) for m in range(micro - ahead, micro)]


def most_held(actions: list[Action]) -> int:
    """Return the largest number of micro-batches whose forward has run and whose backward has not."""
    held = most = 0
    for action in actions:
        held += 1 if action.phase == "forward" else -1
        most = max(most, held)
    return most
