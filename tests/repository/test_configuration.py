"""The book's settings, the jobs that people are told about, and what GitHub runs agree with each other."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema  # type: ignore[import-untyped]
from click.testing import CliRunner
from sphinx_external_toc.parsing import parse_toc_yaml

from tests.repository.test_locks import PYTHONS

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: Each schema with the files that follow it.
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


def load(name: str) -> dict[str, Any]:
    # BaseLoader, because YAML 1.1 reads the key `on` of a workflow as a truth value.
    loaded: dict[str, Any] = yaml.load((ROOT / name).read_text("utf-8"), Loader=yaml.BaseLoader)
    return loaded


def test_all_pages_are_listed_and_one_that_fails_or_warns_fails_the_build() -> None:
    pages = {file.relative_to(ROOT / "book").with_suffix("").as_posix() for file in (ROOT / "book").rglob("*.md")}
    listed = {page.removesuffix(".md") for page in parse_toc_yaml(ROOT / "_toc.yml")}
    assert listed == {page for page in pages if not page.startswith("_")}  # folders of the book's machinery
    execute, sphinx = load("_config.yml")["execute"], load("_config.yml")["sphinx"]
    assert (execute["raise_on_error"], execute["allow_errors"], execute["stderr_output"]) == ("true", "false", "error")
    assert [sphinx["config"]["extensions"][-1]] == [*sphinx["local_extensions"]], "ours comes behind all others"


def test_one_version_and_one_title_everywhere_and_neither_address_nor_measured_number_is_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation, config, text = load("CITATION.cff"), load("_config.yml"), (ROOT / "README.md").read_text("utf-8")
    assert [citation[name] for name in ("version", "license")] == [project[name] for name in ("version", "license")]
    assert citation["title"] == config["title"]
    assert text.startswith(f"# {config['title']}\n")
    assert config["repository"] == {"url": ""}
    assert not {"urls", "repository-code", "url", "repository"} & (project.keys() | citation.keys())
    table = re.compile(r"<!-- pages: written by make format -->.*<!-- end of pages -->", re.DOTALL)
    unit = r"(?:[nµm]?s|sec\w*|min\w*|[kKMGT]i?B|[kMGT]?FLOPs?(?:/s)?|%|×|x|times|percent)"
    assert re.findall(rf"\b\d[\d.,]*\s?{unit}(?!\w)", table.sub("", text)) == []  # there stands how long one reads


def make(*arguments: str, path: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    # Without what an outer `make test` hands down to the makes inside it.
    handed_down = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in handed_down}
    environment |= variables | ({"PYTHON": sys.executable} if path is None else {"PATH": path})
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_plain_make_lists_every_job_that_the_documents_name() -> None:
    jobs = set(re.findall(r"^  make ([a-z-]+) +\S", make().stdout, re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text("utf-8")
        code = re.findall(r"```bash\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text)
        named = set(re.findall(r"\bmake (?:[A-Z_]+=\S+ )*([a-z-]+)", "\n".join(code)))
        assert {"book", "test"} <= named <= jobs, document


@pytest.mark.parametrize("job", ["book", "test", "live", "check", "check-site", "check-notebooks"])
def test_settings_count_from_the_command_line_alone(job: str) -> None:
    exported = {"CPU": "x86_64", "PAGES": "none", "TESTS": "none", "PORT": "tcp://1", "PEERS": "yes", "OUTCOME": "odd"}
    assert make("--dry-run", job, **exported).stdout == make("--dry-run", job).stdout
    assert make("--dry-run", "chapter", NAME="my-computer").returncode != 0


def test_without_a_new_enough_python_there_is_one_clear_sentence(tmp_path: Path) -> None:
    for name in ("python3", *(f"python{version}" for version in PYTHONS)):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    tried = make("peers", path=f"{tmp_path}:/usr/bin:/bin")
    assert (tried.returncode != 0, len(tried.stderr.strip().splitlines())) == (True, 1)
    assert f"needs Python {PYTHONS[0]} to {PYTHONS[-1]} and found none" in tried.stderr


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_their_schemas(schema: str) -> None:
    run = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, *map(str, SCHEMAS[schema])])
    assert run.exit_code == 0, run.output


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit_and_only_publishing_what_was_checked_may_write(file: Path) -> None:
    for line in re.findall(r"^.*\buses:.*$", file.read_text("utf-8"), re.MULTILINE):
        assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line
    workflow = load(f".github/workflows/{file.name}")
    assert workflow["permissions"] == {"contents": "read"}
    writers = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert writers == ({"publish": {"pages": "write", "id-token": "write"}} if file.name == "book.yml" else {})
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] == "false"
    for publish in (workflow["jobs"][name] for name in writers):
        assert publish["if"] == "github.ref == 'refs/heads/main'"
        assert not [step for step in publish["steps"] if "run" in step], "what may write runs no code of a change"
        assert set(publish["needs"]) == workflow["jobs"].keys() - writers.keys()
        assert [step["run"] for step in workflow["jobs"]["book"]["steps"] if "run" in step] == [".ci/run PEERS=1"]


def test_the_whole_check_runs_every_step_and_stops_at_the_first_failure(tmp_path: Path) -> None:
    does = {"make": 'echo "made $1 ${2:-}"\n[ "$1" != "$FAILS" ]', "grep": "false"}  # on a CPU without AVX2
    for name in ("chromium", "node", "npm", *does):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does.get(name, '')}\n")
        (tmp_path / name).chmod(0o755)
    steps = ["environment", "test", "lint", "book PEERS=1", "check-site", "check-readme"]
    for place, fails in enumerate(["environment", "test", "lint", "book", "check-site", "check-readme"]):
        settings = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "FAILS": fails, "CHROMIUM": ""}
        command = ["bash", str(ROOT / ".ci" / "run"), "PEERS=1"]
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
        said = [line.strip() for line in re.findall(r"^made (.+)$", done.stdout, re.MULTILINE)]
        assert done.returncode == 1
        assert said == (steps[:2] if fails == "test" else steps[: place + 1])
