"""The profiler: where time, arithmetic and memory go in whatever ran, read off one stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

import numpy as np

from tinytorch.core.module import Module
from tinytorch.core.op import Array, Shape
from tinytorch.core.optimizers import Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events import trace
from tinytorch.perf.events.array_life import MemoryProfile, MemoryRecording, recording_memory
from tinytorch.perf.events.flops import record_forward
from tinytorch.perf.events.stream import SHORT, Profile, Recording, module_overhead, recording
from tinytorch.perf.machine import Ceilings, store
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.model_io import input_for, tensor_of
from tinytorch.perf.measuring.text_table import Column, print_table
from tinytorch.perf.profiling import breakdown, passes
from tinytorch.perf.profiling.breakdown import LAYER_COLUMNS, OP_COLUMNS, LayerRow, OpRow
from tinytorch.perf.roofline import placement


class Profiler:
    """``with Profiler() as p:`` times every op of the body; ``Profiler(memory=True)`` records allocation instead.

    Time and memory are never one run, because tracing memory slows a program down: run the same body under
    both and `join` the memory to the time. All tables, the trace and the stacks are read-outs of one
    recorded run, and equal however often they are read. Ops of other threads are not in them; ``notes`` names these
    threads.

    The studies (``count_*``, ``measure_*``, ``profile_*``) need no body; those of a pass leave the run that
    they recorded for the tables.

    Args:
        memory: record allocation instead of time.
        ceilings: of this machine for the BLAS threads of the body, for per cent of the roof and verdicts. Without
            them tables use ceilings that were measured earlier and kept, or do without; `profile_forward_pass`
            measures them, which takes some seconds once on a machine.

    Examples:
        >>> from tinytorch import Linear, Profiler, Sequential, Tensor
        >>> model, x = Sequential(Linear(8, 4), Linear(4, 2)), Tensor([[1.0] * 8])
        >>> Profiler().count_parameters(model), Profiler().count_flops(model, (1, 8))
        (46, 80)
        >>> with Profiler() as p:
        ...     y = model(x)
        >>> [(row.op, row.calls, row.flops) for row in p.key_averages()]
        [('linear', 2, 80)]
        >>> [row.path for row in p.by_layer()]  # and what ran outside
        ['Sequential', 'Sequential.0', 'Sequential.1', '']
    """

    def __init__(self, memory: bool = False, ceilings: Ceilings | None = None) -> None:
        self._traces_memory = memory
        self._ceilings = ceilings
        self._body: ExitStack | None = None
        self._recording: Recording | MemoryRecording | None = None
        self._profile: Profile | None = None
        self._memory: MemoryProfile | None = None
        self._timed = False
        #: Seconds that recording adds to each call of a module; None where time was not recorded.
        self.module_call: float | None = None

    @classmethod
    def of(cls, recorded: Profile | MemoryProfile, module_call: float | None = None) -> Self:
        """Return the profiler of a run that was recorded elsewhere, such as in another process.

        Args:
            recorded: the run, for time or for memory.
            module_call: seconds that recording added to each call of a module.
        """
        made = cls(memory=isinstance(recorded, MemoryProfile))
        made._take(recorded, module_call)
        return made

    def _take(self, recorded: Profile | MemoryProfile, module_call: float | None) -> None:
        self._memory = recorded if isinstance(recorded, MemoryProfile) else None
        self._profile = recorded.run if isinstance(recorded, MemoryProfile) else recorded
        self._timed, self.module_call = self._memory is None, module_call

    def __enter__(self) -> Self:
        if self._body is not None:
            raise RuntimeError("this Profiler is recording already: use another one for a body inside its body")
        self._profile = self._memory = None
        self._body = ExitStack()
        if self._traces_memory:
            self._recording = self._body.enter_context(recording_memory())
        else:
            self._recording = self._body.enter_context(recording(timed=False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None
    ) -> None:
        assert self._body is not None
        body, self._body = self._body, None
        body.__exit__(kind, error, trace_)
        assert self._recording is not None
        recorded, self._recording = self._recording.profile, None
        self._take(recorded, None if isinstance(recorded, MemoryProfile) else module_overhead())

    def watch(self, *held: Module | Optimizer | Tensor) -> None:
        """In a memory run, also follow the state of optimizers, and tensors whose gradients are of interest.

        Modules that run are followed anyhow; name them here to have their gradients from before the run too.

        Raises:
            RuntimeError: outside of the body of a `Profiler(memory=True)`.
            TypeError: if one is neither Module, Optimizer nor Tensor.
        """
        if not isinstance(self._recording, MemoryRecording):
            raise RuntimeError("watch works inside the body of a Profiler(memory=True)")
        self._recording.watch(held)

    def join(self, memory: Profiler) -> Self:
        """Take the allocation of a memory run of the same body into this run's tables and trace; return self.

        Raises:
            ValueError: if ``memory`` holds no memory run, or one of other ops.
        """
        if memory._memory is None:
            raise ValueError("memory must be a Profiler(memory=True) whose body has run")
        if not trace.same_ops(self.run.events, memory._memory.run.events):
            raise ValueError("memory must be a run of the same ops on the same shapes as this run")
        self._memory = memory._memory
        return self

    @property
    def run(self) -> Profile:
        """The recorded run.

        Raises:
            RuntimeError: if there is none yet.
        """
        if self._profile is None:
            raise RuntimeError("nothing is recorded yet: run code in `with Profiler() as p:` and read p after it")
        return self._profile

    @property
    def has_memory(self) -> bool:
        """Whether a memory run was recorded or joined."""
        return self._memory is not None

    @property
    def memory(self) -> MemoryProfile:
        """The memory run, also after `join`.

        Raises:
            RuntimeError: if there is none.
        """
        if self._memory is None:
            raise RuntimeError("no memory was recorded: use Profiler(memory=True)")
        return self._memory

    def key_averages(self) -> list[OpRow]:
        """Return one row for each op and phase, those with the most time of their own first.

        Raises:
            ValueError: if the ceilings given are for another number of threads.
            RuntimeError: if nothing is recorded.
        """
        known = self._known_ceilings()
        placed = None if known is None else placement.place_ops(self.run, known)
        cost = None if known is None else known.recorder.median
        return _longest_first(breakdown.op_rows(self.run, self._allocated(), self._timed, cost, placed))

    def attribution(self) -> list[OpRow]:
        """Return `key_averages` and a row for each thing that takes time outside of ops, so that shares sum to 1.

        Such things are regions (``with region("augment"):``, and those of training: data loading, backward's own
        bookkeeping, the optimizer's step, ...), the Python of modules, the garbage collector, and what has no name. In
        a memory run there are none.
        """
        rows = self.key_averages()
        return _longest_first([*rows, *breakdown.between_rows(self.run)]) if self._timed else rows

    def by_layer(self) -> list[LayerRow]:
        """Return one row for each module: as a tree, each before those in it.

        Rows of class ``region`` are the regions of the run, with the time that none of the other rows has.
        """
        known = self._known_ceilings()
        placed = None if known is None else placement.place_layers(self.run, known)
        return breakdown.layer_rows(self.run, self._allocated(), self._timed, placed)

    def _known_ceilings(self) -> Ceilings | None:
        """Return the ceilings for the recorded run, given or kept; None without a time."""
        if not self._timed or self._ceilings is not None:
            return self._ceilings if self._timed else None
        return store.kept_ceilings(self.run.blas_threads)

    @property
    def recorder(self) -> Measurement | None:
        """What recording adds to an op, in seconds, as it was measured with the ceilings; None without any."""
        known = self._known_ceilings()
        return None if known is None else known.recorder

    def _allocated(self) -> Sequence[int] | None:
        return None if self._memory is None else [step.allocated for step in self._memory.steps]

    def print_top_operations(self, n: int = 10) -> None:
        """Print the first ``n`` rows of `attribution`, and the overhead of the profiler.

        Raises:
            ValueError: if ``n`` is below 1, and as `key_averages`.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        rows, notes = self.attribution(), self.notes()
        if any(row.short for row in rows[:n]):
            notes.append(f"* marks ops shorter than {SHORT} times what recording costs")
        print_table(rows[:n], _telling(_filled(OP_COLUMNS, self, rows), rows), notes)

    def print_by_layer(self) -> None:
        """Print `by_layer`."""
        rows = self.by_layer()
        print_table(rows, _filled(LAYER_COLUMNS, self, rows), self.notes())

    def notes(self) -> list[str]:
        """Return what a reader of the tables has to know: time outside of ops, recording's cost, what is uncounted."""
        run, said = self.run, []
        if self._timed:
            between, recorder = 1 - run.op_seconds / run.wall_seconds, self.recorder
            ops = "1 op" if len(run.events) == 1 else f"{len(run.events)} ops"
            said.append(f"{run.wall_seconds * 1e3:.3f} ms in all, {ops}, {between:.1%} of it between ops")
            said += _unnamed(run)
            if recorder is None:
                said.append("what recording cost is not known here: `python -m tinytorch machine` measures it once")
            else:
                ends = (recorder.median, recorder.interval.low, recorder.interval.high)
                cost, low, high = (seconds * 1e6 for seconds in ends)
                known = f"{cost:.2f} µs an op (interval {low:.2f} to {high:.2f})"
                said.append(f"recording cost {known if low > 0 else f'at most {high:.2f} µs an op, by what is known'}")
            share = (self.module_call or 0.0) * len(run.spans) / run.wall_seconds
            if self.module_call and share >= LITTLE:
                cost = self.module_call * 1e6
                where = f"which is in the {breakdown.MODULES}"
                said.append(f"recording cost {cost:.1f} µs a call of a module, {share:.0%} of the time, {where}")
        if run.unseen:
            said.append(f"not in here: ops on {', '.join(run.unseen)}, which a Profiler on that thread would record")
        if any(kind.output.dtype == np.float16 and kind.work for kind in run.columns.kinds):
            said.append("float16 is computed as float32, number by number, and turned back: in float32 it is faster")
        if run.uncounted:
            said.append(f"uncounted, no formula: {', '.join(run.uncounted)}")
        return said

    def export_chrome_trace(self, path: str | Path, more: Iterable[dict[str, Any]] = ()) -> Path:
        """Write the run as Chrome trace JSON, which Perfetto opens; return the path.

        Modules nest, forward and backward are marked, and a joined memory run is a counter. ``more`` are events of
        other instruments that looked at the same run.

        Raises:
            RuntimeError: if no timed run is recorded.
        """
        return write_whole(path, trace.trace_text(self._timed_run(), self._memory, more))

    def collapsed_stacks(self) -> str:
        """Return ``module;submodule;op nanoseconds`` lines for flame graphs."""
        return trace.collapsed_stacks(self._timed_run())

    def _timed_run(self) -> Profile:
        run = self.run
        if not self._timed:
            raise RuntimeError("a memory run has no times: record a Profiler() too and join this one to it")
        return run

    def amdahl(self, op: str, speedup: float) -> float:
        """Return the predicted speedup of the whole run if ``op`` (both phases) ran ``speedup`` times faster.

        1 / ((1 - p) + p / s), where p is the op's share of the wall time. A prediction, not a measurement.

        Raises:
            ValueError: if the op did not run or ``speedup`` is not above 0.
        """
        run = self._timed_run()
        names = sorted({event.op for event in run.events})
        if op not in names:
            raise ValueError(f"op must be one that ran ({', '.join(names)}), not {op!r}")
        own = sum(event.self_ns for event in run.events if event.op == op)
        return breakdown.amdahl(own / (run.end - run.start), speedup)

    def count_parameters(self, model: Any) -> int:
        """Return the number of trainable parameters of anything that has ``parameters()``.

        Frozen parameters do not count, and shared ones count once. Without ``parameters()``, the result is 0.
        """
        return passes.count_parameters(model)

    @overload
    def count_flops(self, model: Module, input_shape: Shape | Tensor | Array) -> int: ...
    @overload
    def count_flops(self, model: Callable[..., Any], input_shape: Shape | Tensor | Array) -> int | float: ...
    def count_flops(self, model: Any, input_shape: Shape | Tensor | Array) -> float:
        """Return FLOPs of the forward pass of a sample: 2 for each multiply-accumulate of a contraction, without bias.

        ``input_shape``, or an input itself, has the batch first (one axis alone is a sample); the batch does not change
        the result, a sequence's length does. Of a shape the model runs on zeros, whole ones where its first module is
        an Embedding. What is not a Module and runs no op of the framework, such as a function of arrays, does work that
        is not counted: a NaN that prints as "not counted".

        Raises:
            UncountedError: if an op declares no formula.
            ValueError: if the shape is none, or a Module ran no op.
        """
        return passes.count_flops(model, input_shape)

    def measure_memory(self, model: Any, input_shape: Shape | Tensor | Array) -> dict[str, float]:
        """Return the memory of a forward pass with gradients on, on zeros of ``input_shape`` or on an input, in MiB.

        What is there at its end: ``parameter_memory_mb``, ``buffer_memory_mb``, ``input_memory_mb``,
        ``activation_memory_mb`` made by ops and saved for backward, ``output_memory_mb`` that ops made besides;
        ``temporary_memory_mb``, what the worst moment needed more than these; ``peak_memory_mb``, their sum; and
        ``memory_efficiency``, the share of the peak that is parameters and activations.
        """
        return passes.memory_keys(passes.forward_memory(model, input_for(model, input_shape)))

    def latency(self, model: Any, input_tensor: Tensor | Array, warmup: int = 10, iterations: int = 100) -> Measurement:
        """Return the wall time of a forward without gradients in seconds, all samples; see `timing.sample`.

        Raises:
            ValueError: if ``warmup`` is below 0 or ``iterations`` below 1.
            RuntimeError: inside the body of a Profiler, whose cost would be measured too.
        """
        return passes.forward_latency(model, tensor_of(input_tensor), warmup, iterations)

    def measure_latency(
        self, model: Any, input_tensor: Tensor | Array, warmup: int = 10, iterations: int = 100
    ) -> float:
        """Return the median time of a forward pass in ms; ``latency`` has the samples."""
        return self.latency(model, input_tensor, warmup, iterations).median * 1e3

    def profile_layer(self, layer: Any, input_shape: Shape | Tensor | Array) -> dict[str, Any]:
        """Return ``layer_name`` and what `profile_forward_pass` returns, on zeros of ``input_shape`` or on an input."""
        keys, run = passes.forward_pass(layer, input_for(layer, input_shape), self._ceilings)
        return {"layer_name": type(layer).__name__, **self._kept(keys, run)}

    def profile_forward_pass(self, model: Any, input_tensor: Tensor | Array) -> dict[str, Any]:
        """Return the cost of a forward pass without gradients, and what limits it.

        ``parameters``; ``flops`` of one sample and ``batch_flops`` of the input; ``latency_ms`` (median;
        ``latency`` has the samples); ``gflops_per_second``; ``memory_bandwidth_mbs``, compulsory bytes a
        second in 1e6; ``computational_efficiency``, the rate over the FP32 peak that this machine was measured
        to have for as many BLAS threads; ``share_of_roof`` (a Measurement) of what intensity and cache level
        allow; ``bottleneck``, with ``is_memory_bound is_compute_bound is_overhead_bound``, and the ``verdict``
        behind it, which may also be "below every roof" or, where the
        order of the largest bounds is open, "open"; and the keys of `measure_memory`, for this input.

        Ceilings that are neither given nor kept from earlier are measured first, which takes some seconds. If an op
        declares no formula, or if ``model`` is not a Module and runs no op, only time and memory are known: the values
        that need the count of operations are NaN, which prints as "not counted", and so does ``bottleneck``.

        Raises:
            ValueError: if the ceilings given are for another number of threads.
            RuntimeError: inside the body of a Profiler, whose cost would be measured too.
        """
        value = tensor_of(input_tensor)
        if not isinstance(model, Module) and not record_forward(model, value).events:
            return passes.plain_pass(model, value)
        keys, run = passes.forward_pass(model, value, self._ceilings)
        return self._kept(keys, run)

    def profile_backward_pass(
        self, model: Any, input_tensor: Tensor | Array, loss_fn: Callable[[Any], Tensor] | None = None
    ) -> dict[str, Any]:
        """Return the cost of one training step without the update, from a backward pass that ran.

        ``loss_fn`` makes a scalar Tensor of the output; without it the loss is the sum of the output. All
        figures are of the whole batch: ``forward_flops backward_flops total_flops``; medians
        ``forward_latency_ms backward_latency_ms total_latency_ms`` (``latency`` has the samples);
        ``forward_memory_mb backward_memory_mb``, most bytes in that phase beyond what stood before the forward;
        ``parameter_memory_mb activation_memory_mb gradient_memory_mb temporary_memory_mb``;
        ``peak_memory_mb`` = ``total_memory_mb``, with parameters and input; ``optimizer_memory_mb``, the state of
        ``sgd``, ``sgd_momentum`` and ``adam`` after a real step on copies of the parameters, of which
        ``optimizer_state_mb`` is that of ``optimizer``, Adam. The model is left as it was.
        """
        keys, run = passes.backward_pass(model, tensor_of(input_tensor), loss_fn)
        return self._kept(keys, run)

    def _kept(self, keys: dict[str, Any], run: Profile) -> dict[str, Any]:
        """Keep the run of a study for the tables; return its keys."""
        self._take(run, module_overhead())
        return keys


@overload
def count_flops(model: Module, input_shape: Shape | Tensor | Array) -> int: ...
@overload
def count_flops(model: Callable[..., Any], input_shape: Shape | Tensor | Array) -> int | float: ...
def count_flops(model: Any, input_shape: Shape | Tensor | Array) -> float:
    """Return FLOPs of the forward pass of one sample, as `Profiler.count_flops` does.

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.profiling import count_flops
        >>> count_flops(Linear(512, 512), (32, 512))  # of one sample, whatever the batch
        524288
    """
    return passes.count_flops(model, input_shape)


def quick_profile(model: Any, input_tensor: Tensor | Array, profiler: Profiler | None = None) -> dict[str, Any]:
    """Print the cost of a forward pass and what limits it; return the result of `Profiler.profile_forward_pass`.

    Raises:
        ValueError, RuntimeError: as that does.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.profiling import quick_profile
        >>> found = quick_profile(Linear(128, 64), Tensor([[0.5] * 128]))  # doctest: +ELLIPSIS
        parameters: 8,256
        FLOPs of one sample: 16,384
        latency: ... ms
        ...
        >>> found["flops"] == 2 * 128 * 64
        True
    """
    found = (profiler or Profiler()).profile_forward_pass(model, input_tensor)
    print(f"parameters: {found['parameters']:,}")
    print(f"FLOPs of one sample: {found['flops']:,}")
    print(f"latency: {found['latency_ms']:.4f} ms")
    print(f"rate: {found['gflops_per_second']:.2f} GFLOP/s, {found['computational_efficiency']:.1%} of the FP32 peak")
    print(f"memory at its peak: {found['peak_memory_mb']:.3f} MiB")
    print(f"bound by: {found['bottleneck']}")
    return found


#: Share of a run without a name, or of waiting, from which on tables say so.
MUCH = 0.05
#: Share of a run that recording calls of modules may take before tables say so.
LITTLE = 0.01


def _unnamed(run: Profile) -> list[str]:
    """Return what to say of time that has no name or in which the thread did not run, where it is much."""
    (rest,) = [row for row in breakdown.between_rows(run) if row.op == breakdown.NOT_NAMED]
    said = []
    if rest.share is not None and rest.share >= MUCH:
        said.append(f'{rest.share:.1%} of the time has no name: put `with region("..."):` around what may take it')
    if run.waited is not None and run.waited * 1e-9 >= MUCH * run.wall_seconds:
        waited = run.waited * 1e-9 / run.wall_seconds
        said.append(f"in {waited:.1%} of the time this thread waited, or other programs had its core")
    return said


def _filled(columns: Sequence[Column], profiler: Profiler, rows: Sequence[OpRow] | Sequence[LayerRow]) -> list[Column]:
    """Return the columns that hold something: of time in a timed run, memory where joined, the roof where known."""
    timed, traced = profiler._timed, profiler._memory is not None
    bounded = any(row.bound for row in rows)
    waited = timed and (profiler.run.waited or 0) * 1e-9 >= MUCH * profiler.run.wall_seconds
    time_only = {"share", "short", "gflops_per_second"}
    return [
        column
        for column in columns
        if (timed or not (column.key in time_only or column.key.endswith("_seconds")))
        and (waited or column.key != "waiting_seconds")
        and (traced or column.key != "allocated")
        and (bounded or column.key not in ("of_roof", "bound"))
    ]


def _telling(columns: Sequence[Column], rows: Sequence[OpRow]) -> list[Column]:
    """Return the columns without those that tell nothing of several ops: one phase or implementation, no op inside."""
    ops = [row for row in rows if row.phase != breakdown.BETWEEN]
    alike = {key for key in ("phase", "implementation") if len({getattr(row, key) for row in ops}) == 1}
    if all(row.total_seconds == row.self_seconds for row in ops):
        alike.add("total_seconds")
    return [column for column in columns if len(ops) < 2 or column.key not in alike]


def _longest_first(rows: Sequence[OpRow]) -> list[OpRow]:
    """Return rows by their own time, those without any last."""
    return sorted(rows, key=lambda row: -1.0 if row.self_seconds is None else row.self_seconds, reverse=True)
