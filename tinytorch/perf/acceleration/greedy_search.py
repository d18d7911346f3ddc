"""Profile, replace what takes most, measure, repeat: each move beside what Amdahl's law predicted for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tinytorch.core import dispatch
from tinytorch.core.op import Array, Call, Implementation, Op, Saved
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.judge import Verdict, verdict_between
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.profiling.shares import share_in_turns

#: Which implementation of some ops runs.
Chosen = Mapping[Op, Implementation]
#: Operands and parameters of an op's calls.
Calls = Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
#: Samples of what each op takes, whose median says which takes most.
_SHARES = 15
#: How both sides of a comparison are sampled.
_PLAN: dict[str, Any] = {"repeats": 30, "at_most_seconds": 1.0, "warmup_seconds": 0.05}


@dataclass(frozen=True)
class Move:
    """One op that was given another implementation.

    Attributes:
        op, before, after: names of the op and of its two implementations.
        share: of the whole's time, 0 to 1, before.
        alone: how many times faster the op's calls are, by themselves on the same operands.
        predicted: how many times faster the whole should be, by Amdahl's law from the two.
        gained: how many times faster it is, by the trial that decides whether the move is kept.
    """

    op: str
    before: str
    after: str
    share: Measurement
    alone: Measurement
    predicted: Modelled
    gained: Comparison

    @property
    def kept(self) -> bool:
        """Whether the whole is proven to be faster; else the op stays as it was."""
        return self.gained.verdict == Verdict.FASTER


@dataclass(frozen=True)
class Kept:
    """A move that was kept: how many times as fast it made the whole, between stages, and all moves up to it."""

    move: Move
    gained: Measurement
    so_far: Measurement


@dataclass(frozen=True)
class Climb:
    """Moves in the order in which they were made, and the whole as they left it.

    Attributes:
        moves: those that were kept and those that were not.
        stages: seconds of the whole as it began and after each move that was kept, taken in turns when all were made.
    """

    moves: tuple[Move, ...]
    stages: tuple[Measurement, ...]

    @property
    def kept(self) -> list[Kept]:
        """Moves that were kept. Their gains multiply to the last, as those of trials at different moments need not."""
        kept, first = (move for move in self.moves if move.kept), self.stages[0]
        return [
            Kept(
                move,
                ratio(before, after, f"{before.name} over {after.name}"),
                ratio(first, after, f"the whole as it began over {after.name}"),
            )
            for move, (before, after) in zip(kept, pairwise(self.stages), strict=True)
        ]

    @property
    def gains(self) -> list[Measurement]:
        """How many times as fast each move made the whole, between neighbouring stages; by its trial if not kept."""
        anew = iter(self.kept)
        return [next(anew).gained if move.kept else move.gained.estimate for move in self.moves]

    @property
    def tried(self) -> Counted:
        """How many moves were tried."""
        return Counted(len(self.moves), "changes", "changes that were tried")

    @property
    def count(self) -> Derived:
        """How many of them were kept."""
        return Derived(len(self.kept), "1", "changes that were kept", tuple(self.gains), "it counts verdicts")

    @property
    def farthest(self) -> Derived:
        """Largest ratio between prediction and median of a move that was kept; 1 if none was."""
        off = [one.move.predicted.value / one.gained.median for one in self.kept]
        what = "largest ratio between prediction and median of a kept change, whichever is larger over the other"
        largest = max((max(each, 1 / each) for each in off), default=1.0)
        return Derived(largest, "", what, tuple(self.gains), "it is a largest one")

    @property
    def unexplained(self) -> Derived:
        """How many kept moves gained what not even the intervals of share and speedup allow, by Amdahl's law."""
        outside = 0
        for one in self.kept:
            carried = one.move.predicted.carried
            if carried is not None:
                allowed = carried.interval
                word = verdict_between(one.gained, low=allowed.low, high=allowed.high).verdict
                outside += word is Verdict.REFUTED
        what = "kept changes outside of what the intervals allow"
        return Derived(outside, "changes", what, tuple(self.gains), "it counts verdicts")

    def move(self, op: str, after: str) -> Move | Unmeasured:
        """Return the move that gave an op the implementation ``after``, kept or not, if it was tried."""
        found = [move for move in self.moves if (move.op, move.after) == (op, after)]
        return found[0] if found else Unmeasured(f"{op} takes too little of the whole to try {after} for it")


class _Operands(dispatch.Observer):
    """Keeps the operands of every call of some ops."""

    def __init__(self) -> None:
        self.calls: dict[Op, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {}

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Called after an op ran."""
        del outputs, saved
        arrays = tuple(each.data if isinstance(each, Tensor) else each for each in inputs)
        self.calls.setdefault(call.op, []).append((arrays, call.params))


def ops_of(run: Callable[[], Any]) -> dict[Op, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Return the ops that a run without backward makes, each with operands and parameters of its calls."""
    seen = _Operands()
    with dispatch.observed_by(seen):
        run()
    return seen.calls


def ways_of(run: Callable[[], Any], first: Chosen | None = None) -> dict[Op, list[Implementation]]:
    """Return the implementations of each op of a run, to climb: one of ``first`` if there is, NumPy's, the kernel."""
    compiled, begin = kernel_implementations(), first or {}
    return {
        op: [*([begin[op]] if op in begin else []), op.reference, *([compiled[op]] if op in compiled else [])]
        for op in ops_of(run)
    }


def under(run: Callable[[], Any], chosen: Chosen) -> Callable[[], Any]:
    """Return ``run`` with these implementations; to select them costs each call the same for as many ops."""

    def selected() -> Any:
        with dispatch.implementations(chosen):
            return run()

    return selected


def climb(run: Callable[[], Any], ways: Mapping[Op, Sequence[Implementation]], *, least_share: float = 0.02) -> Climb:
    """Search greedily for the fastest implementation of every op, beginning with the op that takes the most time.

    A move takes the op that most of the time goes to, among those with a way left, times both ways on the operands of
    one run, predicts, and times the whole both ways in turns. It is kept where the whole is proven to be faster. When
    all moves are made, the whole is timed once more as each of them left it, all in turns.

    Args:
        run: without backward and always with the same operands, such as a forward pass within `no_grad`.
        ways: implementations of each op, from the one to begin with to the last to be tried.
        least_share: of the whole's time, below which an op is left alone.

    Raises:
        ValueError: if an op has no way, or ``least_share`` is not between 0 and 1.

    Examples:
        >>> from tinytorch.perf.acceleration.greedy_search import climb
        >>> climb(lambda: None, {}, least_share=2)
        Traceback (most recent call last):
        ValueError: least_share must lie between 0 and 1, not 2
    """
    if not 0 <= least_share <= 1:
        raise ValueError(f"least_share must lie between 0 and 1, not {least_share}")
    empty = [op.name for op, each in ways.items() if not each]
    if empty:
        raise ValueError(f"ways must hold an implementation of each op, but has none of {', '.join(empty)}")
    chosen = {op: each[0] for op, each in ways.items()}
    left = {op: list(each[1:]) for op, each in ways.items()}
    calls = ops_of(under(run, chosen))
    moves: list[Move] = []
    stages = {"as it began": under(run, dict(chosen))}
    while True:
        shares = _shares(run, chosen, calls, [op for op in left if left[op] and op in calls])
        largest = max(shares, key=lambda op: shares[op].median, default=None)
        if largest is None or shares[largest].median < least_share:
            return Climb(tuple(moves), tuple(interleave(stages, **_PLAN).values()))
        after = left[largest].pop(0)
        move = _moved(run, chosen, largest, after, calls[largest], shares[largest])
        moves.append(move)
        if move.kept:
            chosen[largest] = after
            stages[f"after move {len(moves)}, {move.op}"] = under(run, dict(chosen))


def _shares(
    run: Callable[[], Any], chosen: Chosen, calls: Mapping[Op, Calls], wanted: Sequence[Op]
) -> dict[Op, Measurement]:
    """Return the share of the run's time that each op takes: its calls on the run's operands over the run, in turns.

    A recorder would tell too, but its own work between the ops takes the caches from them, which a short run feels.
    """
    if not wanted:
        return {}
    parts = {op.name: replayed(chosen[op], calls[op]) for op in wanted}
    times = interleave({"whole": under(run, chosen), **parts}, **(_PLAN | {"repeats": _SHARES}))
    return {op: share_in_turns(times[op.name], times["whole"], f"share of {op.name}") for op in wanted}


def _moved(
    run: Callable[[], Any], chosen: Chosen, op: Op, after: Implementation, calls: Calls, share: Measurement
) -> Move:
    before = chosen[op]
    parts = interleave({"before": replayed(before, calls), "after": replayed(after, calls)}, **_PLAN)
    alone = ratio(parts["before"], parts["after"], f"speedup of {op.name} by itself")
    wholes = interleave({"before": under(run, chosen), "after": under(run, {**chosen, op: after})}, **_PLAN)
    gained = compare_paired(wholes["before"], wholes["after"], matters=0.1)
    foreseen = Modelled.by("Amdahl's law", predicted_speedup(share, alone, "speedup of the whole"))
    return Move(op.name, before.name, after.name, share, alone, foreseen, gained)


def replayed(implementation: Implementation, calls: Calls) -> Callable[[], None]:
    """Return a run of an op's calls by themselves, one after the other on their own operands."""

    def run() -> None:
        for arrays, params in calls:
            implementation.forward(False, *arrays, **params)

    return run
