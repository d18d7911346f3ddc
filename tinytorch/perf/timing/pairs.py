"""What two measurements that were taken in turns say of each other: the ratio and the difference of each pair."""

from __future__ import annotations

from collections.abc import Iterator

from tinytorch.perf.timing.measurement import Measurement


def checked_neighbours(baseline: Measurement, candidate: Measurement) -> None:
    """Raise ValueError unless the i-th samples of both were taken in turns, in one unit, by one `interleave`."""
    if baseline.unit != candidate.unit:
        raise ValueError(f"candidate must be in {baseline.unit!r} as the baseline is, not in {candidate.unit!r}")
    if candidate.name not in baseline.how.get("interleaved_with", ()) or baseline.n != candidate.n:
        raise ValueError(
            f"candidate {candidate.name!r} was not interleaved with baseline {baseline.name!r}: "
            "time both in one call of interleave()"
        )


def _paired(baseline: Measurement, candidate: Measurement) -> Iterator[tuple[float, float]]:
    """Return the pairs of neighbouring samples, after checking that they are neighbours."""
    checked_neighbours(baseline, candidate)
    return zip(baseline.samples, candidate.samples, strict=True)


def ratio(baseline: Measurement, candidate: Measurement, name: str | None = None) -> Measurement:
    """Return ``baseline / candidate`` of each pair of neighbouring samples: a speedup, above 1 is faster.

    Raises:
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.
    """
    ratios = tuple(before / after for before, after in _paired(baseline, candidate))
    return Measurement(name or f"{baseline.name} / {candidate.name}", ratios, "", baseline.how)


def difference(more: Measurement, less: Measurement, name: str) -> Measurement:
    """Return ``more - less`` of each pair of neighbouring samples, in their unit: what the first adds.

    Raises:
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.
    """
    return Measurement(name, tuple(a - b for a, b in _paired(more, less)), more.unit, more.how)
