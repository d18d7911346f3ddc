"""Page of HTML that stands alone: a report that needs no other file and asks no other host for anything."""

from __future__ import annotations

from html import escape

from tinytorch.report.colors import HUES

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 88rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
.measured-table { overflow-x: auto; overflow-wrap: normal; } table { border-collapse: collapse; }
caption { text-align: left; padding-bottom: .5rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #8888; text-align: left; vertical-align: top; }
tbody th { white-space: nowrap; } td:not(.numeric) { min-width: 7rem; }
.numeric { text-align: right; font-variant-numeric: tabular-nums; }
td.numeric { white-space: nowrap; } #table-model td, #table-beside td { overflow-wrap: anywhere; }
.spread, .unit { opacity: .75; }
figure { margin: 1rem 0; max-width: 44rem; } figure > svg { width: 100%; height: auto; }
figure > svg.narrow { display: none; }
@media (max-width: 40rem) {
tbody th { white-space: normal; } figure > svg.wide { display: none; } figure > svg.narrow { display: block; }
:is(th, td):first-child { position: sticky; left: 0; max-width: 38vw; background: Canvas; } }
"""
#: The colours of drawings on a dark page.
_DARK = "@media screen and (prefers-color-scheme: dark) {{\n{}\n}}\n".format(
    "\n".join(
        f'figure [style*="{what}: {light}"] {{ {what}: {dark} !important }}'
        for light, dark in HUES.values()
        for what in ("fill", "stroke")
    )
)


def standalone_page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Return a whole page of HTML around ``body``, with the ``style`` and the classic ``script`` of its parts in it."""
    allowed = "default-src 'none'; style-src 'unsafe-inline'" + ("; script-src 'unsafe-inline'" if script else "")
    runs = f"\n<script>{script}</script>" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{_DARK}{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main>{runs}\n</body>\n</html>\n"
    )
