"""The page made by Jinja2: it needs nothing else, asks for nothing, runs no script but its own, and shows of a log only
text."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from logdiag.report.words import clean

_FOLDER = Path(__file__).parent


def page_by(**values: object) -> str:
    """The page made of `page.html`, `page.css` and `page.js`. Values are escaped and cut; its policy lets only its own
    style and script in."""
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    own = {"style": style, "script": script, "style_hash": _hash(style), "script_hash": _hash(script)}
    marked = {name: Markup(part) for name, part in own.items()}  # the package's own files
    return _environment().get_template("page.html").render(**marked, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=lambda value: value or "" if value is None or isinstance(value, Markup) else clean(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "cut": lambda text, most: Markup(escape(clean(text, most))),
        "figure": lambda number: "" if number is None else f"{number:,}",
        "percent": lambda share: f"{share:.0%}",
    }
    return environment


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
