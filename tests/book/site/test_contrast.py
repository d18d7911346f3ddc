"""What is drawn stands out by 3 to 1, its words by 4.5 to 1, in both schemes (WCAG 2.2, 1.4.3 and 1.4.11).

Text of the pages is for axe, which sees neither words in drawings nor lines.
"""

import re

import pytest

from tests.report.contrast import STYLE, contrast, tokens
from tinytorch.report import flame_graph
from tinytorch.report.colors import HUES

SCHEMES = ("light", "dark")
STATIC = STYLE.parent / "_static"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_words_in_drawings_stand_out(scheme: str) -> None:
    texts = "".join(path.read_text("utf-8") for path in STATIC.glob("drawings/*/*.svg"))
    used = set(re.findall(r'<text class="(\w+)"', texts))
    assert used
    assert all(contrast(HUES[hue][SCHEMES.index(scheme)], tokens(scheme)["background"]) >= 4.5 for hue in used), used


def test_names_in_a_flame_graph_stand_out() -> None:
    inks = re.findall(
        r'<text[^>]* fill="#(\w)(\w)(\w)"', flame_graph._box(flame_graph.Box("f", "", 0, 1, 0, "op"), True)
    )
    (ink,) = ["#" + "".join(2 * each for each in one) for one in inks]
    assert min(contrast(ink, fill) for fill in (*flame_graph._FILLS.values(), flame_graph._OTHER)) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_colours_of_what_readers_explore_stand_out(scheme: str) -> None:
    found: dict[str, str] = {}
    for path in (*STATIC.glob("*.css"), *(path for path in STYLE.glob("*.css") if path.stem != "tokens")):
        for selector, rules in re.findall(r"([^{}]+)\{([^{}]*)\}", path.read_text("utf-8")):
            if ("dark" in selector) == (scheme == "dark"):
                found |= dict(re.findall(r"--([\w-]+): (#\w{6});", rules))
    assert found
    assert not {name for name, code in found.items() if contrast(code, tokens(scheme)["background"]) < 3}
