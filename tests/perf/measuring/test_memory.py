"""Memory by array life against closed forms and against tracemalloc's own account of NumPy's arrays."""

import tracemalloc
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from tests.perf.small_models import HIDDEN, INPUTS, OUTPUTS, ROWS, rows, two_layers
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.op import owner_of
from tinytorch.core.optimizers import SGD, Adam
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.array_life import MemoryProfile, recording_memory
from tinytorch.perf.measuring.fresh import answer_of
from tinytorch.perf.measuring.memory import MemoryProfiler, MemoryTracker, leaked_bytes
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.profiling import profile_function

F32 = 4
PARAMETERS = (INPUTS * HIDDEN + HIDDEN + HIDDEN * OUTPUTS + OUTPUTS) * F32
#: What Python's own objects of a handful of ops may take beside the arrays.
OBJECTS = 40_000


@pytest.fixture(autouse=True)
def _no_tracing_is_left() -> Iterator[None]:
    yield
    left = tracemalloc.is_tracing()
    tracemalloc.stop()
    assert not left


def one_step(count: int = ROWS) -> MemoryProfile:
    model, x = two_layers(), rows(count)
    with recording_memory(model, x) as done:
        model(x).sum().backward()
    return done.profile


def test_each_category_of_a_training_step_is_the_bytes_counted_by_hand() -> None:
    memory = one_step()
    assert memory.highest["parameters"] == PARAMETERS
    assert memory.highest["gradients"] == memory.final["gradients"] == PARAMETERS
    assert memory.highest["inputs"] == ROWS * INPUTS * F32
    # The hidden layer after its ReLU: the second layer and the ReLU both save it, and it is one buffer.
    assert memory.highest["activations"] == ROWS * HIDDEN * F32
    assert memory.final["activations"] == memory.final["outputs"] == 0
    assert memory.standing == PARAMETERS + ROWS * INPUTS * F32


def test_live_bytes_are_those_of_tracemallocs_own_account_of_numpys_memory(tracing: None) -> None:
    """Everything lives that the run made: the domain that NumPy reports to holds exactly these bytes."""
    x = Tensor(np.ones((300, 200), np.float32), requires_grad=True)
    tracemalloc.clear_traces()
    with recording_memory() as done:
        kept = [apply(ops.exp, x)]
        kept += [apply(ops.gelu, kept[-1])]
        kept += [kept[-1].reshape(200, 300)]
        # Before the recording ends, whose columns of numbers are arrays, too.
        only = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
        seen = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([only]).traces)
    # exp saves its output, gelu saves a slope beside its output, reshape makes a view.
    assert done.profile.final["activations"] + done.profile.final["outputs"] == seen == 3 * x.nbytes
    assert done.profile.final["inputs"] == x.nbytes


@pytest.fixture
def tracing() -> Iterator[None]:
    """Trace memory, as a caller may."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_the_peak_is_what_tracemalloc_saw_but_for_pythons_objects() -> None:
    memory = one_step(20_000)
    assert memory.exact_origin
    assert abs(memory.peak - memory.array_peak) < OBJECTS
    assert memory.peak > 30 * OBJECTS


def test_what_following_many_ops_takes_itself_is_not_in_the_peak_and_hides_nothing_of_it() -> None:
    late = 100_000
    found = answer_of("tests.perf.peaks_of_memory", {"many": [1000, late]})
    assert len(found) == 4
    # The columns of 1,000 ops alone take as much again.
    assert all(late <= peak < late + OBJECTS for peak in found.values()), found


def test_temporaries_are_freed_within_their_op() -> None:
    x = Tensor(np.ones((500, 500), np.float32))
    with no_grad(), recording_memory() as done:
        y = apply(ops.log_softmax, x, axis=-1)  # makes exp of the whole and drops it
    (step,) = done.profile.steps
    assert y.nbytes <= step.temporary < y.nbytes + OBJECTS
    assert 2 * y.nbytes <= step.allocated < 2 * y.nbytes + OBJECTS
    assert done.profile.highest["activations"] == 0, "nothing is saved without gradients"


def test_a_buffer_is_counted_once_however_many_views_there_are() -> None:
    x = Tensor(np.ones((50, 40), np.float32), requires_grad=True)
    with recording_memory(x) as done:
        y = x.exp()
        views = [y.reshape(-1), y.T, y[3:7], y.transpose(0, 1)]
    assert done.profile.final["activations"] == y.nbytes
    assert done.profile.final["outputs"] == 0
    assert len(views) == 4


def test_owner_of_finds_the_array_behind_strides_and_foreign_memory() -> None:
    whole, foreign = np.zeros(100, np.float32), np.frombuffer(bytes(16), np.float32)
    assert owner_of(as_strided(whole[10:], (3, 4), (4, 4))) is owner_of(whole.reshape(10, 10).T[2:]) is whole
    assert owner_of(foreign[1:]) is foreign


def test_optimizer_state_is_counted_when_it_is_watched_and_gradients_from_before_the_run_are_one_buffer() -> None:
    model = two_layers()
    adam, momentum = Adam(model.parameters()), SGD(model.parameters(), momentum=0.9)
    model(rows()).sum().backward()
    with recording_memory(adam, momentum) as done:
        model(rows()).sum().backward()
        adam.step()
    assert (done.profile.highest["optimizer"], done.profile.highest["gradients"]) == (3 * PARAMETERS, PARAMETERS)


def test_an_optimizers_state_and_a_model_made_in_the_run_do_not_stand_before_it() -> None:
    with recording_memory() as done:
        model = two_layers()
        adam = Adam(model.parameters())
        done.watch([adam])
        x = rows()
        model(x).sum().backward()
    assert done.profile.standing == 0
    assert done.profile.highest["optimizer"] == 2 * PARAMETERS
    assert done.profile.peak >= done.profile.array_peak - OBJECTS


def test_running_statistics_are_buffers_and_not_parameters() -> None:
    model = BatchNorm2d(7)
    with recording_memory(model) as done:
        model(Tensor(np.ones((2, 7, 3, 3), np.float32)))
    assert done.profile.highest["buffers"] == done.profile.highest["parameters"] == 2 * 7 * F32


def test_nothing_is_kept_alive_by_being_followed() -> None:
    with recording_memory() as done:
        y = apply(ops.exp, Tensor(np.ones(1000, np.float32)))
        reference = weakref.ref(y.data)
        del y
        assert reference() is None
        with pytest.raises(TypeError, match="not list"):
            done.watch([[]])  # type: ignore[list-item]
    assert done.profile.final["outputs"] == 0


def test_a_callers_tracing_goes_on_with_all_it_knew(tracing: None) -> None:
    mine = np.ones(300_000, np.uint8)
    np.ones(5 * MIB, np.uint8)
    callers_peak = tracemalloc.get_traced_memory()[1]
    MemoryProfiler().profile(lambda: np.ones(MIB, np.uint8))
    with MemoryTracker() as tracker:
        np.ones(2 * MIB, np.uint8)
    with recording_memory() as done:
        apply(ops.exp, rows())
    assert tracemalloc.is_tracing()
    assert tracemalloc.get_object_traceback(mine) is not None
    # An array's own header aside, the peak is what it was before.
    assert callers_peak <= tracemalloc.get_traced_memory()[1] < callers_peak + 10_000
    assert 2 * MIB <= tracker.peak_bytes < 2 * MIB + 10_000
    assert not done.profile.exact_origin


def test_a_higher_peak_inside_reaches_the_caller(tracing: None) -> None:
    with MemoryTracker():
        np.ones(3 * MIB, np.uint8)
        with MemoryTracker() as inner:
            np.ones(MIB, np.uint8)
    assert tracemalloc.get_traced_memory()[1] >= 3 * MIB
    assert MIB <= inner.peak_bytes < MIB + 10_000


def test_the_profile_of_a_function_is_the_bytes_that_it_is_known_to_need() -> None:
    def function(count: int, extra: int = 0) -> np.ndarray:
        np.ones(3 * count, np.uint8)
        return np.ones(count + extra, np.uint8)

    found = MemoryProfiler().profile(function, (MIB,), {"extra": MIB})
    assert found["needed_mb"] == found["peak_mb"] - found["baseline_mb"] == pytest.approx(3, abs=0.01)
    assert found["allocated_mb"] == found["final_mb"] - found["baseline_mb"] == pytest.approx(2, abs=0.01)
    assert found["result"].nbytes == 2 * MIB
    assert found["leak_detected"] is False


def test_a_leak_is_found_with_its_size_and_growth_that_stops_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[np.ndarray] = []
    cache: dict[int, np.ndarray] = {}
    profile = MemoryProfiler().profile
    assert profile(lambda: cache.setdefault(0, np.ones(MIB, np.uint8)))["leak_detected"] is False
    found = profile(lambda: kept.append(np.ones(MIB, np.uint8)))
    assert found["leak_detected"] is True
    assert found["leak_mb_per_call"] == pytest.approx(1, abs=0.01)
    MemoryProfiler().print_report(found, "leaky")
    assert "at least 1.000 MiB more" in capsys.readouterr().out


def test_too_few_calls_cannot_tell_a_leak() -> None:
    found = MemoryProfiler().profile(lambda: None, calls=4)
    assert (found["leak_detected"], found["leak_mb_per_call"]) == (None, None)
    with pytest.raises(ValueError, match="calls"):
        MemoryProfiler().profile(lambda: None, calls=0)


@given(st.integers(0, 10**6), st.lists(st.integers(-5000, 5000), min_size=4, max_size=10))
def test_a_leak_is_growth_in_every_call_that_counts(start: int, growths: list[int]) -> None:
    least = min(growths[1:])
    assert leaked_bytes(list(np.cumsum([start, *growths]))) == (least if least >= 1024 else 0)


def test_the_tracker_reads_peak_and_rest_also_inside() -> None:
    with MemoryTracker() as tracker:
        held = np.ones(2 * MIB, np.uint8)
        np.ones(MIB, np.uint8)
        inside = tracker.peak_bytes
    assert 3 * MIB <= inside <= tracker.peak_bytes < 3 * MIB + 10_000
    assert tracker.peak_usage == tracker.peak_bytes / MIB
    assert held.nbytes <= tracker.current_bytes < held.nbytes + 10_000


#: What a first call may take beyond its result: what Numba makes of the arguments. Numba itself takes 41 MiB.
FIRST_CALL = 500_000


@pytest.mark.parametrize(
    "calls",
    [
        [("fused_gelu", "tracker"), ("accelerated", "recording"), ("compiled_loops", "profile")],
        [("compiled_loops", "recording"), ("fused_gelu into an array", "profile"), ("accelerated", "tracker")],
    ],
    ids=["an op first", "loops first"],
)
def test_the_first_call_of_a_kernel_is_not_charged_for_numba(calls: list[tuple[str, str]]) -> None:
    result = 256 * 256 * F32
    for call, peaks in zip(calls, answer_of("tests.perf.peaks_of_memory", {"first": calls}), strict=True):
        standing = result if call == ("accelerated", "recording") else 0  # its operand, which a recorded run sees
        assert all(result <= peak - standing < result + FIRST_CALL for peak in peaks), (call, peaks)


def use_and_reset() -> object:
    np.ones(4 * MIB, np.uint8)
    tracemalloc.reset_peak()
    return np.ones(MIB, np.uint8)


def use_in_an_inner_tracker_and_reset() -> object:
    with MemoryTracker():
        np.ones(4 * MIB, np.uint8)
        tracemalloc.reset_peak()
    return np.ones(MIB, np.uint8)


@pytest.mark.parametrize("body", [use_and_reset, use_in_an_inner_tracker_and_reset])
@pytest.mark.parametrize("callers_own", [False, True])
def test_a_body_that_resets_the_peak_hides_nothing(body: Callable[[], object], callers_own: bool) -> None:
    if callers_own:
        tracemalloc.start()
    try:
        with MemoryTracker() as tracker:
            body()
        assert tracker.peak_bytes == pytest.approx(4 * MIB, abs=10_000)
        assert MemoryProfiler().profile(body)["needed_mb"] == pytest.approx(4, abs=0.01)
        with recording_memory() as done:
            body()
        assert done.profile.peak == pytest.approx(4 * MIB, abs=OBJECTS)
        assert tracemalloc.reset_peak.__module__ == "_tracemalloc", "it is Python's again"
    finally:
        if callers_own:
            tracemalloc.stop()


def start_and_stop() -> None:
    tracemalloc.start()
    np.ones(MIB, np.uint8)
    tracemalloc.stop()


def stop_and_start() -> None:
    tracemalloc.stop()
    tracemalloc.start()


def recorded(body: Callable[[], object]) -> None:
    with recording_memory():
        body()


def tracked(body: Callable[[], object]) -> None:
    with MemoryTracker():
        body()


@pytest.mark.parametrize("body", [start_and_stop, stop_and_start, tracemalloc.clear_traces])
@pytest.mark.parametrize("instrument", [tracked, recorded, MemoryProfiler().profile, profile_function])
def test_a_body_that_ends_the_tracing_is_told_so(
    body: Callable[[], object], instrument: Callable[[Callable[[], object]], object]
) -> None:
    with pytest.raises(RuntimeError, match=r"stopped tracemalloc or cleared its traces.*: measure it without"):
        instrument(body)
    tracemalloc.stop()  # which the body may have started where nothing was measured
    with MemoryTracker() as tracker:
        np.ones(MIB, np.uint8)
    assert tracker.peak_bytes == pytest.approx(MIB, abs=10_000), "the next measurement is whole again"


def test_an_error_of_the_body_is_told_though_it_ended_the_tracing() -> None:
    def fail() -> None:
        tracemalloc.stop()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tracked(fail)


def test_a_profiler_keeps_what_was_allocated_after_each_call() -> None:
    kept: list[np.ndarray] = []
    profiler = MemoryProfiler()
    assert profiler.allocations == []
    profiler.profile(lambda: kept.append(np.ones(MIB, np.uint8)))
    assert np.array(profiler.allocations) / MIB == pytest.approx([1, 2, 3, 4, 5], abs=0.01)
