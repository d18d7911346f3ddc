"""What a benchmark's tables hold: a row for each variant, and a row for each comparison, ready for `tables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinytorch.perf.benchmarking.comparing import Change, compare_with_first
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.regressions import ResultsChange
from tinytorch.perf.comparison import Comparison
from tinytorch.report.tables import Column

Row = dict[str, Any]


def performance_rows(performances: Mapping[str, Performance]) -> tuple[list[Row], list[Column]]:
    """Return rows and columns of all that was measured of each variant, and its comparison with the first.

    The accuracy is a share in per cent; what was not measured is a dash.
    """
    batches = sorted({size for one in performances.values() for size in one.batches})
    changes = compare_with_first(performances) if len(performances) > 1 else {}
    first = batches[0]
    columns = [Column("name", "variant"), Column("time", f"time at {first}")]
    columns += [Column(f"rate-{size}", f"throughput at {size}") for size in batches]
    columns += [Column("memory", "peak memory"), Column("size", "model"), Column("accuracy", "accuracy")]
    if changes:
        columns += [Column("speedup", "speedup"), Column("verdict", "it is")]
    rows = []
    for name, one in performances.items():
        change = changes.get(name)
        rates = {f"rate-{size}": one.throughput[size] if size in one.times else None for size in batches}
        accuracy = one.accuracy
        row: Row = {"name": name, "time": one.time, **rates, "memory": one.peak_memory, "size": one.size}
        row["accuracy"] = None if accuracy is None else share_words(accuracy.median, accuracy.interval)
        row["speedup"] = None if change is None else change.speedup.ratio
        row["verdict"] = "the baseline" if change is None else change.speedup.verdict
        rows.append(row)
    return rows, columns


def share_words(share: float, interval: Any) -> str:
    """Return "98.9 % (97.2 to 99.7)"."""
    return f"{100 * share:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def change_rows(changed: ResultsChange) -> tuple[list[Row], list[Column]]:
    """Return rows and columns of two runs' comparison: each variant and batch size, then the geometric mean."""
    columns = [
        Column("name", "variant"),
        Column("batch", "batch"),
        Column("speedup", "speedup"),
        Column("interval", "interval"),
        Column("verdict", "the new one is"),
        Column("memory", "memory"),
        Column("accuracy", "accuracy"),
    ]
    rows = []
    for name, change in changed.changes.items():
        for size, speedup in change.speedups.items():
            rows.append(
                _speed_row(name, str(size), speedup)
                | {"memory": _memory_words(change), "accuracy": _accuracy_words(change)}
            )
    rows.append(_speed_row("geometric mean", "all", changed.geometric_mean) | {"memory": None, "accuracy": None})
    return rows, columns


def _speed_row(name: str, batch: str, speedup: Comparison) -> Row:
    low, high = speedup.interval.low, speedup.interval.high
    return {
        "name": name,
        "batch": batch,
        "speedup": f"{speedup.ratio.median:.3f}",
        "interval": f"{low:.3f} to {high:.3f}",
        "verdict": speedup.verdict,
    }


def _memory_words(change: Change) -> str:
    return f"{change.memory.verdict}, {change.memory.saved_percent:+.1f} % saved"


def _accuracy_words(change: Change) -> str | None:
    if change.accuracy is None:
        return None
    return f"{change.accuracy_verdict}, {100 * change.accuracy.difference:+.2f} points"
