"""The book's settings, the jobs and GitHub agree; packages have one version; environments are made as asked."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema  # type: ignore[import-untyped]
from click.testing import CliRunner
from measured_book.sources.repository import Repository, binder_address
from notebook_lab import Lab
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sphinx_external_toc.parsing import parse_toc_yaml

from scripts import environment

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


LOCKS = ("requirements.lock", "requirements-peers.lock")
BINDER = "binder/requirements.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (("linux", "Linux"), ("darwin", "Darwin"))


def applies(requirement: Requirement, python: str, platform: tuple[str, str]) -> bool:
    """Return whether CPython of a version such as 3.11 on a platform, its ``sys_platform`` and system, installs it.

    Raises:
        KeyError: if the marker asks for a fact that is not stated here: the running Python's would be taken.
    """
    facts = {"python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython"}
    facts |= {"platform_python_implementation": "CPython", "sys_platform": platform[0], "platform_system": platform[1]}
    facts |= {"os_name": "posix", "extra": "", "platform_machine": {"Linux": "x86_64", "Darwin": "arm64"}[platform[1]]}
    if requirement.marker is None:
        return True
    for name in re.findall(r"[a-z_]+(?= (?:[<>=!~]|in |not in ))", re.sub(r'"[^"]*"', '""', str(requirement.marker))):
        facts[name]
    return requirement.marker.evaluate(facts)


@cache
def entries(lock: str) -> list[tuple[Requirement, frozenset[str]]]:
    """The requirements of a lock, each with its hashes."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    hashes = [frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", line)) for line in lines]
    return [(Requirement(line.split(" --hash=")[0]), found) for line, found in zip(lines, hashes, strict=True)]


PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def installed(lock: str, python: str, platform: tuple[str, str]) -> dict[str, tuple[str, frozenset[str]]]:
    """What a lock installs on a Python and a platform: versions and hashes by name; an error if one name has two."""
    versions: dict[str, tuple[str, frozenset[str]]] = {}
    for requirement, hashes in entries(lock):
        if applies(requirement, python, platform):
            name = canonicalize_name(requirement.name)
            assert name not in versions, f"{lock} gives {name} twice on Python {python}"
            versions[name] = str(requirement.specifier), hashes
    return versions


def assert_there(asked: list[str], versions: dict[str, tuple[str, frozenset[str]]]) -> None:
    for requirement in map(Requirement, asked):
        pinned = versions[canonicalize_name(requirement.name)][0].removeprefix("==")
        assert requirement.specifier.contains(pinned, prereleases=True), requirement


@pytest.mark.parametrize("lock", [*LOCKS, BINDER])
def test_every_entry_is_one_version_with_a_hash_and_names_no_place(lock: str) -> None:
    assert len(entries(lock)) > 20
    for requirement, hashes in entries(lock):
        assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes, requirement
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"https?://|file:|--find-links|index-url|(^|\s)/\w", text)
    assert text.splitlines()[1] == "#    make lock"


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_all_that_the_project_asks_for_is_there_and_peers_are_compared_with_the_same(
    python: str, platform: tuple[str, str]
) -> None:
    ours, theirs = (installed(lock, python, platform) for lock in LOCKS)
    needed = PROJECT["project"]["dependencies"]
    assert_there([*needed, *(line for extra in EXTRAS.values() for line in extra)], ours)
    assert_there([*needed, *PROJECT["dependency-groups"]["peers"]], theirs)
    common = ours.keys() & theirs.keys()
    assert {name: theirs[name][0] for name in common} == {name: ours[name][0] for name in common}


def test_torch_is_pinned_outside_the_lock_without_cuda_and_packages_of_node_have_hashes() -> None:
    (torch,) = map(Requirement, PROJECT["dependency-groups"]["torch"])
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", str(torch))
    names = [canonicalize_name(requirement.name) for lock in LOCKS for requirement, _ in entries(lock)]
    assert not [name for name in names if name == "torch" or name.startswith(("nvidia-", "triton", "cuda"))]
    packages = json.loads((ROOT / "book" / "_checks" / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)


def test_binder_has_packages_of_the_lock_as_far_as_chapters_and_notebooks_need_them() -> None:
    ours, theirs = (installed(lock, PYTHONS[0], PLATFORMS[0]) for lock in (LOCKS[0], BINDER))
    assert theirs == {name: ours.get(name) for name in theirs}, "run `make lock`"
    asked = [*PROJECT["project"]["dependencies"], *EXTRAS["notebook"], *EXTRAS["mpi"]]
    assert_there([*asked, *PROJECT["build-system"]["requires"]], theirs)
    assert not {"jupyter-book", "pytest", "playwright", "torch"} & theirs.keys()
    assert (ROOT / "binder" / "runtime.txt").read_text("ascii") == f"python-{PYTHONS[0]}\n"


def test_the_launch_button_leads_where_the_check_goes() -> None:
    address = binder_address(Repository("https://github.com/someone/book"), "book/machine.md")
    opened, _, path = address.partition("?urlpath=lab/tree/")
    assert opened == "https://mybinder.org/v2/gh/someone/book/HEAD"
    assert Lab("http://127.0.0.1:1", "secret").launch(path).startswith("http://127.0.0.1:1/lab/tree/book/machine.md?")
    assert (ROOT / path).is_file()


STEPS = 4  # venv, pip of the lock, pip of the package, pip check


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[dependency-groups]\nextra = ['torch==2.13.0']\n")
    (tmp_path / "a.lock").write_text("numpy==2.4.0\n")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    return tmp_path


def ensure(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: str | None = None,
    stop_at: int = -1,
    error: BaseException | None = None,
) -> list[tuple[str, ...]]:
    """Make the environment without what takes long, stop at a chosen step, and return the commands."""
    seen: list[tuple[str, ...]] = []
    stops = [stop_at]

    def run(*command: str | Path) -> None:
        if error is not None and [len(seen)] == stops:
            stops.clear()
            raise error
        seen.append(tuple(map(str, command)))
        if "venv" in seen[-1]:
            Path(command[-1]).mkdir()

    monkeypatch.setattr(environment, "run", run)
    environment.ensure(checkout / ".venv", checkout / "a.lock", group, "https://index.example" if group else None)
    return seen


MAC = {"system": "Darwin", "machine": "arm64", "libc_ver": ("", "")}


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (MAC | {"machine": "x86_64"}, "macOS on x86_64"),
        ({"system": "Windows", "machine": "AMD64"}, "Windows on AMD64"),
        ({"machine": "riscv64"}, "Linux on riscv64"),
        ({"libc_ver": ("glibc", "2.9.1")}, "Linux with glibc 2.9.1"),
        ({"libc_ver": ("musl", "1.2")}, "Linux with another C library than glibc (musl)"),
        ({"python": (3, 10, 13)}, "Python 3.10.13"),
        ({"python": (3, 15, 0)}, "Python 3.15.0"),
        ({"python_implementation": "PyPy"}, "PyPy"),
        ({"machine": "aarch64", "libc_ver": ("glibc", "2.28"), "python": (3, 14, 2)}, None),
        ({"libc_ver": ("glibc", "3.0")}, None),
        (MAC | {"python": (3, 13, 0)}, None),
    ],
)
def test_what_the_lock_has_no_packages_for_is_told(
    monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any], said: str | None
) -> None:
    of = {"system": "Linux", "machine": "x86_64", "libc_ver": ("glibc", "2.36"), "python": (3, 11, 7)} | machine
    of = {"python_implementation": "CPython", "python_version": ".".join(map(str, of["python"]))} | of
    monkeypatch.setattr(environment, "platform", SimpleNamespace(**{name: lambda name=name: of[name] for name in of}))
    implementation = SimpleNamespace(name=of["python_implementation"].lower())
    known = SimpleNamespace(version_info=of["python"], implementation=implementation, maxsize=sys.maxsize)
    monkeypatch.setattr(environment, "sys", known)
    assert environment.unsupported() == said


def test_the_pythons_are_those_that_the_lock_is_tested_for() -> None:
    assert tuple(".".join(map(str, version)) for version in environment.PYTHONS) == (PYTHONS[0], PYTHONS[-1])
    for text in (environment.SUPPORTED, (ROOT / "README.md").read_text("utf-8")):
        assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in text
        assert f"glibc {'.'.join(map(str, environment.GLIBC))} or newer" in text


def test_a_python_that_is_too_old_is_told_so_in_one_line(tmp_path: Path) -> None:
    """Python 3.10 and older have no tomllib, which this one is not to find either."""
    code = "import runpy, sys; sys.version_info = (3, 10, 0); sys.modules['tomllib'] = None; "
    code += "sys.argv = ['environment.py', 'make', sys.argv[1], 'no.lock']; "
    code += f"runpy.run_path({environment.__file__!r}, run_name='__main__')"
    command = [sys.executable, "-c", code, str(tmp_path / "venv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not (tmp_path / "venv").exists()
    assert re.fullmatch(r"no\.lock has no packages for Python 3\.\S+: [^\n]+\n", done.stderr)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), subprocess.CalledProcessError(1, "pip")])
@pytest.mark.parametrize("step", range(STEPS))
def test_work_that_stopped_half_way_is_begun_anew(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException
) -> None:
    ensure(checkout, monkeypatch)
    (checkout / "a.lock").write_text("numpy==2.5.0\n")
    with pytest.raises(type(error)):
        ensure(checkout, monkeypatch, stop_at=step, error=error)
    left_over = checkout / ".venv" / "left-over"
    left_over.parent.mkdir(exist_ok=True)
    left_over.touch()
    assert len(ensure(checkout, monkeypatch)) == STEPS
    assert not left_over.exists()


def test_a_change_of_what_it_was_made_from_makes_it_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch)
    for file in ("pyproject.toml", "a.lock"):
        (checkout / file).write_text((checkout / file).read_text() + "# one line more\n")
        assert len(ensure(checkout, monkeypatch)) == STEPS, file
    monkeypatch.setattr(sys, "version", sys.version + " (another build)")
    assert len(ensure(checkout, monkeypatch)) == STEPS
    assert ensure(checkout, monkeypatch) == []


UV = "uv==0.13.8 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"


@pytest.mark.parametrize("fails", [False, True])
def test_uv_installs_the_lock_or_pip_where_uv_fails_and_a_group_comes_from_its_index(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    (checkout / "a.lock").write_text(f"numpy==2.4.0 \\\n    --hash=sha256:aa\n{UV}    # via us\n")
    error = subprocess.CalledProcessError(2, "uv")
    commands = ensure(checkout, monkeypatch, group="extra", stop_at=2 if fails else -1, error=error)
    by_pip, rest, group = commands[1:4]
    assert Path(by_pip[-1]).read_text() == UV
    assert (Path(rest[0]).name, rest[-1]) == ("python" if fails else "uv", str(checkout / "a.lock"))
    assert all("--require-hashes" in command for command in (by_pip, rest))
    assert "--no-deps" in group
    assert group[-3:] == ("--index-url", "https://index.example", "torch==2.13.0")


def test_an_environment_may_lie_behind_a_link_that_leads_to_nothing_else(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = checkout / "elsewhere"
    (checkout / ".venv").symlink_to(elsewhere)
    for _ in range(2):  # made where nothing is, and made anew
        ensure(checkout, monkeypatch)
        assert environment.is_made(elsewhere, environment.fingerprint(checkout / "a.lock", ["", ""]))
        (elsewhere / "pyvenv.cfg").touch()
        (elsewhere / environment.STAMP).unlink()
    (elsewhere / "pyvenv.cfg").rename(elsewhere / "a-book")
    with pytest.raises(RuntimeError, match="environment"):
        ensure(checkout, monkeypatch)
    assert (elsewhere / "a-book").exists()


def test_a_set_up_that_fails_says_so_and_leaves_no_stamp(tmp_path: Path) -> None:
    """No pip is there for the second step, and the first does without what takes longest."""
    (tmp_path / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "scripts/environment.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    script = tmp_path / "scripts" / "environment.py"
    code = script.read_text("utf-8")
    script.write_text(code.replace('"-m", "venv",', '"-m", "venv", "--without-pip",'), "utf-8")
    settings = {**os.environ, "PYTHON": sys.executable}
    command = ["make", "environment"]
    made = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert made.returncode != 0
    assert re.search(r"\.venv could not be made: `\S+python -m pip install .*` failed\.", made.stderr)
    assert "Traceback" not in made.stderr
    assert (tmp_path / ".venv" / "pyvenv.cfg").exists()
    assert not (tmp_path / ".venv" / environment.STAMP).exists()


def test_only_what_is_on_the_list_reaches_a_job(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('reached')")
    odd = {"PYTHONPATH": str(tmp_path), "PYTHONOPTIMIZE": "2", "PIP_USER": "1", "TINYTORCH_CPU": "z80"}
    kept = {"PATH": "/bin", "PIP_INDEX_URL": "https://index.example", "LC_TIME": "C", "TINYTORCH_PEERS": "python"}
    code = "import json, os, sys; print(json.dumps([dict(os.environ), sys.flags.optimize]))"
    command = [sys.executable, "-I", environment.__file__, "run", "A=b=c", "-c", code]
    said = subprocess.run(command, env=odd | kept, capture_output=True, text=True, check=True).stdout
    variables, optimize = json.loads(said)
    variables.pop("LC_CTYPE", None)  # which Python sets by itself where there is no locale
    assert (variables, optimize) == (kept | {"A": "b=c"}, 0)
