"""What slows the BLAS, and what a call of an op costs: with the cost that was measured, or nothing."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import psutil
import pytest

from tests.perf.made_ceilings import spread
from tests.perf.small_models import rows, two_layers
from tinytorch.core import ops
from tinytorch.core.dispatch import observed_by
from tinytorch.core.losses import MSELoss
from tinytorch.core.op import Op
from tinytorch.perf.events.stream import Recorder, recording
from tinytorch.perf.host.blas import Blas
from tinytorch.perf.host.identity import Identity, identity
from tinytorch.perf.machine import blas_costs
from tinytorch.perf.machine.blas_costs import (
    BusyNeighbour,
    blas_variables,
    busy_neighbour,
    collapsing_blas,
    narrow_blas,
    without,
)
from tinytorch.perf.machine.call_costs import CallCosts, call_key, least_call_seconds, measured_call_costs
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Sample

COST = spread(1.83, "", 0.03 / 1.83)


def machine(cpu: str | None, *blas: tuple[str | None, str | None], **environment: str) -> Identity:
    """Return this machine with other vectors and BLAS libraries: (vectors, whose copy)."""
    loaded = tuple(Blas("openblas", "1", "Haswell", vectors, 2, of) for vectors, of in blas)
    return replace(identity(), vectors=cpu, blas=loaded, environment=environment)


def cost_of(names: list[str]) -> Measurement:
    assert names == ["OPENBLAS_CORETYPE"]
    return COST


@pytest.mark.parametrize("variable", ["OPENBLAS_CORETYPE", None])
def test_a_narrow_blas_has_its_cost_where_a_variable_tells_it(variable: str | None) -> None:
    environment = {"OPENBLAS_NUM_THREADS": "1"} | ({variable: "Haswell"} if variable else {})
    found = narrow_blas(machine("AVX-512", ("AVX2", "numpy"), **environment), cost_of)
    assert found is not None
    assert found.cost is (COST if variable else None)
    for part in ("AVX2", "AVX-512", *(("1.83", variable) if variable else ("not known",))):
        assert part in found.sentence


@pytest.mark.parametrize(
    "given",
    [
        machine("AVX2", ("AVX2", "numpy")),
        machine("AVX-512", ("AVX-512", "numpy"), OPENBLAS_CORETYPE="SkylakeX"),
        machine("AVX-512", (None, "numpy")),
        machine(None, ("AVX2", "numpy")),
        machine("AVX-512", ("AVX-512", "numpy"), ("AVX2", "scipy")),
    ],
)
def test_nothing_is_said_where_nothing_is_known_to_be_narrower(given: Identity) -> None:
    assert narrow_blas(given, cost_of) is None


def test_variables_of_kernels_are_those_that_do_not_count_threads() -> None:
    given = dict.fromkeys(["OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "MKL_CBWR", "OMP_PROC_BIND", "PATH"], "1")
    assert blas_variables(given) == ["MKL_CBWR", "OPENBLAS_L2_SIZE"]


def test_the_cost_is_a_ratio_of_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def product(environment: dict[str, str]) -> float:
        seen.append(environment.get("OPENBLAS_TEST"))
        return 3.0 if "OPENBLAS_TEST" in environment else 2.0

    monkeypatch.setenv("OPENBLAS_TEST", "x")
    monkeypatch.setattr(blas_costs, "_product_in_new_process", product)
    assert without(["OPENBLAS_TEST"], pairs=6).samples == (1.5,) * 6
    assert sorted(seen, key=str) == [None] * 6 + ["x"] * 6
    assert len({tuple(seen[i : i + 2]) for i in range(0, 12, 2)}) == 2, "now one is first, now the other"


def test_a_product_runs_in_a_new_process_that_says_why_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found = without(["NO_SUCH_VARIABLE"], pairs=1)
    assert (found.n, found.conditions.sample) == (1, Sample.PROCESS_PAIRS)
    assert found.minimum > 0
    monkeypatch.setattr(blas_costs, "_PRODUCT", "print(undefined)")
    with pytest.raises(RuntimeError, match="NameError"):
        without(["NO_SUCH_VARIABLE"], pairs=1)


@pytest.mark.parametrize(("call", "said"), [(lambda: without([]), "variable"), (lambda: busy_neighbour(1), "threads")])
def test_there_must_be_something_to_leave_out_and_a_thread_to_wait_for(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    ("middle", "noise", "is_harm"), [(1.25, 0.04, True), (1.15, 0.22, False), (0.65, 0.23, False), (1.1, 0.1, False)]
)
def test_only_threads_that_surely_do_harm_are_a_caution(middle: float, noise: float, is_harm: bool) -> None:
    found = collapsing_blas(BusyNeighbour(2, COST, spread(middle, "", noise)))
    assert (found is not None) is is_harm
    if found is not None:
        assert found.cost is COST
        assert "1.83" in found.sentence
        assert "1.25" in found.sentence


def test_the_busy_process_is_busy_and_ends() -> None:
    with blas_costs._spinning() as process:
        before = process.cpu_times().user
        while process.cpu_times().user == before:
            assert process.status() == psutil.STATUS_RUNNING, "which it also is while it waits for a core"
    assert not psutil.pid_exists(process.pid)


@pytest.fixture(scope="module")
def costs() -> CallCosts:
    return measured_call_costs()


def test_they_are_not_measured_under_an_observer() -> None:
    with observed_by(Recorder()), pytest.raises(RuntimeError, match="without observers"):
        measured_call_costs()


def test_every_op_has_a_cost_in_both_phases_and_those_with_a_kernel_by_it_too(costs: CallCosts) -> None:
    every = {op.name for op in vars(ops).values() if isinstance(op, Op)}
    for kind in (costs.op, costs.kernel):
        for phase in ("forward", "backward"):
            keys = [key.split() for key in kind]
            assert {name for name, by, ran, _ in keys if ran == phase and by == "numpy"} >= every
        assert all(cost.unit == "s" and cost.minimum > 0 and cost.n >= 6 for cost in kind.values())
        for op, operands in (("gelu", 1), ("layer_norm", 3), ("sparse_linear", 5), ("quantized_linear", 7)):
            assert {call_key(op, by, "forward", operands) for by in ("numpy", "numba")} <= kind.keys()


def test_calls_add_up_by_op_phase_and_operands() -> None:
    known = {
        call_key("linear", "numpy", "forward", 3): spread(3e-6, "s", 0.1),
        call_key("linear", "numpy", "forward", 2): spread(100e-6, "s"),
        call_key("relu", "numpy", "forward", 1): spread(5e-6, "s"),
        call_key("linear", "numpy", "backward", 3): spread(7e-6, "s"),
        call_key("add", "numpy", "forward", 2): spread(1e-6, "s", 0.5),
    }
    with recording() as recorded:
        MSELoss()(two_layers()(rows()), np.zeros((4, 3), np.float32)).backward()
    # Two linears with bias and a ReLU; two backwards of linear; of the loss and ReLU three events are not known.
    expected = (2 * 3 + 5 + 2 * 7 + 3 * 1) * 1e-6
    found = least_call_seconds(recorded.profile.events, known)
    assert found.median == pytest.approx(expected)
    assert found.unit == "s"
    # Two of three microseconds and a tenth, three of one and a half of it: each sample of one beside that of the other.
    assert sorted(found.samples) == pytest.approx(np.linspace(expected - 2.1e-6, expected + 2.1e-6, 7).tolist())
    assert found.interval.low < expected - 1e-6 < expected + 1e-6 < found.interval.high


def test_another_implementation_is_not_charged_for_numpys() -> None:
    with recording() as recorded:
        two_layers()(rows())
    (event, *_) = recorded.profile.events
    keys = (("linear", "numpy", 3, 3e-6), ("add", "numpy", 2, 1e-6), ("linear", "compiled", 3, 2e-6))
    known = {call_key(op, by, "forward", operands): spread(cost, "s") for op, by, operands, cost in keys}
    compiled = replace(event, implementation="compiled")
    assert least_call_seconds([event], known).median == pytest.approx(3e-6)
    assert least_call_seconds([compiled], known).median == pytest.approx(2e-6)
    del known[call_key("linear", "compiled", "forward", 3)]
    assert least_call_seconds([compiled], known).median == pytest.approx(1e-6)
