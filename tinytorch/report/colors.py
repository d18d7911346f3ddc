"""One colour per variant across the book, for light pages and for dark ones, told apart without colour vision.

Nine calm hues around the teal of the site's links, of which none is the red that says "refuted" or the green that says
"supported". Each stands out from its page by 3:1 or more (WCAG 2.2, 1.4.11), and any two differ for normal and for the
three kinds of dichromatic vision. Drawings hold the colours for light pages, for which the style sheet has others where
a page is dark. Variants that meet in one figure belong to one group of `GROUPS` and have different hues there; markers
differ too, so that nothing rests on colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Each hue on a light page and on a dark one.
HUES = {
    "grey": ("#74776a", "#8f9386"),
    "deep": ("#19444e", "#addae6"),
    "teal": ("#076375", "#72bed1"),
    "blue": ("#4a71c7", "#658ee6"),
    "lilac": ("#7d8ae8", "#5e68c3"),
    "rose": ("#b381a7", "#916185"),
    "orange": ("#b25f00", "#c36f14"),
    "brown": ("#5b3106", "#f9c59c"),
    "olive": ("#6e541c", "#c9ad75"),
}
#: Hues of series that nobody chose one for, in this order: neighbours differ most.
ASSIGNED = ("teal", "orange", "blue", "rose", "brown", "lilac", "grey", "deep", "olive")


@dataclass(frozen=True, slots=True)
class Variant:
    """Style of a variant: ``color`` on a light page, and matplotlib's ``marker``."""

    color: str
    marker: str


_SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")

#: Which variants meet in one figure, each with its hue.
GROUPS: dict[str, dict[str, str]] = {
    "implementation": {
        "baseline": "grey",
        "numpy": "teal",
        "compiled": "orange",
        "cached": "blue",
        "quantized": "rose",
        "pruned": "brown",
        "distilled": "lilac",
        "reference": "deep",
    },
    "phase": {"forward": "teal", "backward": "orange", "waiting": "rose", "moving": "lilac"},
    "model": {"mlp": "lilac", "cnn": "orange", "gpt": "teal"},
    "part": {
        "attention": "rose",
        "linear": "teal",
        "convolution": "orange",
        "embedding": "brown",
        "normalization": "blue",
        "activation": "lilac",
        "other": "grey",
    },
    "memory": {
        "parameters": "teal",
        "gradients": "orange",
        "optimizer-state": "blue",
        "activations": "rose",
        "temporaries": "grey",
    },
    "bits": {"float32": "grey", "8-bit": "teal", "4-bit": "orange", "2-bit": "rose", "retrained": "blue"},
    "collective": {
        "point-to-point": "grey",
        "between-hosts": "deep",
        "broadcast": "blue",
        "all-gather": "orange",
        "reduce-scatter": "rose",
        "all-reduce": "teal",
        "ring-all-reduce": "brown",
    },
    "scaling": {"strong": "teal", "weak": "orange"},
    "certainty": {"measured": "teal", "modelled": "grey", "highlight": "orange"},
}


#: Every variant of the book by name.
VARIANTS = {
    name: Variant(HUES[hue][0], _SHAPES[index])
    for group in GROUPS.values()
    for index, (name, hue) in enumerate(group.items())
}


def variant(name: str) -> Variant:
    """Return how the variant ``name`` is drawn; a hue is a variant of an author's own.

    Raises:
        ValueError: if there is no such variant.
    """
    if name in HUES:
        return Variant(HUES[name][0], _SHAPES[ASSIGNED.index(name) % len(_SHAPES)])
    if name not in VARIANTS:
        raise ValueError(
            f"variant must be a hue, {', '.join(HUES)}, or one of {', '.join(sorted(VARIANTS))}, not {name!r}"
        )
    return VARIANTS[name]


def color(name: str) -> str:
    """Return the colour of the variant ``name`` on a light page, as #rrggbb; raises ValueError if there is none."""
    return variant(name).color
