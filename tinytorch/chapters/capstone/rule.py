"""The rule that says whether a step is kept, stated before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between
from tinytorch.perf.measuring.noise import NoiseFloor
from tinytorch.perf.quantization import PairedAccuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change


class Outcome(StrEnum):
    """What becomes of a step under the rule."""

    PASSES = "passes"
    NOT_FASTER = "gains too little"
    NOT_PROVEN = "not proven to gain enough"
    TOO_MANY_WRONG = "too many wrong"
    MAY_BE_TOO_MANY = "may be too many wrong"

    @property
    def is_open(self) -> bool:
        """Whether more samples, or more questions, might let it pass."""
        return self in (Outcome.NOT_PROVEN, Outcome.MAY_BE_TOO_MANY)


#: What a page says of answers that were lost, by the verdict on whether they are within the budget.
BUDGET_WORDS = {
    Verdict.SUPPORTED: "within the budget",
    Verdict.REFUTED: "more than the budget allows",
    Verdict.OPEN: "not proven to be within the budget",
}


@dataclass(frozen=True)
class Rule:
    """The rule for a step: it is kept if it is faster beyond doubt, and its answers hold beyond doubt.

    Attributes:
        matters: relative difference of time that matters.
        accuracy_budget: share of the test questions that may be lost against the plain start: the lower end of the
            paired difference's interval must not lie below minus this.
        noise: where a page knows what ratios the same code shows against itself; None if nothing is known.
    """

    matters: float = 0.1
    accuracy_budget: float = 0.01
    noise: NoiseFloor | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.matters < 1:
            raise ValueError(f"matters must lie from 0 to below 1, such as 0.1, not {self.matters}")
        if not 0 <= self.accuracy_budget < 1:
            raise ValueError(f"accuracy_budget must be a share from 0 to below 1, not {self.accuracy_budget}")

    def is_faster(self, gained: Comparison) -> bool:
        """Return whether the step is faster by more than what matters, and noise does not hide it."""
        return self.judged(gained).is_gain

    def judged(self, gained: Comparison) -> Comparison:
        """Return the gain as far as the noise of the page leaves it."""
        return gained if self.noise is None else self.noise.judged(gained)

    def within_budget(self, accuracy: PairedAccuracy) -> Judgement:
        """Return the verdict on whether no more answers were lost than the budget allows."""
        return verdict_between(accuracy_change(accuracy, "change of right answers"), low=-self.accuracy_budget)

    def holds(self, accuracy: PairedAccuracy) -> bool:
        """Return whether no more answers can have been lost than the budget allows."""
        return self.within_budget(accuracy).verdict is Verdict.SUPPORTED

    def outcome(self, gained: Comparison, accuracy: PairedAccuracy | None) -> Outcome:
        """Return whether the step passes, and if not, why.

        Raises:
            ValueError: if it is faster, and ``accuracy`` is not given.
        """
        if not self.is_faster(gained):
            return Outcome.NOT_FASTER if self.judged(gained).is_no_gain else Outcome.NOT_PROVEN
        if accuracy is None:
            raise ValueError("accuracy must be given for a step that is faster: score it first")
        outcomes = {Verdict.SUPPORTED: Outcome.PASSES, Verdict.REFUTED: Outcome.TOO_MANY_WRONG}
        return outcomes.get(self.within_budget(accuracy).verdict, Outcome.MAY_BE_TOO_MANY)
