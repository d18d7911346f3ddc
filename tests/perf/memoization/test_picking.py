"""What picks from scores refuses those that have no largest, and takes minus infinity for ruled out."""

from typing import Any

import numpy as np
import pytest

from tinytorch import Tensor, models
from tinytorch.core.transformers import GPT
from tinytorch.perf.benchmarking.variants import scoring
from tinytorch.perf.memoization import enable_kv_cache, fuse_decoding, generate
from tinytorch.perf.memoization.generation import sample_tokens

NAN, INF = np.nan, np.inf
BAD = [[0, 1, NAN, 30], [NAN] * 4, [0, INF, 1, 2], [INF, INF, 0, 0], [-INF] * 4]
SAMPLING = [(0.0, None), (1.0, None), (1.0, 1), (0.7, 2)]


@pytest.mark.parametrize(("temperature", "top_k"), SAMPLING)
@pytest.mark.parametrize("row", BAD, ids=repr)
def test_sampling_refuses_scores_without_a_largest(row: list[float], temperature: float, top_k: int | None) -> None:
    logits = np.array([[0, 1, 2, 3], row], np.float32)
    with pytest.raises(ValueError, match="logits"):
        sample_tokens(logits, temperature, top_k, np.random.default_rng(0))


@pytest.mark.parametrize(("temperature", "top_k"), SAMPLING)
def test_what_minus_infinity_rules_out_is_never_drawn(temperature: float, top_k: int | None) -> None:
    logits = np.tile(np.array([-INF, 1, -INF, 1.5], np.float32), (200, 1))
    assert set(sample_tokens(logits, temperature, top_k, np.random.default_rng(0)).tolist()) <= {1, 3}


def test_prompts_are_spelt_as_tokens_are() -> None:
    model = GPT(11, 16, 1, 2, 32, seed=0).eval()
    expected = generate(model, np.array([[3, 1]]), 4)
    fused = fuse_decoding(model)
    enable_kv_cache(fused)
    for made in (model, fused):
        for prompt in (Tensor([[3, 1]]), [[3, 1]], np.array([[3.0, 1.0]])):
            np.testing.assert_array_equal(generate(made, prompt, 4), expected)
    assert fused(Tensor([[0]])).shape == (1, 1, 11)
    with pytest.raises(TypeError, match="tokens"):
        fused(Tensor([[0.5]]))


def test_the_zoo_has_no_accuracy_of_nan() -> None:
    logits = np.zeros((len(models.entry("mlp").data().test_targets), 10), np.float32)
    logits[3, 4] = NAN
    with pytest.raises(ValueError, match="logits"):
        models.right_answers(logits, "mlp")


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        (np.eye(3), [-100, -100, -100]),
        (np.eye(3), [0, -100, 2]),
        (np.eye(3), [0, 1, 3]),
        (np.eye(3), [0, 1, -1]),
        (np.eye(3), [0, 1, 0.5]),
        (np.eye(3), [0, 1, NAN]),
        (np.zeros((3, 2, 3)), [[0, 0], [-100, 0], [-100, -100]]),
        ([], [0, 1, 2]),
        (np.full((3, 3), NAN), [0, 1, 2]),
    ],
)
def test_labels_that_are_no_class_and_empty_outputs_are_refused(outputs: Any, targets: Any) -> None:
    with pytest.raises(ValueError, match=r"targets|outputs"):
        scoring(np.zeros((3, 1), np.float32), np.array(targets)).correct(lambda x: outputs)


@pytest.mark.parametrize("targets", [Tensor([0, 1, 2]), np.array([0, 1, 2], np.uint8), np.array([0, 1, 2.0])])
def test_labels_are_spelt_as_tokens_are(targets: Any) -> None:
    right = scoring(np.zeros((3, 1), np.float32), targets).correct(lambda x: np.eye(3)[[0, 1, 1]])
    assert right is not None
    assert right.tolist() == [True, True, False]
