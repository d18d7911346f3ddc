"""The site's address comes from the environment alone, and one that is no web address stops the build."""

from __future__ import annotations

import pytest
from site_address import site_address
from sphinx.errors import ConfigError


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, None),
        ({"TINYTORCH_SITE_URL": "  "}, None),
        ({"TINYTORCH_SITE_URL": "https://example.org/book"}, "https://example.org/book/"),
        ({"GITHUB_REPOSITORY": "Owner/Name"}, "https://owner.github.io/Name/"),
        ({"GITHUB_REPOSITORY": "owner/Owner.github.io"}, "https://owner.github.io/"),
        ({"GITHUB_REPOSITORY": "o/n", "GITHUB_SERVER_URL": "https://git.example.org"}, None),
        ({"GITHUB_REPOSITORY": "o/n", "TINYTORCH_SITE_URL": "http://example.org/"}, "http://example.org/"),
        ({"GITHUB_REPOSITORY": "no slash"}, None),
    ],
)
def test_where_the_site_is(environment: dict[str, str], address: str | None) -> None:
    assert site_address(environment) == address


@pytest.mark.parametrize(
    "given", ["example.org", "ftp://example.org/", "https://", "https://example.org/?a", "https://a/#b"]
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="TINYTORCH_SITE_URL must be the address of the site's root"):
        site_address({"TINYTORCH_SITE_URL": given})
