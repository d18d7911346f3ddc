"""All of a program's time has a row, and Amdahl's law predicts of it; and instruments in and across one another."""

import dataclasses
import functools
import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.test_dispatch import later, numbers, stream
from tests.perf.small_models import rows
from tinytorch import models
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import apply, region
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Op, Saved, Spec, Work
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit
from tinytorch.perf.events.call_tree import call_tree
from tinytorch.perf.events.stream import COLLECTOR, Columns, Event, Profile, Region, Span, recording
from tinytorch.perf.measuring import Measurement, interleave, measure
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Known, Stated
from tinytorch.perf.profiling import (
    MemoryProfiler,
    MemoryTracker,
    Profiler,
    ProfilerContext,
    SimpleProfiler,
    Timer,
    profile,
)
from tinytorch.perf.profiling.breakdown import (
    MODULES,
    NOT_NAMED,
    REGION,
    amdahl,
    between_rows,
    layer_rows,
    predicted_speedup,
)

pytestmark = pytest.mark.usefixtures("made_machine")

SPEC = Spec((2,), np.dtype(np.float32))


def event(op: str, start: int, end: int, path: str = "", phase: str = "forward") -> Event:
    shape = (SPEC,)
    return Event(op, "numpy", phase, path, shape, SPEC, Work(0, 2), 8, start, end, end - start)  # type: ignore[arg-type]


def made_run() -> Profile:
    """Return a step of 1,000 ns: 100 of loading, a forward of 300 with two ops of 100, a backward of 200, a rest."""
    return Profile(
        (
            event("linear", 210, 310, "Net.a"),
            event("relu", 320, 420, "Net"),
            event("linear", 510, 600, "Net.a", "backward"),
        ),
        (Span("Net", "Net", 0, 150, 450), Span("Net.a", "Linear", 1, 200, 315)),
        0,
        1000,
        1,
        1,
        1,
        (Region("step", 50, 900, 70), Region("loading", 50, 150, 60), Region("backward", 500, 700, 5)),
        90,
    )


def test_times_are_those_worked_out_by_hand() -> None:
    run = made_run()
    made = between_rows(run)
    found = {row.op: [round((each or 0) * 1e9) for each in (row.self_seconds, row.total_seconds)] for row in made}
    # Own time of step: 850 - loading 100 - forward 300 - backward 200. Net: 300 - a's 115 - relu 100; a: 115 - 100.
    # All time of modules: the forward of 300, and what of them ran in backward, 90.
    assert found == {
        "step": [250, 850],
        "loading": [100, 100],
        "backward": [110, 200],
        MODULES: [85 + 15, 390],
        NOT_NAMED: [150, 1000],
    }
    waited = {row.op: row.waiting_seconds and round(row.waiting_seconds * 1e9) for row in made}
    assert waited == {"step": 5, "loading": 60, "backward": 5, MODULES: None, NOT_NAMED: 20}, "of the innermost region"
    layers = {row.path: row for row in layer_rows(run, None, timed=True)}
    between = {path: round((row.between_seconds or 0) * 1e9) for path, row in layers.items()}
    assert between == {"Net": 100, "Net.a": 15, "": 150, "step": 250, "loading": 100, "backward": 110}
    assert sum(row.share or 0 for row in layers.values() if row.depth == 0) == pytest.approx(1)
    assert [path for path, row in layers.items() if row.module == REGION] == ["step", "loading", "backward"]
    twice = dataclasses.replace(run, regions=(Region("again", 0, 900, 0), Region("again", 100, 600, 0)))
    (again,) = [row for row in between_rows(twice) if row.op == "again"]
    assert (again.calls, round((again.total_seconds or 0) * 1e9)) == (2, 900), "what lies in its own kind counts once"


def test_ops_of_backward_stand_in_their_modules_below_the_region() -> None:
    stacks = {names: frame.self_ns for names, frame in call_tree(made_run()).stacks()}
    assert stacks["step", "Net", "a", "linear"] == 100
    assert stacks["step", "Net", "relu"] == 100
    assert stacks["step", "backward", "Net", "a", "linear backward"] == 90
    assert stacks["step", "backward", "Net"] == 0
    assert stacks["step", "loading"] == 100


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["op", "in", "out", "module", "tick"]), max_size=40))
def test_any_nesting_sums_to_the_run_and_no_frame_is_below_zero(acts: list[str]) -> None:
    now = 0
    events: list[Event] = []
    spans: list[Span] = []
    regions: list[Region] = []
    running: list[tuple[str, int, str]] = []
    for act in (*acts, *["out"] * len(acts)):
        now += 1
        path = next((where for kind, _, where in reversed(running) if kind == "module"), "")
        if act == "op":
            events.append(event("relu", now, now + 3, path))
            now += 3
        elif act == "in":
            running.append(("region", now, f"r{len(running)}"))
        elif act == "module":
            running.append(("module", now, f"{path}.m" if path else "M"))
        elif act == "out" and running:
            kind, start, name = running.pop()
            if kind == "region":
                regions.append(Region(name, start, now, 0))
            else:
                spans.append(Span(name, "Module", name.count("."), start, now))
    run = Profile(tuple(events), tuple(spans), 0, now, 1, 1, 1, tuple(regions), 0)
    tree = call_tree(run)
    frames = list(tree.all())
    assert all(frame.self_ns >= 0 for frame in frames)
    assert sum(frame.self_ns for frame in frames) == tree.total_ns == now
    for kind, made in (("op", events), ("module", spans), ("region", regions)):
        assert sum(frame.calls for frame in frames if frame.kind == kind) == len(made)


def test_regions_are_recorded_with_their_waiting_and_nest() -> None:
    class WithRegion(Module):
        def forward(self, x: Tensor) -> Tensor:
            with region("augment"):
                return x + 1

    with recording() as done, region("outer"):
        with region("asleep"):
            time.sleep(0.02)
        WithRegion()(rows())
    by_name = {one.name: one for one in done.profile.regions}
    outer, asleep = by_name["outer"], by_name["asleep"]
    assert outer.start <= asleep.start <= asleep.end <= outer.end
    assert asleep.waited >= 15e6, "a thread that sleeps does not run"
    assert min(outer.waited, done.profile.waited or 0) >= 15e6
    assert ("outer", "WithRegion", "augment", "add") in dict(call_tree(done.profile).stacks())
    (row,) = [row for row in layer_rows(done.profile, None, timed=True) if row.path == "WithRegion"]
    assert row.flops == 0


def test_a_region_ends_also_by_an_error_and_an_open_one_with_the_recording() -> None:
    with recording() as done:
        with pytest.raises(KeyError), region("broken"):
            raise KeyError("lost")
        entered = region("open")
        entered.__enter__()
    entered.__exit__(None, None, None)
    by_name = {one.name: one for one in done.profile.regions}
    assert by_name["broken"].end < done.profile.end
    assert by_name["open"].end == done.profile.end


def test_a_region_has_a_name() -> None:
    with region(""):
        pass  # nobody looks
    for bad in ("", "  ", 3):
        with Profiler(), pytest.raises(ValueError, match="name"):
            region(bad)  # type: ignore[arg-type]


def test_regions_of_another_thread_are_not_of_this_run() -> None:
    def other() -> None:
        with region("other thread"):
            pass

    with recording() as done:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert done.profile.regions == ()


def test_the_collector_has_a_row_and_is_taken_out_of_the_op_in_which_it_ran() -> None:
    def forward(keep: bool, x: Array) -> tuple[Array, Saved]:
        gc.collect()
        return x, ()

    collecting = Op("collecting", forward, lambda gradient, *_: (gradient,), lambda call: Work())
    profiler = Profiler()
    gc.collect()  # so that it does not run of itself
    with profiler:
        assert gc.isenabled()
        apply(collecting, Tensor(np.ones(3, np.float32)))
    (op,) = [row for row in profiler.key_averages() if row.op == "collecting"]
    (collector,) = [row for row in profiler.attribution() if row.op == COLLECTOR]
    assert (op.self_seconds or 0) + (collector.self_seconds or 0) == pytest.approx(op.total_seconds)
    assert (collector.self_seconds or 0) > 0
    assert gc.callbacks == [callback for callback in gc.callbacks if "Recorder" not in repr(callback)]
    with recording():
        assert not gc.isenabled()


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt"])
def test_all_parts_of_the_zoos_training_have_a_name(name: str) -> None:
    entry = models.entry(name)
    model = entry.make(0)
    batches = DataLoader(entry.example_input(256), entry.example_target(256), batch_size=64, shuffle=True, seed=0)
    with Profiler() as profiler:
        fit(model, batches, models.loss_function(), AdamW(model.parameters(), lr=1e-3), 2)
    by_name = {row.op: row for row in profiler.attribution()}
    named = ("loss read-out", "zero_grad", "backward", "optimizer step", "progress bar")
    calls = {"training loop": 1, "data loading": 2 * 5, **dict.fromkeys(named, 8)}
    assert {each: by_name[each].calls for each in calls} == calls
    assert sum(row.share or 0 for row in by_name.values()) <= 1 + 1e-9
    with Profiler() as profiler:
        pass
    assert any("region" in note for note in profiler.notes())


def test_events_in_columns_are_the_events() -> None:
    events = [event("a", 1, 2), event("b", 3, 5, "Net"), event("a", 6, 9)]
    columns = Columns.of(events)
    assert list(columns) == events
    assert (columns[1], columns[-1], columns[1:]) == (events[1], events[2], tuple(events[1:]))
    assert len(columns.kinds) == 2
    assert columns == events
    assert columns != events[:2]
    assert Columns.of(columns) is columns


def known(value: float, low: float, high: float, unit: str = "") -> Measurement:
    return Measurement("known", (low, value, high), unit, law=Stated(value, low, high, 0.95))


def exact(value: float) -> Measurement:
    return Measurement("exact", (value,), "", law=Known(value))


def test_a_prediction_is_no_part_of_what_its_share_is_part_of() -> None:
    share = Measurement("share", (0.5,) * 6, "%", Conditions(part_of="the run's time"))
    made = predicted_speedup(share, exact(4.0), "law").conditions
    assert (made.part_of, made.statistic) == (None, "Amdahl's law of the median")


@pytest.mark.parametrize(
    ("share", "times", "expected"),
    [
        (exact(0.5), exact(4), [amdahl(0.5, 4)] * 3),
        (known(0.5, 0.4, 0.6), exact(4), [amdahl(share, 4) for share in (0.4, 0.5, 0.6)]),
        (exact(0.5), known(4, 3, 5), [amdahl(0.5, times) for times in (3, 4, 5)]),
        (known(0.5, 0.4, 0.6), None, [1 / 0.6, 2, 1 / 0.4]),
        (exact(-0.1), None, [1] * 3),  # where noise puts a share outside of the whole
        (exact(1.2), None, [1000] * 3),
    ],
)
def test_ends_move_as_the_law_does(share: Measurement, times: Measurement | None, expected: list[float]) -> None:
    found = predicted_speedup(share, times, "law")
    assert [found.interval.low, found.median, found.interval.high] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("speedup", [4.0, 0.25])
def test_both_sides_count(speedup: float) -> None:
    share, times = known(0.5, 0.4, 0.6), known(speedup, 0.8 * speedup, 1.2 * speedup)
    ends = [predicted_speedup(*sides, "law").interval for sides in ((share, times), (share, exact(speedup)))]
    assert ends[0].low < ends[1].low
    assert ends[0].high > ends[1].high
    twice = [predicted_speedup(share, times, name).interval for name in ("in one place", "in another")]
    assert twice[0] == twice[1], "one prediction of the same numbers is the other to the last digit"


MIB = 2**20


class Yields:
    def __call__(self) -> Iterator[int]:
        yield 1


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "profile": profile,
    "profile with arguments": profile(name="it", track_memory=True),
    "SimpleProfiler": lambda function: SimpleProfiler().profile(function),
    "ProfilerContext": lambda function: ProfilerContext("it").profile_function(function),
    "Timer": lambda function: Timer().measure(function, runs=1),
    "MemoryProfiler": lambda function: MemoryProfiler().profile(function),
    "measure": lambda function: measure(function, "it", repeats=6),
    "interleave": lambda function: interleave({"it": function}, repeats=6),
}


@pytest.mark.parametrize("function", [numbers, later, stream, functools.partial(numbers), Yields()])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_has_done_nothing_when_it_returns_is_not_measured(wrapper: str, function: Any) -> None:
    with pytest.raises(TypeError, match=getattr(function, "__name__", type(function).__name__)):
        WRAPPERS[wrapper](function)


@pytest.mark.parametrize(("track_memory", "runs"), [(False, 11), (True, 22)])
def test_a_function_that_calls_itself_is_measured_as_one_call(track_memory: bool, runs: int) -> None:
    calls = []

    @profile(track_memory=track_memory)
    def depth(n: int) -> int:
        calls.append(n)
        time.sleep(1e-3)
        return 0 if n == 0 else depth(n - 1)

    depth(10)
    assert len(calls) == runs
    assert depth.last_profile is not None
    assert depth.last_profile["wall_time"] > 11e-3


def test_nothing_is_kept_of_a_call_that_raised() -> None:
    @profile
    def inverse(x: float) -> float:
        return 1 / x

    inverse(1)
    assert inverse.last_profile is not None
    with pytest.raises(ZeroDivisionError):
        inverse(0)
    assert inverse.last_profile is None


@pytest.mark.parametrize("make", [Timer, MemoryTracker, Profiler, functools.partial(ProfilerContext, "it")])
def test_an_instrument_is_not_entered_in_itself_but_again_afterwards(make: Callable[[], Any]) -> None:
    instrument = make()
    with instrument, pytest.raises(RuntimeError, match="another"), instrument:
        pass
    with instrument:
        pass


def test_trackers_in_one_another_and_crossing_keep_their_own_peaks() -> None:
    outer, inner = MemoryTracker(), MemoryTracker()
    outer.__enter__()
    np.ones(4 * MIB, np.uint8)
    held = np.ones(MIB, np.uint8)
    inner.__enter__()
    np.ones(2 * MIB, np.uint8)
    found = [inner.peak_bytes, outer.peak_bytes]
    outer.__exit__(None, None, None)
    np.ones(3 * MIB, np.uint8)
    inner.__exit__(None, None, None)
    found += [inner.peak_bytes, outer.peak_bytes]
    assert np.divide(found, held.nbytes) == pytest.approx([2, 4, 3, 4], abs=0.05)
    with MemoryTracker() as whole:
        with Profiler(memory=True):
            y = Tensor(np.ones(MIB // 4, np.float32)) * 2.0
        del y
    assert whole.peak_usage == pytest.approx(2, abs=0.1)


@pytest.mark.usefixtures("no_collector")
def test_regions_that_cross_have_the_time_from_their_own_begin_to_their_own_end() -> None:
    with Profiler() as profiler:
        first, second = region("first"), region("second")
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
    one, other = profiler.run.regions
    assert one.start < other.start < one.end < other.end
    frames = [*call_tree(profiler.run).all()]
    found = {name: [(f.calls, f.self_ns) for f in frames if f.name == name and f.calls] for name in ("first", "second")}
    assert found["first"] == [(1, other.start - one.start)]
    assert sum(frame.self_ns for frame in frames if frame.name == "second") == other.end - other.start
    assert [calls for calls, _ in found["second"]] == [1]
    assert sum(frame.self_ns for frame in frames) == profiler.run.end - profiler.run.start
    assert sum(row.self_seconds or 0 for row in profiler.attribution()) == pytest.approx(profiler.run.wall_seconds)
