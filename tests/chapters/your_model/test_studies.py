"""The model that the page reads is the published one and right about its lines, and what is found of it adds up."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.your_model import prepare, studies
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.measuring import Measurement, Modelled
from tinytorch.perf.onnx import OnnxModel, from_onnx
from tinytorch.perf.profiling.shares import recorded_runs
from tinytorch.perf.quantization.convert import stored_bytes
from tinytorch.perf.roofline.placement import place_groups


@pytest.fixture(scope="module")
def model() -> OnnxModel:
    return from_onnx(studies.FILE)


def test_the_file_is_the_published_one_with_its_licence() -> None:
    digest = hashlib.sha256(studies.FILE.read_bytes()).hexdigest()
    # As RapidOCR's own notice of licences (MODEL_LICENSES.md) has it.
    assert digest == "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"
    assert digest in studies.FILE.with_suffix(".md").read_text("utf-8")
    assert "Apache License" in studies.FILE.with_suffix(".LICENSE").read_text("utf-8")


def test_it_answers_lines_rightly(model: OnnxModel) -> None:
    images = studies.lines()
    assert images.shape == (30, 3, 48, 192)
    np.testing.assert_array_equal(images[1], images[0][:, ::-1, ::-1])
    assert studies.right_answers({"it": model})["it"].value == 30


def test_its_flops_are_those_of_a_hand_count(model: OnnxModel) -> None:
    """Multiply-adds of an image: h w k k C / g K of each convolution, summed over the file's, and the last layer's."""
    assert FLOPCounter().count_model_forward(model, (6, 3, 48, 192)) == 6 * 2 * 16_315_376


def test_kinds_are_told_by_their_weights_and_share_the_time(model: OnnxModel) -> None:
    six = Tensor(studies.lines()[: studies.LINES])
    passes, conditions = recorded_runs(forward_pass(model, six), 1)
    kinds = place_groups(studies.kind_of, passes, made_ceilings())
    assert {name: one.demand.calls for name, one in kinds.items() if "convolution" in name} == {
        studies.FIRST: 1, studies.POINTWISE: 41, studies.DEPTHWISE: 11,
    }  # fmt: skip
    first = kinds[studies.FIRST]
    assert first.demand.flops == 2 * 9 * 3 * 8 * 24 * 96 * 6
    # Input, weights, and eight maps of 24 by 96.
    assert first.traffic.value == 4 * (6 * 3 * 48 * 192 + 8 * 3 * 9 + 6 * 8 * 24 * 96)
    shares = studies.time_shares(kinds, conditions).values()
    # What others disturb, they disturb in the sentence as in the table: a share says how much of a core there was.
    assert all(one["share"].conditions.cpu_per_wall is not None for one in shares)


def test_a_file_in_codes_is_smaller_to_store_and_not_to_run(model: OnnxModel, tmp_path: Path) -> None:
    file = studies.in_codes(str(tmp_path))
    assert file.stat().st_size < studies.FILE.stat().st_size / 2
    read = from_onnx(file)
    assert studies.right_answers({"it": read})["it"].value == 30
    assert stored_bytes(read) == stored_bytes(model)


def test_a_measured_speedup_is_divided_by_the_predicted_one() -> None:
    measured, predicted = (Measurement(name, (value,) * 6, "") for name, value in (("gain", 1.5), ("joining", 1.2)))
    found = studies.over_prediction(measured, Modelled.by("Amdahl's law", predicted))
    assert found.median == pytest.approx(1.25)


def test_a_file_with_one_node_for_each_hard_swish_runs_fewer_nodes(tmp_path: Path) -> None:
    found = studies.nodes_that_run(str(tmp_path))
    before, after = found["as published"], found["one node"]
    # 18 activations of 4 nodes, of which ONNX Runtime runs at most 2.
    assert before["all"].value - after["all"].value >= 18 * 2
    assert after["Reorder"].value <= before["Reorder"].value


def test_images_are_prepared_alike() -> None:
    pixels = prepare.photographs()[:1]
    np.testing.assert_allclose(prepare.prepared(pixels), prepare.prepared_in_floats(pixels), atol=1e-6)
