"""What the flawed experiments compute, and which of them publish a difference."""

import numpy as np
from scipy.special import erf

from tinytorch.chapters.benchmarking import flaws as studies
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Sample


def test_the_typed_gelu_is_right_but_wide() -> None:
    x = np.linspace(-4, 4, 1000, dtype=np.float32)
    made = studies.typed_gelu(x)
    assert made.dtype == np.float64
    assert np.abs(made - 0.5 * x * (1 + erf(x / np.sqrt(2)))).max() < 1e-3


def test_only_intervals_that_leave_out_1_are_counted() -> None:
    # The last publishes an interval above 1, though one of its repeats lies below 1.
    repeats = (1.032, 1.019, 1.034, 0.999, 1.017, 1.01, 1.023, 1.013, 1.061)
    published = [
        Measurement("made", each, "", Conditions(sample=Sample.TRIALS)) for each in ((2.0,) * 9, (1.0,) * 9, repeats)
    ]
    assert studies.differences_not_there(published).value == 2
