"""`tinytorch profile` of a script: its own arguments, its exit code, and a page that needs no other file."""

import json
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from tinytorch.cli import main
from tinytorch.cli.profile import own_part

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
        (["--backward", "train.py"], "--backward is for a model, and train.py is a script"),
        (["--batch", "3", "train.py"], "--batch is for a model, and train.py is a script"),
        (["mlp", "--memory"], "--memory is for a script"),
        (["mlp", "--ops"], "--ops is for a script"),
        (["--html", ".", "train.py"], "--html . is a folder"),
        (["--pid", "1", "train.py"], "one of them"),
        (["--save", "x.json", "-"], "--save needs more runs"),
        (["--seconds", "0", "train.py"], "--seconds must be above 0"),
        (["--seconds", "1", "mlp"], "--seconds is for a script"),
        ([], "WHAT must be"),
        (["-m", "no_such_module"], "no module"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *arguments]) == 2
    assert said in capsys.readouterr().err
