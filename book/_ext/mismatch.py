"""How a reader reports a number that another machine does not confirm: an issue or a letter, the card filled in."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from page_card import card_text
from record_store import PageRecords

#: Where the hosts take a new issue, and what they call its title and its text.
_NEW_ISSUE = {
    "github": ("/issues/new", "title", "body"),
    "gitlab": ("/-/issues/new", "issue[title]", "issue[description]"),
}
#: Longer addresses are refused by servers.
_LONGEST_ADDRESS = 8000
_QUESTIONS = (
    "The number, and the sentence or table it stands in:\n\n"
    "What I found instead, and how (python -m tinytorch machine describes a machine):\n\n"
)


def mismatch_text(title: str, docname: str, page: PageRecords | None) -> str:
    """Return what a report begins with: questions to the reader, and the machine that the page was measured on."""
    head = f"Page: {title} ({docname})\n\n{_QUESTIONS}"
    return head + (f"How the page was measured\n\n{card_text(page)}\n" if page is not None else "")


def issue_address(options: Mapping[str, Any], title: str, text: str) -> str | None:
    """Return where a new issue with this title and text is opened; None without a repository that takes issues.

    Args:
        options: of the theme, with ``repository_url`` and ``repository_provider``.
        title: of the issue.
        text: its body; left out where the address would be too long for a server.
    """
    url, provider = options.get("repository_url"), options.get("repository_provider")
    if not url or provider not in _NEW_ISSUE:
        return None
    path, title_name, text_name = _NEW_ISSUE[provider]
    full = f"{url}{path}?" + urlencode({title_name: title, text_name: text}, quote_via=quote)
    return full if len(full) <= _LONGEST_ADDRESS else f"{url}{path}?" + urlencode({title_name: title}, quote_via=quote)


def mismatch_html(options: Mapping[str, Any], title: str, docname: str, page: PageRecords | None) -> str:
    """Return a link to a new issue, or where nobody takes issues a folded text to copy."""
    text = mismatch_text(title, docname, page)
    address = issue_address(options, f"Mismatch: {title}", text)
    if address is not None:
        return f'<a class="page-mismatch" href="{escape(address)}" rel="nofollow">Report a mismatch</a>'
    return (
        '<details class="page-menu page-mismatch"><summary>Report a mismatch</summary>\n'
        "<p>Fill this in and send it to whoever gave you this book.</p>\n"
        f'<pre tabindex="0" aria-label="Text of a report">{escape(text)}</pre>\n</details>'
    )
