"""The page's table of instruments has each of them."""

import re
from pathlib import Path

from tinytorch.perf import profiling

ROOT = Path(__file__).resolve().parents[3]


def test_the_table_has_every_instrument() -> None:
    page = (ROOT / "book" / "profiling.md").read_text()
    section = page[page.index("## The instruments") : page.index("## The same in PyTorch")]
    calls = "\n".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))
    named = {*re.findall(r"\b[A-Za-z_]\w+(?=\()|(?<=@)\w+", calls), *re.findall(r"(?<=, `)\w+(?=`)", calls)}
    assert set(profiling.__all__) - {"LayerRow", "OpRow"} <= named
    methods = {name for name in named if hasattr(profiling.Profiler, name)}
    assert {"count_parameters", "measure_memory", "measure_latency", "profile_layer", "profile_forward_pass"} <= methods
