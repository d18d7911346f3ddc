"""Every engine against ours: outputs, losses and trained weights of every subject, and its run in a process."""

import pytest

from tinytorch.perf.engines.agreement import check, load
from tinytorch.perf.engines.presence import available
from tinytorch.perf.engines.protocol import ENGINES, OURS, Engine, Phase
from tinytorch.perf.engines.turns import study
from tinytorch.perf.engines.workloads import subject
from tinytorch.perf.measuring import Unmeasured

PEERS = [engine for engine in ENGINES.values() if engine.name not in OURS]
SMALL = ("block-128", "gpt-64", "mlp-1", "mlp-64", "cnn-64")


def test_every_engine_is_installed_here() -> None:
    assert set(available()) == set(ENGINES)


@pytest.mark.parametrize("phase", ["forward", "step"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("engine", [e for e in PEERS if e.setting != "compiled"], ids=lambda engine: str(engine.name))
def test_engines_compute_what_we_compute(engine: Engine, name: str, phase: Phase) -> None:
    if phase in engine.phases:
        with load(engine).scope(engine.setting):
            assert check(engine, subject(name), phase) >= 0


# What torch.compile loads uses a part of PyTorch that PyTorch says will go.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
def test_the_compiled_setting_computes_it_too() -> None:
    engine = ENGINES["PyTorch compiled"]
    with load(engine).scope(engine.setting):
        check(engine, subject("mlp-64"), "forward")


@pytest.mark.parametrize("name", ["gpt-1", "gpt-64"])
@pytest.mark.parametrize("engine", [e for e in PEERS if "decode" in e.phases], ids=lambda engine: str(engine.name))
def test_engines_generate_the_same_tokens(engine: Engine, name: str) -> None:
    assert check(engine, subject(name), "decode") == 0


def test_engines_take_turns() -> None:
    names = ("tinytorch", "PyTorch eager", "ONNX Runtime", "JAX")
    found = study(names, ["mlp-1"], cores=1, rounds=6)
    assert not isinstance(found, Unmeasured)
    forward, step = found
    assert set(forward.times) == set(names)
    assert set(step.times) == set(names) - {"ONNX Runtime"}
    assert all(times.n == 6 for times in (*forward.times.values(), *step.times.values()))
