"""Finds keys, tokens and passwords in log text.

`detect-secrets` knows the common ones, but its other detectors are for source code. The patterns here are for logs:
more prefixes, headers, environment dumps, command lines, URLs, key blocks. None can run away.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from logdiag.agent.forms import read_forms
from logdiag.errors import AgentError

_DATA = read_forms("secrets.yaml")
_FORM = _DATA.patterns
_FULL_KEY_LINE = 40
_MOST_BETWEEN = 4
_LONGEST_NAME = 60

Hide = Callable[[str], str]


def hide_secrets(text: str, hide: Hide) -> str:
    """The text with each secret replaced by what `hide` returns; line ends stay. Raises AgentError."""
    text = _FORM["token"].sub(lambda match: hide(match[0]), text)
    for value in sorted(_detected(text), key=len, reverse=True):
        text = re.sub(rf"[\w-]{{0,80}}{re.escape(value)}[\w~-]*", lambda match: hide(match[0]), text)
    text = _without_key_blocks(_without("public_key", text, hide), hide)
    for name in ("header", "cookie", "in_url", "in_query", "bearer", "basic", "command"):
        text = _without(name, text, hide)
    text = _without_named(_FORM["named"], _without_named(_FORM["flag"], text, hide), hide)
    for name in ("in_sentence", "tracker", "near_word"):
        text = _without(name, text, hide)
    return _FORM["long"].sub(lambda match: hide(match[0]) if _is_random(match[0], 32) else match[0], text)


def _without(form: str, text: str, hide: Hide) -> str:
    is_secret = _IS_SECRET.get(form, bool)
    return _FORM[form].sub(lambda match: _hide_group(match, "value", hide) if is_secret(match) else match[0], text)


@cache
def _detectors() -> tuple[Any, ...]:
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    except ImportError as error:
        raise AgentError(
            "detect-secrets is missing, without which nothing is sent to a model; pip install 'logdiag[agent]'"
        ) from error
    known: dict[str, Any] = dict(get_mapping_from_secret_type_to_class())
    return tuple(known[name]() for name in _DATA.words["detectors"] if name in known)


def _detected(text: str) -> set[str]:
    found = (value.strip(" \t\r\n\"':=") for detector in _detectors() for value in detector.analyze_string(text))
    # Every real key of these kinds has a digit; names of classes have none.
    return {value for value in found if len(value) >= 8 and any(sign.isdigit() for sign in value)}


def _hide_group(match: re.Match[str], group: str, hide: Hide) -> str:
    """The text of a match with one group hidden, unless the group is hidden already: one character of Unicode's last
    planes, which no log uses."""
    value = match[group]
    if len(value.rstrip("\\,;.)]}")) <= 1 and value[:1] >= "\U000f0000":
        return match[0]
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + hide(value) + match[0][end:]


def _without_named(pattern: re.Pattern[str], text: str, hide: Hide) -> str:
    """The text with the values hidden whose names say that they hold a secret."""
    parts, end = [], 0
    for match in pattern.finditer(text):
        name = match["name"]
        strength = _strength(name.lstrip("nrt") if text[match.start() - 1] == "\\" else name)
        if not strength or match.start() < end or (pattern is _FORM["flag"] and not name.startswith("-")):
            continue
        found = _FORM["value"].match(text, match.end())
        value = found[found.lastgroup or 0] if found else ""
        # PWD with a path is the working directory, and NAME=NAME passes a variable on: neither is a secret.
        passed_on = value == name or (name.lower() == "pwd" and value.startswith(("/", "~")))
        if found is None or passed_on or _FORM["no_secret"].fullmatch(value):
            continue
        if strength == "strong" or _looks_secret(value):
            parts += [text[end : match.start()], match[0], _hide_group(found, found.lastgroup or "", hide)]
            end = found.end()
    return "".join([*parts, text[end:]])


@lru_cache(maxsize=20_000)
def _strength(name: str) -> str:
    """`strong` for a name whose value is a secret, `weak` for one whose value may be one, else empty."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[-_LONGEST_NAME:]).lower()
    match = _FORM["name"].search(snake)
    if match is None or (match["weak"] and _FORM["of_language"].search(snake[: match.start()])):
        return ""
    return "strong" if match["strong"] else "weak"


def _is_secret_in_sentence(match: re.Match[str]) -> bool:
    """Whether the value in a sentence such as `the token is ...` is a password, or looks like a secret."""
    value = match["value"].rstrip(".!?)")
    if not value or _FORM["no_password"].fullmatch(value) or _FORM["no_secret"].fullmatch(value):
        return False
    return match["what"].lower().startswith(("pass", "pwd")) or _looks_secret(value)


def _is_of_query(match: re.Match[str]) -> bool:
    wanted = bool(_FORM["signing"].fullmatch(match["name"])) or _is_random(match["value"], 20)
    return wanted and not _FORM["no_secret"].fullmatch(match["value"])


def _is_of_tracker(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start("value") - 24) : match.start("value")]
    value = match["value"]
    return not _FORM["commit"].search(before) and not value.isalpha() and not value.isdigit()


def _looks_secret(value: str) -> bool:
    """Whether a value looks like a secret, where its name allows one."""
    if _FORM["plain"].fullmatch(value) or _FORM["no_secret"].fullmatch(value):
        return False
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return (
        (len(value) >= 6 and letters and digits)
        or (len(value) >= 20 and value.isalnum())
        or _is_user_and_password(value)
    )


def _is_user_and_password(value: str) -> bool:
    try:
        decoded = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _is_random(value: str, least: int) -> bool:
    """Whether a word of at least `least` characters changes between small letters, capitals and digits as often as
    random ones do. Hexadecimal words count only with `least` below 32 (a name before them hints at a secret) and from
    24 on."""
    if len(value) < least or value.startswith(("_Z", "0x", "/", "GPU-", "MIG-")) or _FORM["plain"].fullmatch(value):
        return False
    if least < 32 and re.fullmatch(r"[0-9a-f]{24,}|[0-9A-F]{24,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value):
        return not value.isdigit()
    few, share = (1, 0.25) if least < 32 else (3, 0.38)
    kinds = ["d" if sign.isdigit() else "u" if sign.isupper() else "l" if sign.isalpha() else "-" for sign in value]
    changes = sum(one != other and "-" not in (one, other) for one, other in pairwise(kinds))
    others = kinds.count("-")
    mixed = all(kinds.count(kind) >= few for kind in "dlu")
    return mixed and changes >= share * (len(kinds) - others) and others <= 0.15 * len(kinds)


# Tests for the forms of which not every value is a secret.
_IS_SECRET: dict[str, Callable[[re.Match[str]], bool]] = {
    # ssh://git@host names everybody; //host:8080/a@b is a port and a path.
    "in_url": lambda match: match["value"] != "git" and not re.match(r"[^:]*:\d{1,5}/", match["value"]),
    "in_query": _is_of_query,
    "bearer": lambda match: _looks_secret(match["value"]),
    "basic": lambda match: _is_user_and_password(match["value"]),
    "in_sentence": _is_secret_in_sentence,
    "tracker": _is_of_tracker,
    "near_word": lambda match: _is_random(match["value"], 16),
}


def _without_key_blocks(text: str, hide: Hide) -> str:
    """The text with private keys hidden between their marks, line by line, so that lines keep their numbers."""
    if "PRIVATE KEY" not in text and "PuTTY-User-Key" not in text:
        return text
    lines = text.split("\n")
    inside = 0
    for index, line in enumerate(lines):
        marks = list(_FORM["key_mark"].finditer(line))
        if marks:
            if marks[0]["end"]:
                _hide_key_above(lines, index, hide)
            end, shown, within = 0, "", bool(inside)
            for mark in marks:
                shown += _key_text(line[end : mark.start()], hide, within) + mark[0]
                end, within = mark.end(), not mark["end"]
            lines[index] = shown + _key_text(line[end:], hide, within)
            inside = 0 if marks[-1]["end"] else _MOST_BETWEEN
        elif inside:
            run = _FORM["key_line"].search(line)
            # A key's last line is shorter than the others, and other processes may print between its lines.
            full = run is not None and len(run["value"]) >= _FULL_KEY_LINE
            lines[index] = (
                _hide_group(run, "value", hide) if run is not None and (full or inside == _MOST_BETWEEN) else line
            )
            inside = _MOST_BETWEEN if full or _FORM["key_header"].search(line) else inside - 1
    return "\n".join(lines)


def _hide_key_above(lines: list[str], index: int, hide: Hide) -> None:
    """Hides the lines of a key above the mark of its end, whose beginning may be missing from the text."""
    for above in range(index - 1, -1, -1):
        run = _FORM["key_line"].search(lines[above])
        if run is None or (above < index - 1 and len(run["value"]) < _FULL_KEY_LINE):
            return
        lines[above] = _hide_group(run, "value", hide)


def _key_text(text: str, hide: Hide, within: bool) -> str:
    """The text beside a mark, hidden if it is `within` a key."""
    if not within:
        return text
    return re.sub(r"(?s)[A-Za-z0-9+/=\\].*[A-Za-z0-9+/=]", lambda match: hide(match[0]), text, count=1)
