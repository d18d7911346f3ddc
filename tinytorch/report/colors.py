"""One colour per variant across the book, legible on light and dark and told apart without colour vision.

Eight hues of middle luminance, chosen so that each stands out by 3:1 or more from the theme's white and from its
dark background (WCAG 2.2, 1.4.11), and so that any two differ for normal and for the three kinds of dichromatic
vision. Variants that meet in one figure belong to one group of `GROUPS` and have different hues there; markers
and hatches differ too, so that nothing rests on colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The page backgrounds that every colour must stand out from: the theme's light and dark.
BACKGROUNDS = {"light": "#ffffff", "dark": "#121212"}

_HUES = {
    "grey": "#878778",
    "slate": "#69695a",
    "blue": "#2d96f0",
    "indigo": "#4b4bff",
    "amber": "#c3870f",
    "red": "#d20f0f",
    "purple": "#b41eb4",
    "pink": "#ff3cc3",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """Style of a variant in figures: ``color`` as #rrggbb, and matplotlib's ``marker``, ``linestyle`` and ``hatch``."""

    color: str
    marker: str
    linestyle: str
    hatch: str


_SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":", "-", "--", "-.", ":")
_HATCHES = ("", "//", "\\\\", "xx", "..", "++", "--", "oo")

#: Which variants meet in one figure, each with its hue.
GROUPS: dict[str, dict[str, str]] = {
    "implementation": {
        "baseline": "grey",
        "numpy": "blue",
        "compiled": "amber",
        "cached": "purple",
        "quantized": "red",
        "pruned": "pink",
        "distilled": "indigo",
        "reference": "slate",
    },
    "phase": {
        "forward": "blue",
        "backward": "amber",
        "update": "purple",
        "waiting": "red",
        "unserved": "pink",
        "moving": "indigo",
        "in-flight": "grey",
    },
    "model": {"mlp": "indigo", "cnn": "amber", "gpt": "red"},
    "part": {
        "attention": "red",
        "linear": "blue",
        "convolution": "amber",
        "embedding": "pink",
        "normalization": "purple",
        "activation": "indigo",
        "other": "grey",
    },
    "memory": {
        "parameters": "blue",
        "gradients": "amber",
        "optimizer-state": "purple",
        "activations": "red",
        "temporaries": "grey",
    },
    "bits": {"float32": "grey", "8-bit": "blue", "4-bit": "amber", "2-bit": "red", "retrained": "purple"},
    "collective": {
        "point-to-point": "grey",
        "between-hosts": "slate",
        "broadcast": "purple",
        "all-gather": "amber",
        "reduce-scatter": "red",
        "all-reduce": "blue",
        "ring-all-reduce": "pink",
    },
    "scaling": {"strong": "blue", "weak": "amber"},
    "certainty": {"measured": "indigo", "modelled": "grey"},
}


def _variants() -> dict[str, Variant]:
    return {
        name: Variant(_HUES[hue], _SHAPES[index], _LINES[index], _HATCHES[index])
        for group in GROUPS.values()
        for index, (name, hue) in enumerate(group.items())
    }


#: Every variant of the book by name.
VARIANTS: dict[str, Variant] = _variants()


def variant(name: str) -> Variant:
    """Return how the variant ``name`` is drawn.

    Raises:
        ValueError: if there is no such variant.
    """
    if name not in VARIANTS:
        raise ValueError(f"variant must be one of {', '.join(sorted(VARIANTS))}, not {name!r}")
    return VARIANTS[name]


def color(name: str) -> str:
    """Return the colour of the variant ``name`` as #rrggbb; raises ValueError if there is no such variant."""
    return variant(name).color
