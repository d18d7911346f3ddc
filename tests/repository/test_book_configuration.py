"""The book's settings, its list of pages and its files agree with each other and with Jupyter Book."""

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from jupyter_book.config import get_validator
from sphinx_external_toc.parsing import parse_toc_yaml

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return loaded


def test_jupyter_book_accepts_the_configuration() -> None:
    errors: list[jsonschema.ValidationError] = list(get_validator().iter_errors(load("_config.yml")))
    assert errors == []


def test_the_list_of_pages_and_the_pages_are_the_same() -> None:
    listed = set(parse_toc_yaml(ROOT / "_toc.yml"))
    pages = {file.relative_to(ROOT / "book").with_suffix("").as_posix() for file in (ROOT / "book").rglob("*.md")}
    pages = {page for page in pages if not page.startswith("_")}  # a folder of the book's machinery
    assert {page.removesuffix(".md") for page in listed} == pages


def test_a_failing_or_warning_page_fails_the_build() -> None:
    execute = load("_config.yml")["execute"]
    assert execute["raise_on_error"] is True
    assert execute["allow_errors"] is False
    assert execute["stderr_output"] == "error"


def test_our_extension_is_there_and_loaded_behind_all_others() -> None:
    sphinx = load("_config.yml")["sphinx"]
    ((name, folder),) = sphinx["local_extensions"].items()
    assert (ROOT / folder / name / "__init__.py").is_file()
    assert sphinx["config"]["extensions"][-1] == name


def test_no_address_of_the_repository_is_typed() -> None:
    assert load("_config.yml")["repository"] == {"url": ""}
    assert "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not {"repository-code", "url", "repository"} & load("CITATION.cff").keys()


def test_one_version_and_one_title_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation, title = load("CITATION.cff"), load("_config.yml")["title"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert citation["title"] == title
    assert (ROOT / "README.md").read_text(encoding="utf-8").startswith(f"# {title}\n")


def test_the_readme_states_no_measured_number() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    unit = r"(?:[nµm]?s|sec\w*|min\w*|[kKMGT]i?B|[kMGT]?FLOPs?(?:/s)?|%|×|x|times|percent)"
    assert re.findall(rf"\b\d[\d.,]*\s?{unit}(?!\w)", text) == []
