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


def test_a_failing_or_warning_page_fails_the_build_and_our_extension_is_loaded_behind_all_others() -> None:
    execute, sphinx = load("_config.yml")["execute"], load("_config.yml")["sphinx"]
    assert (execute["raise_on_error"], execute["allow_errors"], execute["stderr_output"]) == (True, False, "error")
    ((name, folder),) = sphinx["local_extensions"].items()
    assert (ROOT / folder / name / "__init__.py").is_file()
    assert sphinx["config"]["extensions"][-1] == name


def test_one_version_and_one_title_everywhere_and_no_address_of_the_repository_is_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation, config = load("CITATION.cff"), load("_config.yml")
    assert [citation[name] for name in ("version", "license")] == [project[name] for name in ("version", "license")]
    assert citation["title"] == config["title"]
    assert (ROOT / "README.md").read_text(encoding="utf-8").startswith(f"# {config['title']}\n")
    assert config["repository"] == {"url": ""}
    assert not {"urls", "repository-code", "url", "repository"} & (project.keys() | citation.keys())


def test_the_readme_states_no_measured_number() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition("<!-- pages: written by make format -->")
    _, _, after = rest.partition("<!-- end of pages -->")  # between them stands how long a page takes to read
    unit = r"(?:[nµm]?s|sec\w*|min\w*|[kKMGT]i?B|[kMGT]?FLOPs?(?:/s)?|%|×|x|times|percent)"
    assert re.findall(rf"\b\d[\d.,]*\s?{unit}(?!\w)", before + after) == []
