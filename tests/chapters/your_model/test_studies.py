"""The model that the page reads is the published one and right about its lines, and what is found of it adds up."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.chapters.capstone.made_trials import in_turns
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.your_model import prepare, studies
from tinytorch.core.dispatch import no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.onnx import OnnxModel, UntranslatedError, from_onnx
from tinytorch.perf.quantization.convert import stored_bytes


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

    def upright(x: Tensor) -> Tensor:
        return Tensor(np.tile(np.array([1.0, 0.0], np.float32), (len(x.data), 1)))

    assert studies.right_answers({"always upright": upright})["always upright"].value == 15


def test_its_flops_are_those_of_a_hand_count(model: OnnxModel) -> None:
    """Multiply-adds of an image: h w k k C / g K of each convolution, summed over the file's, and the last layer's."""
    assert FLOPCounter().count_model_forward(model, (6, 3, 48, 192)) == 6 * 2 * 16_315_376


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UntranslatedError) as caught:
        from_onnx(studies.trees(str(tmp_path)))
    assert caught.value.missing == {"ai.onnx.ml.Scaler": 1, "ai.onnx.ml.TreeEnsembleRegressor": 1}


def test_an_image_alone_has_the_answer_of_the_batch(model: OnnxModel) -> None:
    images = studies.lines()[:3]
    with no_grad():
        together, alone = model(Tensor(images)).data, model(Tensor(images[1:2])).data
    np.testing.assert_allclose(alone[0], together[1], atol=1e-5)


def test_nodes_are_constants_operations_or_settled_and_kinds_are_told_by_their_weights(model: OnnxModel) -> None:
    six = Tensor(studies.lines()[: studies.LINES])
    read = studies.what_was_read(model, six)
    assert read.nodes.value == read.constants.value + read.operations.value + read.settled.value
    kinds = studies.place_kinds(model, six, made_ceilings(), repeats=1)
    assert {name: one.demand.calls for name, one in kinds.items() if "convolution" in name} == {
        studies.FIRST: 1, studies.POINTWISE: 41, studies.DEPTHWISE: 11,
    }  # fmt: skip
    assert {*kinds} - {studies.FIRST, studies.POINTWISE, studies.DEPTHWISE} == {
        "normalization", "pooling", "element by element", "the last layer",
    }  # fmt: skip
    first = kinds[studies.FIRST]
    assert first.demand.flops == 2 * 9 * 3 * 8 * 24 * 96 * 6
    # Input, weights, and eight maps of 24 by 96.
    assert first.traffic.value == 4 * (6 * 3 * 48 * 192 + 8 * 3 * 9 + 6 * 8 * 24 * 96)
    timed, convolutions = studies.time_kinds(model, six, kinds, repeats=1)
    assert 0 < timed[studies.DEPTHWISE].share.median < convolutions.median < 1
    assert sum(one.share.median for one in timed.values()) == pytest.approx(1)
    # What others disturb, they disturb in the sentence as in the table: a share says how much of a core there was.
    assert all(one.share.conditions.cpu_per_wall is not None for one in timed.values())


def test_the_convolutions_of_a_plan_have_their_share(model: OnnxModel) -> None:
    six = Tensor(studies.lines()[: studies.LINES])
    steps, convolutions = studies.what_remains(plan(model, six), six)
    assert 0 < steps.value < studies.what_was_read(model, six).operations.value
    assert 0 < convolutions.median < 1


def test_intensity_and_bytes_are_those_of_the_questions() -> None:
    assert studies.depthwise_intensity(5).value == 25 / 4
    assert studies.swish_bytes().value == 4.5


def test_a_file_in_codes_is_smaller_and_answers_as_the_floats_do(model: OnnxModel, tmp_path: Path) -> None:
    found = studies.coded_file()
    assert found.right.value == 30
    assert found.smaller.value > 2
    images = Tensor(studies.lines()[: studies.LINES])
    read = from_onnx(studies.in_codes(str(tmp_path)))
    with no_grad():
        coded, floats = read(images).data, model(images).data
    assert stored_bytes(read) == stored_bytes(model)  # smaller to store, not to run
    assert 0 < np.abs(coded - floats).max() < 0.05


def test_images_are_prepared_alike_and_gain_what_their_bytes_predict(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = prepare.photographs()[:1]
    np.testing.assert_allclose(prepare.prepared(pixels), prepare.prepared_in_floats(pixels), atol=1e-6)
    monkeypatch.setattr(studies, "interleave", lambda *_, **__: in_turns({"double": 5.0, "single": 1.0}))
    found = studies.prepared_in_turns()
    assert (found.kept.word, round(found.predicted.value, 2)) == ("kept", 4.08)
