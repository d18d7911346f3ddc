"""What the chapter asks of a suite: the course's table put to the test."""

from __future__ import annotations

from tinytorch.perf.benchmarking.comparing import Change

#: How far below a factor of the table a measured one may lie and still count as it.
TOLERANCE = 0.1


def table_row_verdicts(change: Change, *, faster: float, smaller: float, accuracy: float, batch: int) -> list[str]:
    """Return for each number of a row of the course's table whether ``change`` is at least as good.

    "supported" if it is proven to be, "refuted" if it is proven not to be, "cannot tell here" if the interval holds
    the limit: nine tenths of ``faster`` and ``smaller``, and for ``accuracy`` the difference of shares, such as -0.005.

    Raises:
        ValueError: if the change was measured without answers.
    """
    if change.accuracy is None:
        raise ValueError("change must have an accuracy")
    speed, size = change.speedups[batch].ratio.interval, change.size.ratio.interval
    loss = change.accuracy.interval
    limits = (
        (speed.low, speed.high, (1 - TOLERANCE) * faster),
        (size.low, size.high, (1 - TOLERANCE) * smaller),
        (loss.low, loss.high, accuracy),
    )
    return [
        "supported" if low >= limit else "refuted" if high < limit else "cannot tell here"
        for low, high, limit in limits
    ]
