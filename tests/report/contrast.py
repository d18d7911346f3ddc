"""Contrast by WCAG 2.2, and the colours that the book's style sheet names."""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
STYLE = Path(__file__).parents[2] / "book/_style"


def linear(name: str) -> Array:
    """sRGB to linear light, IEC 61966-2-1."""
    channels = np.array([int(name[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(name: str) -> float:
    return float(linear(name) @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    """WCAG 2.2, contrast ratio."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def tokens(mode: str) -> dict[str, str]:
    """Return the colours that ``tokens.css`` names, as #rrggbb, of the light scheme or of the dark one."""
    css = (STYLE / "tokens.css").read_text("utf-8")
    selector = ":root" if mode == "light" else r'html\[data-theme="dark"\]'
    (rules,) = re.findall(rf"(?m)^{selector} \{{([^}}]*)\}}", css)
    found = re.findall(r"--book-(\w+): #(\w{3}|\w{6});", rules)
    return {name: f"#{code if len(code) == 6 else ''.join(2 * each for each in code)}" for name, code in found}
