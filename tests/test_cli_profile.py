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
        (["profile", "--memory", "train.py"], 3),
        (["profile", "--html", "r.html", "-m", "a.b", "--x"], 5),
        (["profile", "-", "--x"], 2),
        (["profile", "--trace", "odd.py", "mlp"], 4),
        (["profile", "mlp", "--batch", "3"], 4),
        ([], 0),
    ):
        assert own_part(asked) == (asked[:own], asked[own:])


def test_a_script_becomes_a_page_that_needs_nothing_else(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, target = tmp_path / "report.html", tmp_path / "run.json"
    asked = ["profile", "--memory", "--html", str(html), "--json", str(target)]
    assert main([*asked, script, "--rate", "3"]) == 0
    said = capsys.readouterr().out
    assert "trained --rate 3" in said
    assert "optimizer step" in said
    page = BeautifulSoup(html.read_text("utf-8"), "html.parser")
    document = json.loads(target.read_text())
    assert sum(row["share"] for row in document["ops"]) == pytest.approx(1)
    # How often a busy machine lets it look at the lines, nobody knows.
    looked = {"functions": "Functions", "library_calls": "Calls into libraries"}
    parts = ["Lines", *(title for seen, title in looked.items() if document[seen])]
    parts += ["Threads"] * (len(document["threads"]) > 1) + ["What takes the most", "Operations", "Modules and regions"]
    parts += ["Flame graph", "Timeline", "Memory over time", "Roofline", "What each verdict calls for", "The machine"]
    assert [each.get_text() for each in page.select("h1, h2")] == [f"Profile of {script} --rate 3", *parts]
    names = ("src", "href", "xlink:href", "action")
    addresses = [str(each[name]) for each in page.select("*") for name in names if each.has_attr(name)]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert len(page.select("script")) == 1
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", html.read_text(encoding="utf-8"))


@pytest.mark.parametrize("asked", [False, True])
def test_an_option_that_was_given_is_not_recommended(
    asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.py").write_text(  # its second run, for its memory, runs another op
        "from pathlib import Path\nfrom tinytorch import Tensor\nmark, x = Path('mark'), Tensor([2.0])\n"
        "y = x + x if mark.exists() else x * x\nmark.touch()\n"
    )
    assert main(["profile", "--html", "odd.html", *["--memory"] * asked, "odd.py"]) == 0
    page = (tmp_path / "odd.html").read_text(encoding="utf-8")
    assert ("--memory" in page) == (not asked)
    assert ("not shown" in page) == asked


def test_a_scripts_exit_code_is_the_commands(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", script, "--fail"]) == 1
    assert "optimizer step" in capsys.readouterr().out


def test_the_readmes_command_for_the_books_own_model_works_as_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for line in "".join(blocks).splitlines() if re.match(r"tinytorch profile tinytorch/\S+\.onnx", line)]
    monkeypatch.chdir(ROOT)
    assert [main(line.split()[1:]) for line in lines] == [0]
    assert "conv2d" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such.py"], "no_such.py is no file"),
        (["--backward", "train.py"], "--backward is for a model, and train.py is a script"),
        (["--batch", "3", "train.py"], "--batch is for a model, and train.py is a script"),
        (["mlp", "--memory"], "--memory is for a script"),
        (["--seconds", "0", "train.py"], "--seconds must be above 0"),
        (["--seconds", "1", "mlp"], "--seconds is for a script"),
        ([], "WHAT must be"),
        (["-m", "no_such_module"], "no module"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *arguments]) == 2
    assert said in capsys.readouterr().err
