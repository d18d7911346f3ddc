"""Colours of the variants, against formulas of WCAG and of colour vision."""

from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest

from tests.report.contrast import contrast, linear, tokens
from tinytorch.report.colors import GROUPS, HUES, VARIANTS, color, variant

Array = npt.NDArray[np.float64]
#: Full dichromacy. Source: Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, table 1, severity 1.0.
DICHROMACY = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
#: Two colours this far apart in OKLab are told apart in a drawing; a just noticeable difference is about 0.02.
APART = 0.09


def oklab(light: Array) -> Array:
    """Linear sRGB to OKLab. Source: Bjoern Ottosson, A perceptual color space for image processing, 2020."""
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.asarray(np.array(to_lab) @ np.cbrt(np.array(to_cones) @ np.clip(light, 0, 1)))


def seen_on(name: str, mode: str) -> str:
    """The colour of a variant as a page shows it."""
    return color(name) if mode == "light" else dict(HUES.values())[color(name)]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_variant_stands_out_from_the_page(mode: str) -> None:
    assert min(contrast(seen_on(name, mode), tokens(mode)["background"]) for name in VARIANTS) >= 3


@pytest.mark.parametrize("vision", ["normal", *DICHROMACY])
def test_variants_that_meet_are_told_apart(vision: str) -> None:
    seen = np.eye(3) if vision == "normal" else np.array(DICHROMACY[vision])
    for group, mode in product(GROUPS.values(), ("light", "dark")):
        for a, b in combinations(group, 2):
            shown = [oklab(seen @ linear(seen_on(name, mode))) for name in (a, b)]
            distance = float(np.linalg.norm(shown[0] - shown[1]))
            assert distance >= APART, f"{a} and {b} look alike: {distance:.3f}"


def test_variants_that_meet_differ_without_colour_and_are_in_no_other_group() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names))
    for group in GROUPS.values():
        assert len({variant(name).marker for name in group}) == len(group)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="hue"):
        color("mauve")
