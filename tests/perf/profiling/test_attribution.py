"""All of a program's time has a row: regions, the collector, Python of modules, waiting, and what has no name."""

import dataclasses
import gc
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.small_models import rows
from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import apply, region
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Gradients, Op, Saved, Spec, Work
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit
from tinytorch.perf.events.call_tree import call_tree
from tinytorch.perf.events.stream import COLLECTOR, Columns, Event, Profile, Region, Span, recording
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.breakdown import MODULES, NOT_NAMED, REGION, between_rows, layer_rows

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


def test_own_times_are_those_worked_out_by_hand() -> None:
    run = made_run()
    found = {row.op: round((row.self_seconds or 0) * 1e9) for row in between_rows(run)}
    # step: 850 - loading 100 - forward 300 - backward 200. Net: 300 - a's 115 - relu 100; a: 115 - 100.
    assert found == {"step": 250, "loading": 100, "backward": 110, MODULES: 85 + 15, NOT_NAMED: 150}
    assert sum(found.values()) + 100 + 100 + 90 == 1000


def test_what_lies_in_its_own_kind_is_not_counted_twice() -> None:
    run = made_run()
    total = {row.op: round((row.total_seconds or 0) * 1e9) for row in between_rows(run)}
    # Of modules: the forward of 300, and what of them ran in backward, 90.
    assert total == {"step": 850, "loading": 100, "backward": 200, MODULES: 390, NOT_NAMED: 1000}
    twice = dataclasses.replace(run, regions=(Region("again", 0, 900, 0), Region("again", 100, 600, 0)))
    (again,) = [row for row in between_rows(twice) if row.op == "again"]
    assert (again.calls, round((again.total_seconds or 0) * 1e9)) == (2, 900)


def test_waiting_belongs_to_the_innermost_region() -> None:
    waited = {row.op: row.waiting_seconds for row in between_rows(made_run())}
    assert {name: value and round(value * 1e9) for name, value in waited.items()} == {
        "step": 5,
        "loading": 60,
        "backward": 5,
        MODULES: None,
        NOT_NAMED: 20,
    }


def test_layers_and_regions_share_the_whole_run() -> None:
    rows_ = {row.path: row for row in layer_rows(made_run(), None, timed=True)}
    between = {path: round((row.between_seconds or 0) * 1e9) for path, row in rows_.items()}
    assert between == {"Net": 100, "Net.a": 15, "": 150, "step": 250, "loading": 100, "backward": 110}
    assert sum(row.share or 0 for row in rows_.values() if row.depth == 0) == pytest.approx(1)
    assert [path for path, row in rows_.items() if row.module == REGION] == ["step", "loading", "backward"]


def test_ops_of_backward_stand_in_their_modules_below_the_region() -> None:
    stacks = {names: frame.self_ns for names, frame in call_tree(made_run()).stacks()}
    assert stacks["step", "Net", "a", "linear"] == 100
    assert stacks["step", "Net", "relu"] == 100
    assert stacks["step", "backward", "Net", "a", "linear backward"] == 90
    assert stacks["step", "backward", "Net"] == 0
    assert stacks["step", "loading"] == 100


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["op", "in", "out", "module", "leave", "tick"]), max_size=40))
def test_any_nesting_sums_to_the_run_and_no_frame_is_below_zero(acts: list[str]) -> None:
    now = 0
    events: list[Event] = []
    spans: list[Span] = []
    regions: list[Region] = []
    running: list[tuple[str, int, str]] = []
    for act in acts:
        now += 1
        path = next((where for kind, _, where in reversed(running) if kind == "module"), "")
        if act == "op":
            events.append(event("relu", now, now + 3, path))
            now += 3
        elif act == "in":
            running.append(("region", now, f"r{len(running)}"))
        elif act == "module":
            running.append(("module", now, f"{path}.m" if path else "M"))
        elif act in ("out", "leave") and running:
            kind, start, name = running.pop()
            if kind == "region":
                regions.append(Region(name, start, now, 0))
            else:
                spans.append(Span(name, "Module", name.count("."), start, now))
    now += 1
    while running:
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
    assert sum(frame.calls for frame in frames if frame.kind == "op") == len(events)
    assert sum(frame.calls for frame in frames if frame.kind == "module") == len(spans)
    assert sum(frame.calls for frame in frames if frame.kind == "region") == len(regions)


def test_regions_are_recorded_with_their_waiting_and_nest() -> None:
    with recording() as done, region("outer"):
        with region("asleep"):
            time.sleep(0.02)
        apply(ops.exp, Tensor(np.ones(3, np.float32)))
    by_name = {one.name: one for one in done.profile.regions}
    outer, asleep = by_name["outer"], by_name["asleep"]
    assert outer.start <= asleep.start <= asleep.end <= outer.end
    assert asleep.waited >= 15e6, "a thread that sleeps does not run"
    assert min(outer.waited, done.profile.waited or 0) >= 15e6
    assert ("outer", "exp") in dict(call_tree(done.profile).stacks())


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

    def backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        return (gradient,)

    collecting = Op("collecting", forward, backward, lambda call: Work())
    with Profiler() as profiler:
        apply(collecting, Tensor(np.ones(3, np.float32)))
    (op,) = [row for row in profiler.key_averages() if row.op == "collecting"]
    (collector,) = [row for row in profiler.attribution() if row.op == COLLECTOR]
    assert (op.self_seconds or 0) + (collector.self_seconds or 0) == pytest.approx(op.total_seconds)
    assert (collector.self_seconds or 0) > 0
    assert gc.callbacks == [callback for callback in gc.callbacks if "Recorder" not in repr(callback)]


def test_the_collector_stays_as_the_program_has_it() -> None:
    with Profiler():
        assert gc.isenabled()
    with recording():
        assert not gc.isenabled()


class WithRegion(Module):
    def forward(self, x: Tensor) -> Tensor:
        with region("augment"):
            return x + 1


def test_a_region_of_a_model_keeps_ops_with_their_module() -> None:
    with Profiler() as profiler:
        WithRegion()(rows())
    stacks = dict(call_tree(profiler.run).stacks())
    assert ("WithRegion", "augment", "add") in stacks
    (row,) = [row for row in profiler.by_layer() if row.path == "WithRegion"]
    assert row.flops == 0


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt"])
def test_the_rest_of_the_zoos_training_without_a_name_is_below_five_per_cent(name: str) -> None:
    entry = models.entry(name)
    model = entry.make(0)
    batches = DataLoader(entry.example_input(256), entry.example_target(256), batch_size=64, shuffle=True, seed=0)
    optimizer = AdamW(model.parameters(), lr=1e-3)
    with Profiler() as profiler:
        fit(model, batches, models.loss_function(), optimizer, 2)
    by_name = {row.op: row for row in profiler.attribution()}
    named = (
        "training loop",
        "data loading",
        "loss read-out",
        "zero_grad",
        "backward",
        "optimizer step",
        "progress bar",
    )
    assert by_name.keys() >= {*named, MODULES, NOT_NAMED}
    assert [by_name[each].calls for each in named] == [1, 2 * 5, 8, 8, 8, 8, 8]
    assert (by_name[NOT_NAMED].share or 0) < 0.05
    assert not any("has no name" in note for note in profiler.notes())
    assert sum(row.share or 0 for row in by_name.values()) <= 1 + 1e-9


def test_time_without_a_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with Profiler() as profiler:  # without an op, which a busy machine may stretch to many times the sleep
        time.sleep(0.01)
    profiler.print_top_operations()
    said = capsys.readouterr().out
    assert "region" in said


def test_events_in_columns_are_the_events() -> None:
    events = [event("a", 1, 2), event("b", 3, 5, "Net"), event("a", 6, 9)]
    columns = Columns.of(events)
    assert list(columns) == events
    assert (columns[1], columns[-1], columns[1:]) == (events[1], events[2], tuple(events[1:]))
    assert len(columns.kinds) == 2
    assert columns == events
    assert columns != events[:2]
    assert Columns.of(columns) is columns
