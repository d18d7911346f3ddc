"""Which scripts `make bench` runs."""

from __future__ import annotations

from pathlib import Path

from scripts.run_benchmarks import find_benchmarks


def test_each_script_is_run_once_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name in ("training.py", "forward.py", "notes.md"):
        (folder / name).write_text('if __name__ == "__main__":\n    main()\n')
    (folder / "shared.py").write_text("LIMIT = 1\n")
    assert find_benchmarks(tmp_path) == ["benchmarks.forward", "benchmarks.training"]
    assert find_benchmarks(tmp_path / "elsewhere") == []
