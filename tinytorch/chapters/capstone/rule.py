"""The rule that says whether a step is kept, stated before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tinytorch.perf.measuring.comparison import EQUIVALENT, FASTER, SLOWER, Comparison
from tinytorch.perf.measuring.judge import CANNOT_TELL, REFUTED, SUPPORTED, verdict_between
from tinytorch.perf.measuring.noise import NoiseFloor
from tinytorch.perf.quantization import PairedAccuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change

Outcome = Literal["passes", "not faster", "cannot tell here", "too many wrong", "may be too many wrong"]
PASSES: Final = "passes"
NOT_FASTER: Final = "not faster"
TOO_MANY_WRONG: Final = "too many wrong"
MAY_BE_TOO_MANY: Final = "may be too many wrong"
#: What a page says of answers that were lost, by the verdict on whether they are within the budget.
BUDGET_WORDS = {
    SUPPORTED: "within the budget",
    REFUTED: "more than the budget allows",
    CANNOT_TELL: "not proven to be within the budget",
}


@dataclass(frozen=True)
class Rule:
    """The rule for a step: it is kept if it is faster beyond doubt, and its answers hold beyond doubt.

    Attributes:
        delta: relative difference of time that does not matter.
        accuracy_budget: share of the test questions that may be lost against the plain start: the lower end of the
            paired difference's interval must not lie below minus this.
        noise: where a page knows what ratios the same code shows against itself; None if nothing is known.
    """

    delta: float = 0.02
    accuracy_budget: float = 0.01
    noise: NoiseFloor | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must lie from 0 to below 1, such as 0.02, not {self.delta}")
        if not 0 <= self.accuracy_budget < 1:
            raise ValueError(f"accuracy_budget must be a share from 0 to below 1, not {self.accuracy_budget}")

    def is_faster(self, gained: Comparison) -> bool:
        """Return whether the interval of the gain lies beyond what does not matter, and noise does not hide it."""
        return self._speed(gained) == FASTER

    def _speed(self, gained: Comparison) -> str:
        return gained.verdict if self.noise is None else self.noise.verdict(gained)[0]

    def within_budget(self, accuracy: PairedAccuracy) -> str:
        """Return the verdict on whether no more answers were lost than the budget allows."""
        return verdict_between(accuracy_change(accuracy, "change of right answers"), low=-self.accuracy_budget)

    def holds(self, accuracy: PairedAccuracy) -> bool:
        """Return whether no more answers can have been lost than the budget allows."""
        return self.within_budget(accuracy) == SUPPORTED

    def outcome(self, gained: Comparison, accuracy: PairedAccuracy | None) -> Outcome:
        """Return whether the step passes, and if not, why.

        Raises:
            ValueError: if it is faster, and ``accuracy`` is not given.
        """
        speed = self._speed(gained)
        if speed != FASTER:
            return NOT_FASTER if speed in (SLOWER, EQUIVALENT) else CANNOT_TELL
        if accuracy is None:
            raise ValueError("accuracy must be given for a step that is faster: score it first")
        outcomes: dict[str, Outcome] = {SUPPORTED: PASSES, REFUTED: TOO_MANY_WRONG}
        return outcomes.get(self.within_budget(accuracy), MAY_BE_TOO_MANY)
