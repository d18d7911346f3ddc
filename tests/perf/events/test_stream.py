"""The event stream: nesting, paths, costs, and that recording changes and keeps nothing."""

import gc
import json
import weakref
from typing import Any

import numpy as np
import pytest

from tests.perf.small_models import HIDDEN, INPUTS, OUTPUTS, ROWS, Mystery, rows, two_layers
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, observed_by
from tinytorch.core.losses import MSELoss
from tinytorch.core.op import Array, Op, Saved, Work
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Columns, Profile, Recorder, counted, profiler_overhead, recording
from tinytorch.perf.events.trace import trace_text
from tinytorch.perf.measuring.memory import MemoryTracker


def trained_once() -> Profile:
    model = two_layers()
    with recording() as done:
        MSELoss()(model(rows()), np.zeros((ROWS, OUTPUTS), np.float32)).backward()
    return done.profile


def test_counts_are_those_made_by_hand() -> None:
    events = trained_once().events
    first, last = ROWS * INPUTS * HIDDEN, ROWS * HIDDEN * OUTPUTS
    linear = [(event.macs, event.flops) for event in events if event.op == "linear"]
    # Backward: both gradients of the last layer, and of the first only that of its weight.
    assert linear == [(first, 2 * first), (last, 2 * last), (2 * last, 4 * last), (first, 2 * first)]


def test_spans_nest_around_their_ops_and_the_trace_has_all_of_them() -> None:
    profile = trained_once()
    traced = json.loads(trace_text(profile))["traceEvents"]
    for event in profile.events:
        assert profile.start <= event.start <= event.end <= profile.end
        timing = {"ts": (event.start - profile.start) / 1e3, "dur": (event.end - event.start) / 1e3}
        (shown,) = [one for one in traced if timing.items() <= one.items() and one["cat"] == event.phase]
        assert (shown["name"], shown["args"]["flops"], shown["ph"]) == (event.op, event.flops, "X")
        if event.phase == "forward":
            (span,) = [span for span in profile.spans if span.path == event.path]
            assert span.start <= event.start <= event.end <= span.end
    outer = {span.depth: span for span in profile.spans if span.path.startswith("Sequential")}
    assert outer[0].start <= outer[1].start <= outer[1].end <= outer[0].end


def test_two_models_of_one_class_are_told_apart_also_in_backward() -> None:
    one, other = two_layers(), two_layers()
    with recording() as done:
        (one(rows()).sum() + other(rows()).sum()).backward()
    for phase in ("forward", "backward"):
        paths = {event.path.split(".")[0] for event in done.profile.events if event.phase == phase}
        assert paths == {"Sequential", "Sequential#2", ""}


def test_an_op_inside_an_op_is_not_counted_twice() -> None:
    def outer_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
        return apply(ops.exp, apply(ops.exp, Tensor(x))).data, ()

    outer = Op("outer", outer_forward, lambda gradient, saved, needs, owned: (gradient,), lambda call: Work())
    with recording() as done:
        apply(outer, Tensor(np.ones(1000, np.float32)))
    (around,) = [event for event in done.profile.events if event.op == "outer"]
    assert around.self_ns == around.total_ns - sum(event.total_ns for event in done.profile.events if event != around)
    assert sum(event.self_ns for event in done.profile.events) == around.total_ns


def test_recording_keeps_no_array_alive() -> None:
    recorder, model = Recorder(), BatchNorm2d(2).eval()  # its running statistics are parameters of the op
    x, indices = Tensor(np.ones((1, 2, 4, 4), np.float32)), np.array([0, 0])
    with observed_by(recorder):
        y = model(x)[indices]
    alive = [weakref.ref(array) for array in (x.data, y.data, indices, model.running_mean.data, model.weight.data)]
    profile = recorder.profile(0, 1)
    del x, y, indices, model
    gc.collect()
    assert [reference() for reference in alive] == [None] * len(alive)
    assert [event.op for event in profile.events] == ["batch_norm", "getitem"]
    # Two operations an element with given statistics: the formula saw the parameter that was let go.
    assert profile.events[0].elementwise == 2 * 2 * 16


@pytest.mark.parametrize(
    ("index", "is_kept"),
    [
        *((index, False) for index in (np.array([0, 1]), (slice(None), np.array([0])), slice(np.array(0), None), [0])),
        *((index, True) for index in (3, slice(1, 3), (slice(None), 2))),
        ((None, Ellipsis), False),
    ],
)
def test_no_index_keeps_its_array_alive_and_a_plain_one_is_counted_later(index: Any, is_kept: bool) -> None:
    recorder = Recorder()
    with observed_by(recorder):
        y = rows()[index]
    assert ([value for _, call in recorder._calls for value in call.params.values()] != []) is is_kept
    (event,) = recorder.profile(0, 1).events
    assert event.elementwise == 0
    assert event.traffic >= 2 * y.nbytes


def test_an_op_without_formula_has_no_work_and_is_named() -> None:
    with recording() as done:
        Mystery()(rows())
    found = {event.op: (event.macs, event.flops, event.elementwise) for event in done.profile.events}
    assert found["mystery"] == (None, None, None)
    assert found["linear"][1] == 2 * ROWS * INPUTS * OUTPUTS
    assert done.profile.uncounted == ("mystery",)


def test_the_recorded_run_is_there_after_an_error_and_the_collector_is_back_on() -> None:
    with pytest.raises(ValueError, match="linear needs"), recording() as done:
        two_layers()(Tensor(np.ones((2, 7), np.float32)))
    assert tuple(done.profile.events) == ()
    assert [span.path for span in done.profile.spans] == ["Sequential", "Sequential.0"]
    assert gc.isenabled()


def test_the_profilers_own_cost_is_not_measured_under_another_observer() -> None:
    with observed_by(Recorder()), pytest.raises(RuntimeError, match="without observers"):
        profiler_overhead()


def test_many_small_ops_are_few_objects_and_few_bytes() -> None:
    one = Tensor(np.ones(1, np.float32))
    recorder, count = Recorder(), 5000
    with observed_by(recorder):
        apply(ops.add, one, one)
        gc.collect()
        tracked = len(gc.get_objects())
        with MemoryTracker() as memory:
            for _ in range(count):
                apply(ops.add, one, one)
        gc.collect()
        assert len(gc.get_objects()) - tracked < 100, "the collector has nothing of them to walk"
    assert memory.current_bytes < 200 * count
    profile = recorder.profile(0, 1)
    assert (len(profile.events), len(profile.columns.kinds)) == (1 + count, 1)


def test_calls_of_other_cost_are_other_kinds() -> None:
    x = Tensor(np.ones((4, 6), np.float32))
    with recording() as done:
        for index in (slice(0, 2), slice(0, 3), 0, 0, np.array([0, 1]), np.array([2, 3])):
            x[index]
        x.sum(axis=0)
        x.sum(axis=1)
    kinds = done.profile.columns.kinds
    assert [kind.output.shape for kind in kinds] == [(2, 6), (3, 6), (6,), (2, 6), (6,), (4,)]
    assert [count for _, count in counted(done.profile.events)] == [1, 1, 2, 2, 1, 1]
    assert sum(count for _, count in counted(list(done.profile.events))) == 8
    assert Columns.of(tuple(done.profile.events)) == done.profile.events
