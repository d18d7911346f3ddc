"""Keys and values as codes: rulers that share what they say, and outputs that an outlier alone does not change."""

import numpy as np
import pytest

from tinytorch import models
from tinytorch.chapters.quantization import cached as chapter


def test_a_ruler_covers_what_shares_it() -> None:
    numbers = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    numbers[..., 3] *= 100
    for bits, levels in ((8, 256), (2, 4)):
        rounded = chapter.for_each_channel(bits)(numbers)
        assert all(len(np.unique(rounded[0, :, channel])) <= levels for channel in range(8))
        spread = numbers.max(axis=1, keepdims=True) - numbers.min(axis=1, keepdims=True)
        assert (np.abs(rounded - numbers) <= spread / (levels - 1) / 2 + 1e-4).all()
    assert len(np.unique(chapter.for_each_token(2, heads=2)(numbers)[0, 0, :4])) <= 4
    np.testing.assert_array_equal(chapter.on_ruler(np.ones((1, 3), np.float32), 4, 1), np.ones((1, 3)))


def test_a_planted_outlier_changes_no_float_output_but_that_of_codes_by_the_token() -> None:
    stretched = "keys, an outlier planted"
    cases = [("keys", 8), ("keys", 2), (stretched, 2)]
    found = chapter.keys_and_values(models.gpt(), cases, outlier=16.0, examples=8)
    assert found["keys", 8]["token"].value < found["keys", 2]["token"].value
    assert found[stretched, 2]["channel"].value == pytest.approx(found["keys", 2]["channel"].value, rel=1e-3)
