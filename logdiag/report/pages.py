"""Pages made by Jinja2 that need nothing else: no request, no script but their own, nothing from a log but text."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from logdiag.report.words import clean

_LONGEST = 400


def page_by(folder: Path, longest: int = _LONGEST, /, **values: object) -> str:
    """The page made of `page.html`, `page.css` and `page.js` (if there is one) of a folder. Values are escaped and cut
    at `longest` characters; its policy lets only its own style and script in."""
    own = {name: folder / f"page.{ending}" for name, ending in (("style", "css"), ("script", "js"))}
    parts = {name: file.read_text(encoding="utf-8") if file.exists() else "" for name, file in own.items()}
    hashes = {f"{name}_hash": Markup(_hash(part)) for name, part in parts.items()}
    marked = {name: Markup(part) for name, part in parts.items()}  # the package's own files
    return _environment(folder, longest).get_template("page.html").render(**marked, **hashes, **values)


@cache
def _environment(folder: Path, longest: int) -> Environment:
    def shown(value: object) -> object:
        if value is None or isinstance(value, Markup):
            return value or ""
        return clean(str(value), longest)

    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        finalize=shown,
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
