"""Files that are written whole: links, pipes and permissions stay what they are."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tinytorch.perf.measuring.atomic_io import write_whole


def test_a_link_stays_one_and_its_target_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    real, link = tmp_path / "shared" / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("shared/real.json")
    write_whole(link, "new")
    assert (link.is_symlink(), real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (True, "new", 0o640)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link.json", "real.json", "shared"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        write_whole(tmp_path / "pipe", "text")
        assert reader.communicate()[0] == "text"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="the system has no /dev/stdout")
def test_the_standard_output_is_written_to_where_it_stands(tmp_path: Path) -> None:
    code = "import sys; from tinytorch.perf.measuring.atomic_io import write_whole\n"
    code += "print('before'); write_whole('/dev/stdout', 'text\\n'); print('behind')"
    with open(tmp_path / "out", "w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "before\ntext\nbehind\n"


def test_what_utf_8_does_not_have_is_escaped(tmp_path: Path) -> None:
    assert write_whole(tmp_path / "odd", "a \udce9 é").read_text(encoding="utf-8") == "a \\udce9 é"
