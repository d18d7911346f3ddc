"""Ceilings: kept, read back or refused, and measured by a small run of all probes on several CPUs."""

import functools
import json
import operator
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.perf.made_ceilings import CACHES, synthetic_ceilings
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.host.identity import identity
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.int8.instructions import available_dots
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.machine import Ceilings, ceilings, store
from tinytorch.perf.machine.store import StageProgress, kept_ceilings
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.measuring.conditions import ComputeProbe

#: A run of all probes, with few samples on a ladder that ends soon, printed as JSON; `test_costs` has the calls of
#: every kernel.
SMALL_RUN = """
import json, sys
from functools import partial
from tinytorch.perf.machine import measured_ceilings, peaks
from tinytorch.perf.machine.call_costs import CallCosts
from tinytorch.perf.measuring.codec import from_json, to_json
measured_ceilings.LARGEST = 2**15 * int(sys.argv[1])
measured_ceilings.caches = tuple
measured_ceilings.measured_call_costs = lambda: CallCosts({}, {})
measured_ceilings.repeats_of = lambda team: 7
peaks.sgemm = partial(peaks.sgemm, side=64)
stages = []
made = measured_ceilings.measured_ceilings(int(sys.argv[1]), lambda stage, part: stages.append(part))
assert stages == sorted(stages) and stages[-1] == 1.0, stages
print(json.dumps(to_json(made)))
"""


def small_run(threads: int, **environment: str) -> Ceilings:
    """Return what a new process measures in which Numba compiles for another CPU."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_RUN, str(threads)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    assert done.stderr == ""
    return from_json(json.loads(done.stdout), Ceilings, "ceilings")


def registers(found: Mapping[str, int]) -> set[str]:
    return {name.split()[1] for name in found}


def test_all_probes_run_on_all_cores_with_what_the_cpu_has() -> None:
    threads = identity().cores_usable
    made = small_run(threads)
    assert made.threads == threads
    assert made.fp32_peak.median == max(made.sgemm.median, *(one.median for _, one in made.multiply_add))
    assert len({len(points) for points in made.curves.values()}) == 1
    dot = available_dots()[0]
    assert made.int8_from == dot.name
    assert made.int8_peak.conditions.instrument == ComputeProbe(vector_bits=32 * dot.lanes, instruction=dot.name)
    assert made.fp32_peak.n >= 6
    assert made.clock.conditions.cores is None or len(made.clock.conditions.cores) == threads
    if "avx512f" in identity().extensions and not os.environ.get("NUMBA_CPU_NAME"):
        for kernel in (probes.multiply_add(16, 4), probes.read(16)):
            assert registers(evidence(kernel)) & {"ymm", "zmm"}


def test_without_wide_vectors_everything_works_and_says_so() -> None:
    made = small_run(1, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    assert made.int8_from == "multiply"
    assert made.fp32_peak.median > 0
    wide = "xmm" if platform.machine() == "x86_64" else "v"
    assert registers(made.evidence["multiply-add"]) == registers(made.evidence["triad"]) == {wide}


COMPILED_FOR = """
import json
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.int8.instructions import available_dots
from tinytorch.perf.kernels.runtime.evidence import evidence
found = [evidence(probes.multiply_add(16, 4)), evidence(probes.read(16))]
print(json.dumps([available_dots()[0].name, sorted({name.split()[1] for one in found for name in one})]))
"""


def test_numba_for_another_cpu_has_the_vectors_of_that() -> None:
    cpu, widest = ("haswell", "ymm") if platform.machine() == "x86_64" else ("generic", "v")
    environment = {**os.environ, "NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_FOR], capture_output=True, text=True, check=True, env=environment
    )
    int8, found = json.loads(done.stdout)
    assert int8 == "multiply"
    assert widest in found
    assert "zmm" not in found


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the threads of each time that ceilings were measured, which makes them up; they are kept elsewhere."""
    made: list[int] = []

    def make(threads: int, on_progress: StageProgress, one: Ceilings | None) -> Ceilings:
        made.append(threads)
        on_progress("made up", 1.0)
        fresh = synthetic_ceilings(threads)
        return replace(fresh, recorder=one.recorder if one else fresh.recorder.scaled(len(made)))

    monkeypatch.setattr(store, "KEPT", tmp_path / "kept")
    monkeypatch.setattr("tinytorch.perf.machine.measured_ceilings.measured_ceilings", make)
    monkeypatch.setattr(store, "_in_process", {})
    return made


def known_anew(monkeypatch: pytest.MonkeyPatch) -> Ceilings | None:
    """Return the kept ceilings as a new process reads them."""
    monkeypatch.setattr(store, "_in_process", {})
    return kept_ceilings()


def test_ceilings_are_measured_once_and_kept_until_they_are_refreshed(
    measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_ceilings() is None
    told: list[str] = []
    first = ceilings(on_progress=lambda stage, part: told.append(stage))
    assert told == ["made up"]
    assert ceilings() is kept_ceilings() is first
    again = known_anew(monkeypatch)
    assert again is not None
    assert again == ceilings()
    assert to_json(again) == to_json(first)
    assert again.taken.note is None
    assert len(measured) == 1
    assert [path.suffix for path in store.KEPT.iterdir()] == [".json"], "nothing is left beside the file"
    assert ceilings(refresh=True) is not first
    assert len(measured) == 2


def test_what_calls_cost_is_taken_from_one_thread(measured: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "usable_cores", lambda: (0, 1))
    alone = ceilings(2)
    one = ceilings()
    assert ceilings(2, refresh=True).recorder == one.recorder != alone.recorder
    assert measured == [2, 1, 2]


@pytest.mark.parametrize(("busy", "tries"), [([0.0], 1), ([0.5, 0.0], 2), ([0.5, 0.5], 2)])
def test_ceilings_are_measured_once_more_because_of_the_host_alone(
    busy: list[float], tries: int, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = iter(busy)
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: next(cores))
    uneven = synthetic_ceilings(1)
    uneven = replace(uneven, fp32_peak=replace(uneven.fp32_peak, samples=(1e9, 9e9) * 15))
    monkeypatch.setattr("tinytorch.perf.machine.measured_ceilings.measured_ceilings", lambda *_: uneven)
    assert ceilings(refresh=True).taken.tries == tries
    assert next(cores, None) is None


@pytest.mark.parametrize("changed", ["environment", "probes"])
def test_another_environment_and_other_probes_have_other_ceilings(
    changed: str, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings()
    if changed == "environment":
        monkeypatch.setenv("OPENBLAS_CORETYPE", "another")
    else:
        monkeypatch.setattr(store, "_PROBES", ("host/pinned_threads.py",))
    assert kept_ceilings() is None


def _sizeless(level: dict[str, Any]) -> dict[str, Any]:
    return {**level, **dict.fromkeys(name for name in level if name.startswith("capacity_"))}


#: Where a file of ceilings is wrong, and what stands there: another value, what a function makes of it, or nothing.
BROKEN: dict[str, tuple[tuple[Any, ...], Any]] = {
    "foreign": (("machine", "cpu"), "another"),
    "version": (("schema_version",), 1),
    "threads": (("values", "threads"), 7),
    "missing": (("values", "clock"), ...),
    "unit": (("values", "clock", "unit"), "s"),
    "zero": (("values", "clock", "samples", 3), 0),
    "text": (("values", "clock", "samples", 3), "4e9"),
    "nothing": (("values", "sgemm", "samples"), []),
    "infinite": (("values", "sgemm", "samples", 0), float("inf")),
    "order": (("values", "curves", "read"), lambda points: points[::-1]),
    "levels": (("values", "levels", -1), ...),
    "size": (("values", "levels", 0, "capacity_measured"), 1.5),
    "sizeless": (("values", "levels", 0), _sizeless),
}


def broken(document: Any, how: str) -> str:
    if how in BROKEN:
        (*way, last), value = BROKEN[how]
        place = functools.reduce(operator.getitem, way, document)
        if value is ...:
            del place[last]
        else:
            place[last] = value(place[last]) if callable(value) else value
    return json.dumps([document]) if how == "list" else json.dumps(document)[: -20 if how == "cut" else None]


@pytest.mark.parametrize("how", [*BROKEN, "cut", "list"])
def test_what_cannot_be_trusted_is_measured_anew_with_a_note(
    how: str, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings()
    (file,) = store.KEPT.iterdir()
    whole = file.read_text()
    file.write_text(broken(json.loads(whole), how))
    assert file.read_text() != whole
    assert known_anew(monkeypatch) is None
    anew = ceilings()
    assert len(measured) == 2
    assert (anew.taken.note or "").startswith(f"measured anew, because {file.name} could not be used: ")
    assert known_anew(monkeypatch) == anew, "the broken file was replaced"


@pytest.mark.parametrize("threads", [0, -3, 100_000])
def test_threads_are_as_many_as_there_are_cores(threads: int, measured: list[int]) -> None:
    with pytest.raises(ValueError, match="threads"):
        ceilings(threads)
    assert not measured
    if threads > 0:
        assert kept_ceilings(threads) is None
    else:
        with pytest.raises(ValueError, match="least"):
            kept_ceilings(threads)


def test_a_working_set_lives_in_the_innermost_level_that_holds_it() -> None:
    """A cache whose end no curve shows holds what is reported."""
    made = synthetic_ceilings()
    untold = replace(made.levels[1], capacity_measured=None, capacity_by_latency=None)
    untold_made = replace(made, levels=(made.levels[0], untold, *made.levels[2:]))
    assert from_json(to_json(untold_made), Ceilings, "it").levels[1].told_by is None
    sizes = (0, CACHES[0], CACHES[0] + 1, CACHES[1], CACHES[1] + 1, CACHES[2], CACHES[2] + 1, 2**40)
    for each in (made, untold_made):
        assert " ".join(each.level_of(size).name for size in sizes) == "L1 L1 L2 L2 L3 L3 memory memory"
    with pytest.raises(ValueError, match="working_set"):
        made.level_of(-1)


def test_ceilings_survive_json_and_only_a_difference_may_be_below_zero() -> None:
    made, less = synthetic_ceilings(), Measurement("less", (2e-6, -1e-7, 1e-6), "s")
    for each in (made, replace(made, recorder=less), replace(made, clock=Measurement("one", (4e9,), "Hz"))):
        assert from_json(json.loads(json.dumps(to_json(each), allow_nan=False)), Ceilings, "it") == each
    with pytest.raises(ValueError, match="samples"):
        from_json(to_json(replace(made, page_fault=less)), Ceilings, "it")
