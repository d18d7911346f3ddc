"""How the tools of the field decide whether one program is faster than another, each as a function of two samples.

Each rule takes the seconds of the baseline and of the candidate and returns 1 if it calls the candidate slower, -1
if faster, 0 if neither. A rule comes from its package where it has one for Python, else from its documentation.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Verdict

Times = npt.NDArray[np.float64]
Rule = Callable[[Times, Times], int]

#: The difference beyond which rules that take a threshold, and folklore, call it one.
THRESHOLD = 0.01
#: Resamples of criterion's bootstrap; its default is 100,000, which moves its p-values by less than 0.01.
_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule with its name and where it comes from; ``paired`` says that its samples are taken in turns."""

    name: str
    source: str
    decide: Rule
    paired: bool = False


def _package(module: str) -> tuple[ModuleType, str]:
    """Return a module of a tool, which the peers' environment has, and its version in words."""
    name = module.partition(".")[0]
    return importlib.import_module(module), f"{name} {version(name)}"


def _direction(before: float, after: float) -> int:
    return 1 if after > before else -1 if after < before else 0


def ours(baseline: Times, candidate: Times) -> int:
    """Decide by `compare_paired`, whose slower and faster do not depend on what matters."""
    return {Verdict.SLOWER: 1, Verdict.FASTER: -1}.get(compare_paired(baseline, candidate, 0).verdict, 0)


def pyperf() -> NamedRule:
    """Return the rule of ``pyperf compare_to``: Student's t-test on the values, two-sided, at 95 %.

    Source: https://pyperf.readthedocs.io/en/latest/cli.html#compare-to-cmd.
    """
    package, source = _package("pyperf._utils")

    def decide(baseline: Times, candidate: Times) -> int:
        significant, _ = package.is_significant(baseline.tolist(), candidate.tolist())
        return _direction(float(baseline.mean()), float(candidate.mean())) if significant else 0

    return NamedRule("pyperf compare_to", source, decide)


def asv(factor: float) -> NamedRule:
    """Return the rule of ``asv compare``: medians apart by ``factor``, and a Mann-Whitney U test below 0.002.

    Source: https://asv.readthedocs.io/en/stable/commands.html#asv-compare, whose default factor is 1.1.
    """
    package, source = _package("asv._stats")

    def decide(baseline: Times, candidate: Times) -> int:
        before, after = float(np.median(baseline)), float(np.median(candidate))
        if max(before, after) < factor * min(before, after):
            return 0
        different = package.is_different(baseline.tolist(), candidate.tolist(), None, None)
        return _direction(before, after) if different else 0

    return NamedRule(f"asv compare, factor {factor:g}", source, decide)


def hyperfine(baseline: Times, candidate: Times) -> int:
    """Decide by hyperfine's summary: the printed ratio of the means is more than its ± away from 1.

    The ± is the spread of single runs, carried over to the ratio as if both were independent.
    Source: https://github.com/sharkdp/hyperfine, src/benchmark/relative_speed.rs.
    """
    means = baseline.mean(), candidate.mean()
    slow, fast = max(means), min(means)
    parts = [times.std(ddof=1) / times.mean() for times in (baseline, candidate)]
    ratio = slow / fast
    return _direction(*means) if ratio - ratio * math.hypot(*parts) > 1 else 0


def criterion(baseline: Times, candidate: Times) -> int:
    """Decide as criterion.rs does: a bootstrap t-test below 5 %, and a change of the mean wholly beyond 1 %.

    The test draws both samples from the pooled one; the change is the bootstrap's 95 % interval of the ratio of
    the means. Source: https://bheisler.github.io/criterion.rs/book/analysis.html, and src/analysis/compare.rs.
    """
    draw = np.random.default_rng(0)

    def resampled(times: Times, count: int) -> Times:
        return times[draw.integers(0, times.size, (_RESAMPLES, count))]

    def t_of(a: Times, b: Times) -> Any:
        return (a.mean(-1) - b.mean(-1)) / np.sqrt(a.var(-1, ddof=1) / a.shape[-1] + b.var(-1, ddof=1) / b.shape[-1])

    pooled = np.concatenate([baseline, candidate])
    chance = t_of(resampled(pooled, candidate.size), resampled(pooled, baseline.size))
    hits = float((chance < t_of(candidate, baseline)).mean())
    if 2 * min(hits, 1 - hits) >= 0.05:
        return 0
    change = resampled(candidate, candidate.size).mean(-1) / resampled(baseline, baseline.size).mean(-1) - 1
    low, high = np.quantile(change, [0.025, 0.975])
    return 1 if low > THRESHOLD else -1 if high < -THRESHOLD else 0


def torch_compare() -> NamedRule:
    """Return what a reader of ``torch.utils.benchmark.Compare`` sees: medians that differ in figures it trusts.

    With ``trim_significant_figures`` it shows each median rounded to the figures that its interquartile range leaves.
    Source: torch/utils/benchmark/utils/common.py.
    """
    common, source = _package("torch.utils.benchmark.utils.common")

    def shown(times: Times) -> float:
        made = common.Measurement(1, times.tolist(), common.TaskSpec(stmt="", setup=""))
        return float(common.trim_sigfig(made.median, made.significant_figures))

    return NamedRule("torch Compare, trimmed", source, lambda before, after: _direction(shown(before), shown(after)))


#: The source of rules that no tool has, but many people.
FOLKLORE = "folklore"


def beyond_threshold(statistic: Callable[[Times], Any]) -> Rule:
    """Return the rule that compares one number of each sample, and calls more than `THRESHOLD` a difference."""

    def decide(baseline: Times, candidate: Times) -> int:
        before, after = float(statistic(baseline)), float(statistic(candidate))
        return _direction(before, after) if max(before, after) > (1 + THRESHOLD) * min(before, after) else 0

    return decide


def all_rules() -> list[NamedRule]:
    """Return every rule, ours first."""
    return [
        NamedRule("ours", "this package", ours, paired=True),
        pyperf(),
        asv(1.1),
        asv(1 + THRESHOLD),
        NamedRule("hyperfine, ratio ± σ", "its source", hyperfine),
        NamedRule("criterion.rs", "its book", criterion),
        torch_compare(),
        NamedRule("minimum, beyond 1 %", FOLKLORE, beyond_threshold(np.min)),
        NamedRule("mean, beyond 1 %", FOLKLORE, beyond_threshold(np.mean)),
    ]
