"""The profiler's read-outs: sums that agree, tables, Amdahl's law, the trace, and the studies of a model."""

import dataclasses
import json
import math
import re
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.made_ceilings import made_ceilings
from tests.perf.small_models import HIDDEN, INPUTS, OUTPUTS, ROWS, Mystery, rows, two_layers
from tinytorch import models
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import Adam
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.stream import COLLECTOR
from tinytorch.perf.machine import store
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.breakdown import OP_COLUMNS, REGION, amdahl, amdahl_of_parts, op_rows
from tinytorch.perf.profiling.zoo_steps import phases, training_memory
from tinytorch.perf.roofline.bounds import Bottleneck, roof_seconds
from tinytorch.perf.roofline.placement import place_ops

pytestmark = pytest.mark.usefixtures("made_machine")

PARAMETERS = INPUTS * HIDDEN + HIDDEN + HIDDEN * OUTPUTS + OUTPUTS


def gpt() -> GPT:
    return GPT(11, 8, 2, 2, 6, seed=0)


def tokens() -> np.ndarray:
    return np.arange(12).reshape(2, 6) % 11


def profiled(steps: int = 2, memory: bool = False) -> Profiler:
    model = gpt()
    with Profiler(memory=memory) as profiler:
        for _ in range(steps):
            model(tokens()).sum().backward()
    return profiler


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 3), st.booleans())
def test_every_breakdown_sums_to_the_same_totals(steps: int, backward: bool) -> None:
    model = gpt()
    with Profiler() as profiler:
        for _ in range(steps):
            loss = model(tokens()).sum()
            if backward:
                loss.backward()
    run, by_op, by_layer = profiler.run, profiler.key_averages(), profiler.by_layer()
    times = [row.self_seconds or 0 for row in by_op]
    assert times == sorted(times, reverse=True)
    assert sum(times) == pytest.approx(run.op_seconds)
    assert run.op_seconds <= run.wall_seconds
    assert sum(row.self_seconds or 0 for row in by_layer) == pytest.approx(run.op_seconds)
    assert sum(row.self_seconds or 0 for row in profiler.attribution()) == pytest.approx(run.wall_seconds)
    top = [row for row in by_layer if row.depth == 0]
    assert [sum(row.share or 0 for row in rows) for rows in (profiler.attribution(), top)] == pytest.approx([1, 1])
    assert sum(row.share or 0 for row in by_op) == pytest.approx(run.op_seconds / run.wall_seconds)
    assert sum(row.calls for row in by_op) == len(run.events)
    flops = sum(event.flops or 0 for event in run.events)
    assert sum(row.flops or 0 for row in by_op) == sum(row.flops or 0 for row in top) == flops
    nanoseconds = sum(int(line.rsplit(" ", 1)[1]) for line in profiler.collapsed_stacks().splitlines())
    assert nanoseconds == run.end - run.start
    for row in by_layer:
        inner = [one for one in by_layer if one.path.startswith(f"{row.path}.") and one.depth == row.depth + 1]
        total = (row.self_seconds or 0) + sum(one.total_seconds or 0 for one in inner)
        assert row.total_seconds == pytest.approx(total)
        assert row.total_seconds == pytest.approx((row.forward_seconds or 0) + (row.backward_seconds or 0))


def test_layers_are_called_as_the_model_names_them() -> None:
    layers = profiled(steps=3).by_layer()
    named = {"GPT" + (f".{name}" if name else "") for name, _ in gpt().named_modules()}
    assert {row.path for row in layers if row.module != REGION} == named | {""}
    assert {row.path for row in layers if row.module == REGION} <= {"backward", COLLECTOR}
    (block,) = [row for row in layers if row.path == "GPT.blocks.1"]
    assert (block.module, block.depth, block.calls) == ("TransformerBlock", 1, 3)
    assert (block.span_seconds or 0) >= (block.forward_seconds or 0)
    with Profiler() as profiler:
        Sequential(*(Linear(2, 2, seed=0) for _ in range(11)))(Tensor(np.ones((1, 2), np.float32)))
    flops = {row.path: row.flops for row in profiler.by_layer()}
    assert flops["Sequential.1"] == flops["Sequential.10"] == 8, "a name that begins like another's is not inside it"
    assert flops["Sequential"] == 11 * 8


def test_the_table_shows_what_the_rows_hold_and_no_column_that_says_the_same_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    profiler = profiled()
    profiler.print_top_operations(3)
    lines = capsys.readouterr().out.splitlines()
    for line, row in zip(lines[3:6], profiler.attribution()[:3], strict=True):
        assert " ".join(line.split()).startswith(row.op)
        assert {f"{row.calls:,}", f"{(row.self_seconds or 0) * 1e3:,.3f}"} <= {*line.split()}
    assert any("recording cost" in line and "µs an op" in line for line in lines)
    assert "phase" in lines[0]
    with Profiler() as profiler:
        gpt()(tokens())
    profiler.print_top_operations(3)
    said = {*capsys.readouterr().out.split()}
    assert {"op", "calls", "share", "self"} <= said
    assert not {"phase", "numpy", "total"} & said
    with Profiler() as profiler:
        pass
    profiler.print_top_operations()
    assert "0 ops" in capsys.readouterr().out
    with pytest.raises(ValueError, match="n must be at least 1"):
        profiler.print_top_operations(0)


@pytest.mark.parametrize(("low", "said"), [(2e-6, "3.00 µs an op (interval 2.00 to 4.00)"), (-2e-6, "at most 4.00 µs")])
def test_recording_costs_no_less_than_nothing(monkeypatch: pytest.MonkeyPatch, low: float, said: str) -> None:
    monkeypatch.setattr(
        Profiler, "recorder", SimpleNamespace(median=3e-6, interval=SimpleNamespace(low=low, high=4e-6))
    )
    with Profiler() as profiler:
        Tensor([1.0]) + Tensor([2.0])
    first, *_, last = profiler.notes()
    assert "1 op," in first
    assert said in last


def test_an_uncounted_op_has_dashes_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    model = Mystery()
    with Profiler() as profiler:
        model(rows())
    (row,) = [row for row in profiler.key_averages() if row.op == "mystery"]
    assert (row.macs, row.flops, row.elementwise, row.gflops_per_second) == (None,) * 4
    (outer,) = [row for row in profiler.by_layer() if row.path == "Mystery"]
    assert outer.flops is None, "a sum with an unknown part is not known"
    profiler.print_top_operations()
    assert "uncounted, no formula: mystery" in capsys.readouterr().out


@pytest.mark.parametrize(("nanoseconds", "short"), [(19_999, True), (20_000, False)])
def test_ops_under_twenty_times_the_profilers_own_cost_are_marked(nanoseconds: int, short: bool) -> None:
    run = profiled(steps=1).run
    event = dataclasses.replace(run.events[0], self_ns=nanoseconds)
    (row,) = op_rows(dataclasses.replace(run, events=(event,)), None, True, overhead_seconds=1e-6)
    assert row.short is short
    assert OP_COLUMNS[[column.key for column in OP_COLUMNS].index("short")].show(row.short) == ("*" if short else "")


def test_nothing_can_be_read_before_there_is_something() -> None:
    profiler = Profiler()
    for read in (profiler.key_averages, profiler.by_layer, profiler.collapsed_stacks, lambda: profiler.memory):
        with pytest.raises(RuntimeError, match="recorded"):
            read()
    with profiler:
        with pytest.raises(RuntimeError, match="recording already"), profiler:
            pass
        with pytest.raises(RuntimeError, match="Profiler"):
            Profiler().measure_latency(two_layers(), rows())
    with pytest.raises(RuntimeError, match="Profiler"):
        profiler.watch(gpt())
    for call in (
        lambda: Profiler().profile_forward_pass(two_layers(), [1.0]),  # type: ignore[arg-type]
        lambda: Profiler().measure_latency(3, rows()),
        lambda: Profiler().count_parameters(3),
    ):
        with pytest.raises(TypeError, match=r"input_tensor|callable"):
            call()


def test_timing_and_memory_are_never_one_run() -> None:
    model, seen = gpt(), []

    class Looking(Module):
        def forward(self, x: Any) -> Any:
            seen.append(tracemalloc.is_tracing())
            return model(x)

    with Profiler():
        Looking()(tokens())
    with Profiler(memory=True) as memory:
        memory.watch(optimizer := Adam(model.parameters()))
        Looking()(tokens()).sum().backward()
        optimizer.step()
    assert seen == [False, True]
    assert memory.memory.highest["optimizer"] == 2 * memory.memory.highest["parameters"]
    assert all(row.total_seconds is row.self_seconds is row.share is None for row in memory.key_averages())
    rows_: list[Any] = [*memory.key_averages(), *memory.by_layer()]
    assert {(row.of_roof, row.bound) for row in rows_} == {(None, None)}
    for read in (memory.collapsed_stacks, lambda: memory.amdahl("linear", 2), lambda: memory.export_chrome_trace("x")):
        with pytest.raises(RuntimeError, match="memory"):
            read()
    seen.clear()
    Profiler().profile_forward_pass(Looking(), Tensor(tokens()))
    assert seen.count(True) == 1, "all other runs are for time and counts"


def test_a_joined_memory_run_fills_the_allocation_and_another_ones_is_refused() -> None:
    profiler, memory = profiled(), profiled(memory=True)
    assert all(row.allocated is None for row in profiler.key_averages())
    timed = [(row.op, row.self_seconds) for row in profiler.key_averages()]
    profiler.join(memory)
    assert [(row.op, row.self_seconds) for row in profiler.key_averages()] == timed
    allocated = sum(row.allocated or 0 for row in profiler.key_averages())
    assert allocated == sum(step.allocated for step in memory.memory.steps)
    assert allocated == sum(row.allocated or 0 for row in profiler.by_layer() if row.depth == 0)
    with pytest.raises(ValueError, match="same ops"):
        profiler.join(profiled(steps=1, memory=True))
    with pytest.raises(ValueError, match="Profiler"):
        profiler.join(profiled())


def test_the_tables_show_the_roof_that_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profiler = profiled()
    places = place_ops(profiler.run, made_ceilings())
    for row in profiler.key_averages():
        placed = places.get((row.op, row.phase, row.implementation))
        assert row.of_roof == (placed.of_roof.median if placed else None)
        assert row.bound == (placed.verdict.sentence_word if placed else None)
    assert {row.op for row in profiler.key_averages() if row.bound is None} <= {"reshape", "transpose", "getitem"}
    assert all(row.bound for row in profiler.by_layer() if row.module != REGION)
    profiler.print_top_operations(3)
    profiler.print_by_layer()
    assert capsys.readouterr().out.count("of roof  bound by") == 2
    monkeypatch.setattr(store, "kept_ceilings", lambda threads: None)
    assert all(row.of_roof is None for row in profiler.key_averages())
    profiler.print_top_operations(3)
    assert "of roof" not in capsys.readouterr().out


@given(st.floats(0, 1), st.floats(0.01, 100))
def test_amdahls_law_is_the_time_added_up(share: float, faster: float) -> None:
    expected = 1 / ((1 - share) + share / faster)
    assert amdahl(share, faster) == pytest.approx(expected)
    assert amdahl_of_parts((1 - share, share), (1, 1 / faster)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds", "ratios", "named"),
    [((), (), "as many"), ((1.0,), (1.0, 2.0), "as many"), ((1.0,), (-1.0,), "least 0"), ((1.0,), (0.0,), "some time")],
)
def test_what_is_no_whole_is_told(seconds: tuple[float, ...], ratios: tuple[float, ...], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        amdahl_of_parts(seconds, ratios)


def test_amdahl_of_a_profile_uses_the_ops_share_of_the_wall_time() -> None:
    profiler = profiled()
    share = sum(row.share or 0 for row in profiler.key_averages() if row.op == "linear")
    assert profiler.amdahl("linear", 3) == pytest.approx(1 / ((1 - share) + share / 3))
    assert profiler.amdahl("linear", math.inf) == pytest.approx(1 / (1 - share))
    for op, speedup, named in (("conv2d", 2, "op must"), *(("linear", bad, "speedup") for bad in (0, -1, math.nan))):
        with pytest.raises(ValueError, match=named):
            profiler.amdahl(op, speedup)
    with pytest.raises(ValueError, match="share"):
        amdahl(1.5, 2)


def test_the_trace_fits_the_format_and_holds_every_op(tmp_path: Path) -> None:
    profiler = profiled().join(profiled(memory=True))
    events = events_of(profiler.export_chrome_trace(tmp_path / "trace.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    ops = [event for event in events if event.get("cat") in ("forward", "backward")]
    assert [event["name"] for event in ops] == [event.op for event in profiler.run.events]
    assert [event["dur"] for event in ops] == [event.total_ns / 1e3 for event in profiler.run.events]
    live = [sum(event["args"].values()) for event in events if event["ph"] == "C"]
    assert live == [sum(step.live) for step in profiler.memory.steps]


def test_events_of_the_trace_nest_as_a_viewer_draws_them(tmp_path: Path) -> None:
    events = events_of(profiled().export_chrome_trace(tmp_path / "trace.json"))
    stack: list[dict[str, Any]] = []
    parents: dict[str, set[str]] = {}
    for event in sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"])):
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"] + 1e-6:
            stack.pop()
        if stack:
            assert event["ts"] + event["dur"] <= stack[-1]["ts"] + stack[-1]["dur"] + 1e-3, "overlaps its neighbour"
        key = f"{event['cat']} {event['name']} {event['args'].get('module', '')}".strip()
        parents.setdefault(key, set()).add(f"{stack[-1]['cat']} {stack[-1]['name']}" if stack else "")
        stack.append(event)
    assert parents["run run"] == {""}
    for module in ("module", "module backward"):
        assert parents[f"{module} GPT.blocks.0.mlp"] == {f"{module} GPT.blocks.0"}
        op = f"{module.removeprefix('module').strip() or 'forward'} gelu GPT.blocks.1.mlp.activation"
        assert parents[op] == {f"{module} GPT.blocks.1.mlp.activation"}


def test_a_failed_write_leaves_the_old_trace_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "trace.json"
    target.write_text("old")
    monkeypatch.setattr("os.replace", Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        profiled().export_chrome_trace(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_collapsed_stacks_are_lines_of_frames_and_a_count() -> None:
    lines = profiled().collapsed_stacks().splitlines()
    assert all(re.fullmatch(r"[^; ][^;]*(;[^;]+)* \d+", line) for line in lines)
    stacks = {line.rsplit(" ", 1)[0] for line in lines}
    assert stacks >= {"GPT;blocks.0;mlp;expand;linear", "backward;GPT;blocks.1;attention;self_attention backward"}
    assert len(stacks) == len(lines)


def test_memory_of_a_forward_is_the_bytes_counted_by_hand() -> None:
    found = Profiler().measure_memory(two_layers(), (ROWS, INPUTS))
    parts = [found[f"{part}_memory_mb"] * MIB for part in ("parameter", "activation", "input")]
    assert parts == [PARAMETERS * 4, ROWS * HIDDEN * 4, ROWS * INPUTS * 4]
    peak = found["peak_memory_mb"] * MIB
    assert peak >= sum(parts)
    assert found["memory_efficiency"] == pytest.approx((parts[0] + parts[1]) / peak)


def test_latency_is_the_median_of_the_kept_samples() -> None:
    profiler = Profiler()
    latency = profiler.latency(two_layers(), rows(), warmup=2, iterations=9)
    assert (latency.n, latency.unit, latency.conditions.warmup_runs) == (9, "s", 2)
    assert profiler.measure_latency(two_layers(), rows(), warmup=1, iterations=3) > 0
    found = profiler.profile_layer(Linear(8, 4, seed=0), (3, 8))
    assert (found["layer_name"], found["flops"], found["batch_flops"]) == ("Linear", 64, 192)


def test_a_forward_pass_has_every_key_and_they_agree() -> None:
    profiler = Profiler()
    found = profiler.profile_forward_pass(two_layers(), rows())
    assert found["parameters"] == PARAMETERS == 53
    shared = Linear(4, 4, bias=False, seed=0)
    assert profiler.count_parameters(Sequential(shared, shared)) == 16
    assert found["flops"] == 2 * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
    assert found["batch_flops"] == ROWS * found["flops"]
    assert found["gflops_per_second"] == pytest.approx(found["batch_flops"] / (found["latency_ms"] * 1e-3) / 1e9)
    keys = ("is_memory_bound", "is_compute_bound", "is_overhead_bound")
    assert [key for key in keys if found[key]] == [key for key in keys if key == f"is_{found['bottleneck']}_bound"]
    assert found["bottleneck"] in set(Bottleneck)
    assert min(found["memory_bandwidth_mbs"], found["computational_efficiency"]) > 0
    assert found["parameter_memory_mb"] * MIB == PARAMETERS * 4
    assert [row.calls for row in profiler.key_averages() if row.op == "linear"] == [2], "the run is kept for tables"


def test_a_forward_pass_is_held_against_the_roof_of_its_threads() -> None:
    made = made_ceilings()
    profiler = Profiler(ceilings=made)
    found = profiler.profile_forward_pass(two_layers(), rows())
    roof = roof_seconds(profiler.run.events, made)
    assert found["share_of_roof"].samples == pytest.approx([roof.median / each for each in found["latency"].samples])
    assert found["share_of_roof"].conditions.blas_threads == made.threads
    assert found["computational_efficiency"] == found["verdict"].efficiency
    other = Profiler(ceilings=made_ceilings(threads=made.threads + 1))
    with pytest.raises(ValueError, match=rf"with {made.threads}, they are for {made.threads + 1}"):
        other.profile_forward_pass(two_layers(), rows())
    with other:
        two_layers()(rows())
    with pytest.raises(ValueError, match="ceilings"):
        other.key_averages()


def test_a_backward_pass_has_every_key_and_they_agree() -> None:
    found = Profiler().profile_backward_pass(two_layers(), rows())
    assert found["total_flops"] == found["forward_flops"] + found["backward_flops"]
    assert found["forward_flops"] == 2 * ROWS * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
    assert found["gradient_memory_mb"] * MIB == PARAMETERS * 4
    assert found["activation_memory_mb"] * MIB == ROWS * HIDDEN * 4
    state = {name: mb * MIB for name, mb in found["optimizer_memory_mb"].items()}
    assert state == {"sgd": 0, "sgd_momentum": PARAMETERS * 4, "adam": 2 * PARAMETERS * 4}
    assert (found["optimizer"], found["optimizer_state_mb"] * MIB) == ("adam", state["adam"])
    latency = found["latency"]
    np.testing.assert_allclose(latency.total.samples, np.add(latency.forward.samples, latency.backward.samples))
    assert found["total_memory_mb"] >= found["gradient_memory_mb"] + found["parameter_memory_mb"]


def test_a_loss_function_is_part_of_the_step_and_must_return_one_number() -> None:
    profiler = Profiler()
    profiler.profile_backward_pass(two_layers(), rows(), lambda output: (output * output).mean())
    assert {row.op for row in profiler.key_averages() if row.phase == "backward"} >= {"multiply", "mean", "linear"}
    with pytest.raises(TypeError, match="loss_fn"):
        profiler.profile_backward_pass(two_layers(), rows(), lambda output: output)


def test_phases_of_a_step_have_as_many_samples_as_steps_and_train_the_model() -> None:
    model = models.mlp()
    before = [parameter.data.copy() for parameter in model.parameters()]
    found = phases("mlp", batch=4, repeats=6, model=model)
    assert {name: m.n for name, m in found.items()} == {"forward": 6, "backward": 6, "update": 6}
    assert found["forward"].conditions.cpu_per_wall
    assert all(not np.array_equal(a, p.data) for a, p in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(("name", "most"), [("mlp", False), ("gpt", True)])
def test_memory_of_a_step_holds_what_the_model_and_adamw_hold(name: str, most: bool) -> None:
    """Activations are less than half of the MLP's and more of the GPT's, as the page says."""
    highest = training_memory(name, batch=64).highest
    parameters = sum(parameter.nbytes for parameter in models.entry(name).make(0).parameters())
    assert highest["parameters"] == highest["gradients"] == highest["optimizer"] / 2 == parameters
    assert (highest["activations"] > 4 * parameters) == most


_NUMBER = {"type": "number", "minimum": 0}
#: What the format asks of each kind of event.
_NEEDED = {
    "X": ["ts", "dur", "cat", "tid"],
    "b": ["ts", "cat", "id", "tid"],
    "e": ["ts", "cat", "id", "tid"],
    "s": ["ts", "cat", "id", "tid"],
    "f": ["ts", "cat", "id", "tid", "bp"],
    "C": ["ts"],
    "M": [],
}
_EVENT = {
    "type": "object",
    "required": ["name", "ph", "pid", "args"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "ph": {"enum": list(_NEEDED)},
        "pid": {"type": "integer", "minimum": 0},
        "tid": {"type": "integer", "minimum": 0},
        "ts": _NUMBER,
        "dur": _NUMBER,
        "id": {"type": "integer"},
        "bp": {"const": "e"},
        "args": {"type": "object"},
    },
    "allOf": [
        *(
            {"if": {"properties": {"ph": {"const": phase}}}, "then": {"required": needed}}
            for phase, needed in _NEEDED.items()
        ),
        {
            "if": {"properties": {"ph": {"const": "C"}}},
            "then": {"properties": {"args": {"additionalProperties": _NUMBER}}},
        },
        {
            "if": {"properties": {"ph": {"const": "M"}}},
            "then": {"properties": {"name": {"enum": ["process_name", "process_sort_index", "thread_name"]}}},
        },
    ],
}


def events_of(path: Path) -> list[dict[str, Any]]:
    """Return the events of a trace, each of which must be as the format says."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    events = {"type": "array", "items": _EVENT}
    jsonschema.validate(trace, {"type": "object", "required": ["traceEvents"], "properties": {"traceEvents": events}})
    found: list[dict[str, Any]] = trace["traceEvents"]
    return found
