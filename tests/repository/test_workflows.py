"""What GitHub runs is valid, is what anybody can run here, is pinned, and may do no more than it must."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema  # type: ignore[import-untyped]
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


#: Each schema with the files that follow it.
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_their_schemas(schema: str) -> None:
    assert SCHEMAS[schema]
    run = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, *map(str, SCHEMAS[schema])])
    assert run.exit_code == 0, run.output


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit_with_their_version_and_only_publishing_may_write(file: Path) -> None:
    uses = re.findall(r"^.*\buses:.*$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert uses
    for line in uses:
        assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line
    # BaseLoader, because YAML 1.1 reads the key `on` as a truth value.
    workflow: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    assert workflow["permissions"] == {"contents": "read"}
    writers = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert writers == ({"publish": {"pages": "write", "id-token": "write"}} if file.name == "book.yml" else {})
    for publish in (workflow["jobs"][name] for name in writers):
        assert publish["if"] == "github.ref == 'refs/heads/main'"
        assert not [step for step in publish["steps"] if "run" in step], "what may write runs no code of a change"
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] == "false"


def test_the_published_site_is_the_checked_one() -> None:
    workflow = yaml.load((ROOT / ".github" / "workflows" / "book.yml").read_text("utf-8"), Loader=yaml.BaseLoader)
    jobs: dict[str, Any] = workflow["jobs"]
    steps = jobs["book"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run PEERS=1"]
    uploads = [step["with"]["path"] for step in steps if "upload" in step.get("uses", "")]
    assert uploads == ["_build/html", "_build/html"]
    publishing = [name for name, job in jobs.items() if "upload-pages-artifact" in str(job)]
    assert publishing == ["book"]
    assert set(jobs["publish"]["needs"]) == jobs.keys() - {"publish"}


def test_the_whole_check_runs_every_step_and_stops_at_the_first_failure(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / "bin").mkdir()
    script = tmp_path / ".ci" / "run"
    script.write_bytes((ROOT / ".ci" / "run").read_bytes())
    made = {
        **dict.fromkeys(("chromium", "node", "npm"), ""),
        "make": 'echo "made $1 ${2:-}"\n[ "$1" != "$FAILS" ]',
        "grep": '[ "$AVX2" = yes ]',
        "taskset": 'if [ "$2" = --pid ]; then echo "pid 1\'s current affinity list: 3,5-7"; exit; fi\n'
        '[ "$2" = 3 ] && shift 2 && exec "$@"',
    }
    for name, does in made.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def run(fails: str, avx2: str = "yes") -> tuple[int, list[str]]:
        settings = {**os.environ, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "FAILS": fails, "AVX2": avx2}
        settings.pop("CHROMIUM", None)
        done = subprocess.run(
            ["bash", str(script), "PEERS=1"], env=settings, capture_output=True, text=True, check=False
        )
        return done.returncode, [said.strip() for said in re.findall(r"^made (.+)$", done.stdout, re.MULTILINE)]

    # Lint and the older CPU's pages run beside the tests, and what they said is shown after them.
    tests = ["environment", "test", "test CPU=avx2"]
    checked = [*tests, "lint", "book CPU=avx2"]
    last = ["book PEERS=1", "check-site", "check-readme"]
    assert run("") == (0, [*checked, *last])
    assert run("", avx2="no") == (0, ["environment", "test", "lint", *last])
    assert run("environment") == (1, ["environment"])
    assert run("test") == (1, ["environment", "test"])
    assert run("lint") == (1, [*tests, "lint"])
    assert run("book") == (1, checked)
    assert run("check-site") == (1, [*checked, *last[:2]])
    assert run("check-readme") == (1, [*checked, *last])
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
