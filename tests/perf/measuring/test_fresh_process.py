"""What a fresh process answers, and what is told of one that fails."""

from pathlib import Path

import pytest

from tinytorch.perf.measuring.processes import answer_of


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Return the folder of a module ``echo`` that does what it is asked."""
    (tmp_path / "echo.py").write_text(
        "import json, os, sys\n"
        "asked = json.loads(sys.stdin.read())\n"
        "if asked == 'die': os.kill(os.getpid(), 11)\n"
        "if asked == 'raise': raise ValueError('no reason')\n"
        "if asked == 'leave': sys.exit(3)\n"
        "print('noise'); print(json.dumps({'asked': asked}))\n"
    )
    return tmp_path


def test_it_answers_in_json_whatever_it_printed_before(module: Path) -> None:
    assert answer_of("echo", {"ä": [1, None]}, module)["asked"] == {"ä": [1, None]}


@pytest.mark.parametrize(
    ("asked", "told"),
    [("die", "a fresh process died of SIGSEGV"), ("raise", "ValueError: no reason"), ("leave", "exit code 3")],
)
def test_one_that_fails_says_why(asked: str, told: str, module: Path) -> None:
    with pytest.raises(RuntimeError, match=told):
        answer_of("echo", asked, module)
