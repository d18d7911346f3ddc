"""`tinytorch profile` of a script: its own arguments, its exit code, and the page that it writes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup, Tag

from tests.perf.made_ceilings import made_ceilings
from tinytorch import Linear, Profiler, Tensor
from tinytorch.cli import main
from tinytorch.cli.profile import own_part
from tinytorch.cli.program_report import REMEDIES, html_report
from tinytorch.core.activations import GELU
from tinytorch.perf.machine import store
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.profiling import region
from tinytorch.perf.roofline.bounds import WORDS, Bottleneck

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.usefixtures("made_machine")

SCRIPT = """
import sys
import numpy as np
from tinytorch import models
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import fit

entry = models.entry("mlp")
model = entry.make(0)
batches = DataLoader(entry.example_input(128), entry.example_target(128), batch_size=64)
fit(model, batches, models.loss_function(), AdamW(model.parameters()), 40)
print("trained", *sys.argv[1:])
sys.exit(int("--fail" in sys.argv))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(SCRIPT)
    return str(tmp_path / "train.py")


def test_options_before_the_script_are_ours_and_those_behind_it_its_own() -> None:
    for asked, own in (
        (["profile", "--html", "r.html", "train.py", "--limit", "3", "x.py"], 4),
        (["profile", "--memory", "--ops", "train.py"], 4),
        (["profile", "--html", "r.html", "-m", "a.b", "--x"], 5),
        (["profile", "-", "--x"], 2),
        (["profile", "--trace", "odd.py", "mlp"], 4),
        (["profile", "mlp", "--batch", "3"], 4),
        ([], 0),
    ):
        assert own_part(asked) == (asked[:own], asked[own:])


@pytest.mark.looks_into_processes
def test_a_script_becomes_a_page_that_needs_nothing_else(
    script: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    html, target = tmp_path / "report.html", tmp_path / "run.json"
    asked = ["profile", "--ops", "--memory", "--html", str(html), "--json", str(target)]
    assert main([*asked, script, "--rate", "3"]) == 0
    said = capfd.readouterr().out
    assert "trained --rate 3" in said
    assert "optimizer step" in said
    page = BeautifulSoup(html.read_text("utf-8"), "html.parser")
    document = json.loads(target.read_text())
    assert sum(row["share"] for row in document["inside"]["ops"]) == pytest.approx(1)
    parts = ["Lines", "Functions", "Calls into libraries", *["Threads"] * (len(document["threads"]) > 1)]
    parts += ["Flame graph", "Timeline", "Memory over time", "From inside", "What takes the most", "Operations"]
    parts += ["Modules and regions", "Timeline of operations", "Memory of arrays", "Roofline"]
    parts += ["What each verdict calls for", "The machine"]
    assert [each.get_text() for each in page.select("h1, h2")] == [f"Profile of {script} --rate 3", *parts]
    names = ("src", "href", "xlink:href", "action")
    addresses = [str(each[name]) for each in page.select("*") for name in names if each.has_attr(name)]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert len(page.select("script")) == 1
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", html.read_text(encoding="utf-8"))


@pytest.mark.looks_into_processes
def test_memory_of_other_operations_than_were_timed_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.py").write_text(  # each run executes another op
        "from pathlib import Path\nfrom tinytorch import Tensor\nmark, x = Path('mark'), Tensor([2.0])\n"
        "runs = int(mark.read_text()) if mark.exists() else 0\nmark.write_text(str(runs + 1))\n"
        "y = x + x if runs % 2 else x * x\n"
    )
    assert main(["profile", "--html", "odd.html", "--ops", "--memory", "odd.py"]) == 0
    page = (tmp_path / "odd.html").read_text(encoding="utf-8")
    assert "memory of arrays is not shown" in page


def test_the_readmes_command_for_the_books_own_model_works_as_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for line in "".join(blocks).splitlines() if re.match(r"tinytorch profile tinytorch/\S+\.onnx", line)]
    monkeypatch.chdir(ROOT)
    assert [main(line.split()[1:]) for line in lines] == [0]
    assert "in ONNX Runtime" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such.py"], "no_such.py is no file"),
        (["--backward", "train.py"], "--backward needs a model, but train.py is a script"),
        (["--batch", "3", "train.py"], "--batch needs a model, but train.py is a script"),
        (["mlp", "--memory"], "--memory is for a script"),
        (["mlp", "--ops"], "--ops is for a script"),
        (["--html", ".", "train.py"], "--html . is a folder"),
        (["--pid", "1", "train.py"], "one of them"),
        (["--save", "x.json", "-"], "--save needs a second run"),
        (["--seconds", "0", "train.py"], "--seconds must be above 0"),
        (["--seconds", "1", "mlp"], "--seconds needs a script"),
        ([], "give a script, a model"),
        (["-m", "no_such_module"], "no module"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *arguments]) == 2
    assert said in capsys.readouterr().err


def cells(page: BeautifulSoup, key: str) -> list[list[str]]:
    rows = page.select(f"#table-{key} tbody tr")
    return [[cell.get_text(" ", strip=True) for cell in row.select("th, td")] for row in rows]


def section(page: BeautifulSoup, title: str) -> Tag:
    (found,) = [each for each in page.select("section") if each.h2 is not None and each.h2.get_text() == title]
    return found


def test_every_verdict_has_its_remedy_and_stands_the_same_in_each_section() -> None:
    # A word without a remedy would end `tinytorch profile --html` in a KeyError, after the program has run.
    assert set(REMEDIES) == set(Bottleneck)
    x = Tensor(np.ones((512, 512), np.float32))
    with blas_threads(1), Profiler() as p:
        GELU()(Linear(512, 512)(x) + x)
    page = BeautifulSoup(html_report("three ops", p, made_ceilings(threads=1)), "html.parser")
    in_operations = {row[0]: row[-1] for row in cells(page, "operations") if row[1] == "forward"}
    in_roofline = {row[0]: row[-2] for row in cells(page, "roofline")}
    in_remedies = {
        name: word
        for word, _, names in (term.get_text().partition(": ") for term in page.select("dl dt"))
        for name in names.split(", ")
    }
    assert set(in_operations) == {"linear", "add", "gelu"}
    assert in_operations == in_roofline == in_remedies


@pytest.mark.parametrize("regions", [3, 40])
def test_the_shares_shown_and_the_share_below_them_are_the_whole_run(regions: int) -> None:
    with blas_threads(1), Profiler() as p:
        for number in range(regions):
            with region(f"part {number}"):
                sum(range(2000))
    page = BeautifulSoup(html_report("regions", p, None), "html.parser")
    values = [float(str(cell["data-value"])) for cell in page.select("#table-operations tbody tr > :nth-child(3)")]
    caption = page.select_one("#table-operations caption")
    assert caption is not None
    below = re.search(r"left out take ([\d.]+)\s*%", caption.get_text())
    rows = len(p.attribution())
    assert len(values) == min(rows, 25)
    assert (below is not None) == (rows > 25)  # never "0.0% is below them" where nothing is
    assert sum(values) + (float(below[1]) / 100 if below else 0) == pytest.approx(1, abs=1e-3)


@pytest.mark.usefixtures("no_collector")
def test_names_stay_text_and_what_is_not_known_is_said_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "kept_ceilings", lambda threads=1: None)
    evil = "</script><b id='evil'>&amp;"
    with blas_threads(1), Profiler() as p, region(evil):
        Linear(8, 4)(Tensor([[1.0] * 8]))
    page = BeautifulSoup(html_report(evil, p, None), "html.parser")
    assert page.select("#evil") == []
    assert page.h1 is not None
    assert page.h1.get_text() == f"Profile of {evil}"
    assert evil in {row[0].strip() for row in cells(page, "operations")}
    assert len(page.select("script")) == 1
    for words in WORDS:
        assert words not in page.get_text()
    assert "what this machine can do is not known" in section(page, "Roofline").get_text()
    assert "no verdict" in section(page, "What each verdict calls for").get_text()
    assert "Memory was not recorded" in section(page, "Memory over time").get_text()
    with Profiler() as nothing:
        pass
    empty = BeautifulSoup(html_report("nothing", nothing, None), "html.parser")
    assert "Nothing ran" in section(empty, "Timeline").get_text()
