"""Predictions beside real steps: every split is there, with its error; and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinytorch import models
from tinytorch.chapters.distributed import validation
from tinytorch.chapters.distributed.explorer import CLUSTERS, MODELS
from tinytorch.chapters.distributed.validation import Validated, Validation, split_named, validate
from tinytorch.perf.distributed.cluster_model.collective_costs import GivenLink
from tinytorch.perf.distributed.cluster_model.prediction import Split, predict
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.profiling import Profiler

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
    found = validate(LINE, ranks=[2], examples=16, rounds=2, at_most_seconds=1.0)
    assert not isinstance(found, Unmeasured)
    assert [row.name for row in found.rows] == ["one rank", *WAYS]
    assert found.workload.parameters == sum(parameter.size for parameter in models.gpt().parameters())
    for row in found.rows:
        assert row.measured.n == 2
        assert min(row.measured.samples) > 0
        assert row.error.samples == pytest.approx([row.seconds.value / one - 1 for one in row.measured.samples])
        took = row.measured.interval
        ends = [row.seconds.value / took.high - 1, row.seconds.value / took.low - 1]
        assert [row.error.interval.low, row.error.interval.high] == pytest.approx(ends)
    alone = predict(found.workload, found.cluster, Split())
    assert found.rows[0].predicted == alone
    parts = found.parts
    whole, half = (max(parts[f"model {n}"].median, 2 * parts[f"block {n}"].median) for n in (16, 8))
    assert alone.seconds == pytest.approx(whole + parts["update"].median)
    halves = [row.predicted for row in found.rows if row.predicted.split.data == 2]
    assert len(halves) == 4
    assert [one.computing for one in halves] == pytest.approx([half] * 4), "what half the batch took, not half of all"
    arithmetic = 3 * 16 * Profiler().count_flops(models.gpt(), (1, models.gpt().max_seq_len))
    assert found.rate.samples[0] * parts["step"].samples[0] == pytest.approx(arithmetic)


def made_row(name: str, split: Split, error: float) -> Validated:
    cluster, model = CLUSTERS[0], replace(MODELS[0].workload(CLUSTERS[0].flops_per_second), update_s=1e-11)
    found = predict(model, cluster.links, split)
    samples = tuple(found.seconds / (1 + error) * (1 + each / 1000) for each in range(7))
    return Validated(name, found, Measurement(name, samples, "s"))


def test_the_worst_is_the_farthest_off_upwards_or_downwards_and_a_pipeline_is_told_in_parts() -> None:
    rows = [made_row("a", Split(), 0.1), made_row("b", Split(2), -0.2), made_row("c", Split(pipeline=2, micro=4), 0.1)]
    found = Validation(rows[0].predicted.workload, {}, CLUSTERS[0].links, rows)
    assert found.worst.median == rows[1].error.median < 0
    assert found.worst_size.median == -found.worst.median
    staged = found.pipeline
    *parts, together = (each.value for each in staged.parts.values())
    assert sum(parts) == pytest.approx(together) == rows[2].seconds.value
    assert next(iter(staged.parts)) == "work of the last stage, 4 turns"
    # Two equal stages and four micro-batches would wait a fifth of the turns; here the last one also makes the logits.
    assert 0.17 < staged.bubble.value < 0.2
    assert staged.handing.value == pytest.approx(rows[2].predicted.handing / rows[2].predicted.seconds)
    assert staged.measured is rows[2].measured


def test_the_ways_have_the_splits_that_they_are_called_after() -> None:
    bucket = validation._BUCKET
    assert split_named("data sharded overlapped", 2, 4) == Split(2, sharding=1, overlap=1.0, bucket_bytes=bucket)
    assert split_named("data", 3, 4) == Split(3, bucket_bytes=bucket)
    assert split_named("data and tensor", 8, 4) == Split(2, 4, bucket_bytes=bucket)
    assert split_named("pipeline", 2, 4) == Split(pipeline=2, micro=4)
    assert split_named("tensor", 2, 4) == Split(tensor=2)


def test_what_cannot_be_validated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "usable_cores", lambda: [0, 1])
    with pytest.raises(ValueError, match=r"ranks must be 2 to 2, the cores that this process may use, not \[2, 3\]"):
        validate(LINE, ranks=[2, 3], examples=8, rounds=6)
    with pytest.raises(ValueError, match="examples must be a multiple of twice micro, 8, not 12"):
        validate(LINE, ranks=[2], examples=12, rounds=6)
    with pytest.raises(ValueError, match="at_most_seconds must be above 0, not 0"):
        validate(LINE, ranks=[2], examples=8, rounds=6, at_most_seconds=0)
    assert isinstance(validate(Unmeasured("one core"), ranks=[], examples=8, rounds=6), Unmeasured)
