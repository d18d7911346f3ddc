"""Snippets of pages for PyTorch run and agree with what we count, and every engine agrees with ours."""

from typing import Any

import numpy as np
import pytest
import torch

from tinytorch import models
from tinytorch.chapters.in_pytorch import (
    answering,
    attend_step_by_step,
    compare_batches,
    compile_gelu,
    count_product,
    multiply_squares,
    profile_gpt,
    prune_mlp,
    quantize_mlp,
    take_one_step,
    train_on_two_ranks,
)
from tinytorch.perf.compression import magnitude_prune
from tinytorch.perf.engines.agreement import check, load
from tinytorch.perf.engines.presence import available
from tinytorch.perf.engines.protocol import ENGINES, OURS, Engine, Phase
from tinytorch.perf.engines.pytorch import twin_of
from tinytorch.perf.engines.turns import study
from tinytorch.perf.engines.workloads import subject
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.memoization import KVCache


def test_the_linear_layers_of_the_gpt_do_the_arithmetic_that_the_page_derives(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all operations: which five took the most time, and are shown, is another question in each run."""
    profilers: list[Any] = []
    profiler = torch.profiler.profile

    def kept(**options: Any) -> Any:
        profilers.append(profiler(**options))
        return profilers[-1]

    monkeypatch.setattr(torch.profiler, "profile", kept)
    profile_gpt()
    lines = capsys.readouterr().out.splitlines()
    assert [(line.split()[2], line.split()[-1]) for line in lines] == [("calls", "MFLOP")] * 5
    (linear,) = (row for row in profilers[0].key_averages() if row.key == "aten::addmm")
    positions = models.example("gpt", batch=64).size
    assert (linear.count, linear.flops) == (8, pytest.approx(2 * 24 * positions * 96**2, rel=1e-3))


def test_a_product_has_the_operations_and_the_intensity_that_the_page_derives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count_product()
    words = capsys.readouterr().out.split()
    assert int(words[0]) == 2 * 16 * 1024**2
    assert float(words[-2]) == pytest.approx(16 / 2 / (1 + 2 * 16 / 1024), abs=0.01)


@pytest.mark.filterwarnings(
    "ignore:torch.quantize_per_tensor:UserWarning", "ignore:torch.ao.quantization is deprecated:DeprecationWarning"
)
def test_codes_are_a_quarter_of_the_bytes_and_answer_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    quantize_mlp()
    weight, *models_of_it = capsys.readouterr().out.splitlines()
    assert weight.startswith("first weight: 65536 B, codes from -128 ")
    assert weight.endswith(": 16384 B")
    floats, codes = (int(line.split(", ")[1].split()[0]) for line in models_of_it)
    data = models.entry("mlp").data()
    assert floats == int(models.correct(models.trained("mlp"), "mlp").sum())
    assert abs(codes - floats) <= 0.02 * len(data.test_inputs)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_pruning_leaves_as_many_zeros_as_ours_and_takes_the_bytes_that_the_page_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    prune_mlp()
    found = dict(line.removesuffix(" B").split(": ") for line in capsys.readouterr().out.splitlines())
    mlp = models.trained("mlp")
    weights = [layer.weight.data for layer in magnitude_prune(mlp, 0.9) if hasattr(layer, "weight")]
    numbers, zeros = sum(each.size for each in weights), sum(int((each == 0).sum()) for each in weights)
    dense = sum(each.nbytes for each in mlp.state_dict().values())
    assert int(found["zeros"]) == zeros
    assert int(found["dense"]) == int(found["masks removed"]) == dense
    assert int(found["pruned, with masks"]) == dense + 4 * numbers
    starts = sum(8 * (each.shape[1] + 1) for each in weights)  # a row of PyTorch's is an output
    assert int(found["weights in CSR"]) == 12 * (numbers - zeros) + starts


def test_products_have_a_rate_for_each_width(capsys: pytest.CaptureFixture[str]) -> None:
    multiply_squares()
    library, *rates = capsys.readouterr().out.splitlines()
    assert library.isalnum()
    assert [int(line.split()[0]) for line in rates] == [64, 256, 1024, 2048]
    assert all(float(line.split()[-2]) >= 0 for line in rates)


def test_the_compiled_line_is_the_line_but_for_rounding(capsys: pytest.CaptureFixture[str]) -> None:
    compile_gelu()
    first, *times = capsys.readouterr().out.splitlines()
    assert float(first.split()[-1]) < 1e-5
    assert [line.split(":")[0] for line in times] == ["line", "compiled", "x**3", "x*x*x"]


def test_attention_through_a_cache_is_attention_and_takes_the_bytes_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    attend_step_by_step()
    apart, held = (line.split(": ")[1] for line in capsys.readouterr().out.splitlines())
    ours = KVCache(batch_size=1, max_seq_len=1024, num_layers=1, num_heads=12, head_dim=64)
    assert float(apart) < 1e-5
    assert int(held.split()[0]) == 2 * 12 * 1024 * 64 * np.dtype(np.float32).itemsize
    assert int(held.split()[0]) == ours.get_memory_usage()["total_bytes"]


def test_two_ranks_have_the_gradients_of_the_whole_batch_and_keep_half_of_what_is_sharded(
    capfd: pytest.CaptureFixture[str],
) -> None:
    train_on_two_ranks()
    gradients, _, parameters, state = capfd.readouterr().out.splitlines()
    assert float(gradients.split()[3]) < 1e-6
    whole = sum(each.nbytes for each in models.entry("mlp").make(0).state_dict().values())
    assert parameters == f"parameters: {whole} B, of which rank 0 keeps {whole // 2}"
    assert state == f"optimizer's state: {2 * whole} B, of which rank 0 keeps {whole}"


def test_both_ways_to_ask_for_a_batch_are_timed_and_their_scatter_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    compare_batches()
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split("|") for line in lines if "|" in line]
    times = {name.strip(): float(shown) for name, shown in cells[1:]}
    assert [*times] == ["one by one", "one batch"]
    assert min(times.values()) > 0
    assert [line.partition(":")[0] for line in lines[-2:]] == [*times]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")
def test_the_plain_call_answers_as_our_gpt_does_and_a_cache_keeps_its_tokens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gpt, data = models.trained("gpt"), models.entry("gpt").data()
    written = answering(twin_of(gpt).module, data.test_inputs[:64, :11])()[:, 11:]
    right = (written == data.test_targets[:64, 10:]).all(1)
    assert right.tolist() == models.correct(gpt, "gpt")[:64].tolist()
    take_one_step()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" asked")[0] for line in lines] == ["1", "32"]
    assert all("most in aten::" in line and line.endswith("same: True") for line in lines)


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
