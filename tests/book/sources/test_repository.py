"""The repository's address, without what nobody should read; and fenced parts of MyST."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_book.sources import repository
from measured_book.sources.myst import fences

GITHUB = repository.Repository("https://github.com/owner/name")


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("https://github.com/owner/name", GITHUB.url),
        ("https://github.com/owner/name.git", GITHUB.url),
        ("https://GitHub.com/owner/name.git\n", GITHUB.url),
        ("git@github.com:owner/name.git", GITHUB.url),
        ("ssh://git@github.com/owner/name.git", GITHUB.url),
        ("git@github.com:owner/na.me-_1.git", "https://github.com/owner/na.me-_1"),
        ("http://github.example.org/owner/name", "http://github.example.org/owner/name"),
        ("https://github.example.org:8443/o/n.git", "https://github.example.org:8443/o/n"),
        ("ssh://git@github.example.org:2222/o/n.git", "https://github.example.org/o/n"),
        ("https://gitlab.com/group/name", None),
        ("", None),
        ("/srv/git/github.com/name.git", None),
        ("file:///srv/github/owner/name", None),
        ("C:\\code\\github\\name", None),
        ("https://git.example.org/owner/name.git", None),
        ("https://notgithub.com/owner/name", None),
        ("https://github.com.evil.example:80x/owner/name", None),
        ("https://github.com/", None),
        ("https://github.com/owner/<script>", None),
    ],
)
def test_every_form_of_a_remote_is_an_address_that_a_reader_can_open_or_none(remote: str, url: str | None) -> None:
    found = repository.parse_remote(remote)
    assert (found and found.url) == url


@given(
    user=st.text("abcXYZ019_-", min_size=1),
    secret=st.text("abcXYZ019_-%", min_size=1),
    names=st.lists(st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True), min_size=2, max_size=2),
)
def test_no_credential_reaches_a_page(user: str, secret: str, names: list[str]) -> None:
    found = repository.parse_remote(f"https://{user}:{secret}@github.com/{'/'.join(names)}.git")
    assert found == repository.Repository(f"https://github.com/{'/'.join(names)}")


@pytest.mark.parametrize(
    ("name", "server", "url"),
    [
        ("owner/name", "https://github.com", GITHUB.url),
        ("owner/name", "https://code.example.org/", "https://code.example.org/owner/name"),
        *((name, "https://github.com", None) for name in ("", "name", "owner/name/more", "owner/na me", 'owner/"')),
    ],
)
def test_github_names_its_repository_itself(tmp_path: Path, name: str, server: str, url: str | None) -> None:
    found = repository.find({"GITHUB_REPOSITORY": name, "GITHUB_SERVER_URL": server}, tmp_path)
    assert found == (repository.Repository(url) if url else None)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_the_remote_named_origin_of_the_folder_itself_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "remote", "add", "upstream", "https://github.com/other/other.git")
    assert repository.find({}, tmp_path) is None
    git(tmp_path, "remote", "add", "origin", "git@github.com:owner/name.git")
    assert repository.find({}, tmp_path) == GITHUB
    (tmp_path / "copy").mkdir()
    assert repository.find({}, tmp_path / "copy") is None


def test_a_page_links_to_its_source_and_one_with_cells_to_binder() -> None:
    source = "https://github.com/owner/name/blob/HEAD/book/page.md?plain=1"
    links = [("Source", source), ("Edit", "https://github.com/owner/name/edit/HEAD/book/page.md")]
    assert repository.launches(GITHUB, "page.md", runs=False) == links
    assert repository.launches(GITHUB, "page.md", runs=True)[1:] == links


def test_a_build_is_called_by_version_and_commit(tmp_path: Path) -> None:
    assert repository.edition(tmp_path) == ""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2"\n', "utf-8")
    assert repository.edition(tmp_path) == "Version 1.2"
    git(tmp_path, "init")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--allow-empty", "-m", "a")
    assert re.fullmatch(r"Version 1\.2, built from commit [0-9a-f]{7,} of \d\d \w+ \d{4}", repository.edition(tmp_path))


def test_a_host_that_binder_has_no_short_name_for_is_given_in_full() -> None:
    other = repository.Repository("https://github.a.org/o/n")
    address = repository.launches(other, "a.md", runs=True)[0][1]
    assert address == "https://mybinder.org/v2/git/https%3A%2F%2Fgithub.a.org%2Fo%2Fn/HEAD?urlpath=lab/tree/book/a.md"


BOOK = Path(__file__).resolve().parents[3] / "book"


@pytest.mark.parametrize("page", sorted(BOOK.glob("*.md")), ids=lambda path: path.stem)
def test_bodies_are_the_lines_that_they_are_said_to_be(page: Path) -> None:
    text = page.read_text("utf-8")
    lines = text.splitlines()
    for fence in fences(text):
        assert lines[fence.first].startswith(("```", ":::"))
        assert lines[fence.body_first : fence.end - 1] == fence.body


def test_a_directive_is_taken_apart_and_what_lies_in_it_is_its_body() -> None:
    text = "Text.\n\n::::{predict} key\n:choices: a | b\n:label: c\n\nWhich?\n```{note}\n```\n::::\n"
    (fence,) = fences(text)
    assert (fence.name, fence.argument, fence.options) == ("predict", "key", {"choices": "a | b", "label": "c"})
    assert (fence.first, fence.end, fence.is_prose) == (2, 10, True)
    assert fence.body == ["", "Which?", "```{note}", "```"]


def test_options_in_yaml_are_no_body_and_code_has_no_options() -> None:
    cell, code = fences("```{code-cell} python3\n---\ntags: [check]\n---\nx = 1\n```\n\n```python\n:a: b\n```\n")
    assert (cell.options, cell.body, cell.body_first) == ({"yaml": "tags: [check]"}, ["x = 1"], 4)
    assert (code.name, code.argument, code.body, code.options) == ("", "python", [":a: b"], {})


def test_what_only_looks_like_a_fence_is_none() -> None:
    assert list(fences("`` ```{note} ``\n\n    ```{note}\n    ```\n")) == []
