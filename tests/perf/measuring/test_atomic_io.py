"""Files that are written whole: links, pipes and permissions stay what they are, and values come back."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinytorch.perf.measuring.atomic_io import read_arrays, read_values, write_arrays, write_values, write_whole


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


def test_arrays_come_back_by_any_name_and_what_would_be_pickled_leaves_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "arrays"
    arrays: dict[str, np.ndarray] = {"file": np.arange(3), "a/b": np.ones((2, 1), np.float32)}
    write_arrays(path, arrays)
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_arrays(path, {"file": np.array([None])})
    assert [*tmp_path.iterdir()] == [path], "nothing is left aside"
    back = read_arrays(path)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype
    path.write_text("no arrays")
    with pytest.raises(ValueError, match="holds no arrays that were written whole"):
        read_arrays(path)
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none")


def test_values_come_back_as_arrays_and_json_and_what_is_neither_is_refused_unwritten(tmp_path: Path) -> None:
    path = tmp_path / "values"
    with pytest.raises(TypeError, match=r"values must be arrays or what JSON can hold, but .* set"):
        write_values(path, {"array": np.ones(2), "set": {1, 2}})
    assert [*tmp_path.iterdir()] == []
    write_values(path, {"array": np.arange(4.0), "text": "ä", "nested": {"a": [1, None, 0.5]}, "file": True})
    back = read_values(path)
    np.testing.assert_array_equal(back.pop("array"), np.arange(4.0))
    assert back == {"text": "ä", "nested": {"a": [1, None, 0.5]}, "file": True}
    assert [*tmp_path.iterdir()] == [path]
