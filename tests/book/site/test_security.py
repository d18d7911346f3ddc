"""What the pages' policy forbids is found in a page, and what it allows is left alone."""

import pytest
from measured_book.site.security import POLICY, inline_parts


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ('<p class="a" style="color: red">x</p>', "style attribute"),
        ("<svg><style>a{}</style></svg>", "style element"),
        ("<script>alert(1)</script>", "inline script"),
        ('<button type="button" onclick="f()">x</button>', "event handler"),
        ("<a href='javascript:f()'>x</a>", "script in a link"),
    ],
)
def test_each_forbidden_part_is_named(html: str, name: str) -> None:
    assert [part.partition(":")[0] for part in inline_parts(f"<p>before</p>{html}")] == [name]


@pytest.mark.parametrize(
    "html",
    [
        '<script src="_static/tables.js" defer></script>',
        "<code>&lt;p style=&quot;color: red&quot; onclick=&quot;f()&quot;&gt;</code>",
        "<p>A style = a rule; once on = 1.</p>",
        '<path fill="none" stroke-width="2"/>',
        '<p data-style="x" class="onclick">x</p>',
    ],
)
def test_other_html_passes(html: str) -> None:
    assert list(inline_parts(html)) == []


def test_the_policy_names_no_host_and_allows_nothing_inline() -> None:
    sources = {word for part in POLICY.split("; ") for word in part.split()[1:]}
    assert sources == {"'none'", "'self'", "data:"}
    assert POLICY.startswith("default-src 'none'")
