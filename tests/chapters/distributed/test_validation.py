"""Predictions beside real steps: every split is there, with the state that ranks really keep; and refusals."""

from __future__ import annotations

import math

import pytest

from tinytorch.chapters.distributed import validation
from tinytorch.chapters.distributed.validation import GPTShape, split_named, validate
from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.cluster_model.collective_costs import GivenLink
from tinytorch.perf.distributed.cluster_model.prediction import Split, predict

SHAPE = GPTShape(vocabulary=16, width=32, blocks=2, heads=4, positions=8)
LINE = GivenLink(5e-6, 2e-10)
#: What runs with the whole batch in one piece, so that its parts were timed with as many examples.
WAYS = [
    "data, 2 ranks",
    "data overlapped, 2 ranks",
    "data sharded, 2 ranks",
    "data sharded overlapped, 2 ranks",
    "tensor, 2 ranks",
    "pipeline, 2 ranks",
]


def test_each_split_of_a_real_step_stands_beside_its_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "usable_cores", lambda: [0, 1])
    found = validate(LINE, SHAPE, examples=16, micro=4, rounds=2, at_most_seconds=1.0)
    assert [row.name for row in found.rows] == ["one rank", *WAYS]
    parameters = sum(parameter.size for parameter in GPT(16, 32, 2, 4, 8).parameters())
    workload = found.source.workload
    assert workload.parameters == parameters
    for row in found.rows:
        assert row.measured.n == 2
        assert min(row.measured.samples) > 0
        expected = [row.predicted.seconds / sample - 1 for sample in row.measured.samples]
        assert row.error.samples == pytest.approx(expected)
        took = row.measured.interval
        ends = [row.predicted.seconds / took.high - 1, row.predicted.seconds / took.low - 1]
        assert [row.error.interval.low, row.error.interval.high] == pytest.approx(ends)
        assert math.isfinite(row.predicted.seconds)
    states = {row.name: (row.state_bytes, row.predicted.memory.state) for row in found.rows}
    for name in ("one rank", *WAYS[:2], "tensor, 2 ranks"):
        assert states[name][0] == states[name][1], name
    assert states["data sharded, 2 ranks"][0] == pytest.approx(8 * parameters / 2, abs=16), "padding of buckets"
    assert states["pipeline, 2 ranks"][0] == pytest.approx(states["pipeline, 2 ranks"][1], rel=0.01)
    alone = predict(workload, found.cluster, Split())
    assert found.rows[0].predicted == alone
    parts = found.source.parts
    whole, half = (max(parts[f"model {n}"].median, 2 * parts[f"block {n}"].median) for n in (16, 8))
    assert alone.seconds == pytest.approx(whole + parts["update"].median)
    assert found.worst.error.median == max((row.error.median for row in found.rows), key=abs)
    halves = [row.predicted for row in found.rows if row.predicted.split.data == 2]
    assert len(halves) == 4
    assert [one.computing for one in halves] == pytest.approx([half] * 4), "what half the batch took, not half of all"
    kept = workload.block.divided_bytes + workload.block.whole_bytes
    assert kept > 16 * 8 * 32 * 4 / 16, "a block keeps at least its input"


def test_the_ways_have_the_splits_that_they_are_called_after() -> None:
    assert split_named("data sharded overlapped", 2, 4, 0.5, 1e6) == Split(2, sharding=1, overlap=0.5, bucket_bytes=1e6)
    assert split_named("data", 3, 4, 0.5, 1e6) == Split(3, bucket_bytes=1e6)
    assert split_named("data and tensor", 8, 4, 0.5, 1e6) == Split(2, 4, bucket_bytes=1e6)
    assert split_named("pipeline", 2, 4, 0.5, 1e6) == Split(pipeline=2, micro=4)
    assert split_named("tensor", 2, 4, 0.5, 1e6) == Split(tensor=2)
    with pytest.raises(ValueError, match="way must be one of validation_times, not 'rows'"):
        split_named("rows", 2, 4, 0.5, 1e6)


def test_what_cannot_be_validated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "usable_cores", lambda: [0, 1])
    with pytest.raises(ValueError, match="ranks must be 2 to 2, the cores that this process may use, not 3"):
        validate(LINE, SHAPE, ranks=[2, 3])
    with pytest.raises(ValueError, match="examples must be a multiple of twice micro, 8, not 12"):
        validate(LINE, SHAPE, examples=12)
    with pytest.raises(ValueError, match="examples, micro and rounds must be at least 1, not 8, 0 and 20"):
        validate(LINE, SHAPE, examples=8, micro=0)
    with pytest.raises(ValueError, match="at_most_seconds must be above 0, not 0"):
        validate(LINE, SHAPE, examples=8, at_most_seconds=0)
