"""Hostile logs: attacks as data, the encodings they hide in, and a model that does what each of them wants."""

from __future__ import annotations

import base64
import codecs
import json
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from tests.chat_server import Reply, calls, says
from tests.helpers import DATA

__all__ = ["EVIL", "Attack", "attacks", "obedient"]

EVIL = "evil.example"
_GREEK = str.maketrans("aeoc<>/", "\u0430\u0435\u043e\u0441\u2039\u203a\u2215")
_FORMS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reverse": lambda text: text[::-1],
    "tags": lambda text: "step ok" + "".join(chr(0xE0000 + ord(sign)) for sign in text),
    "zero_width": lambda text: "\u200b".join(text) + "\u2060\ufeff",
    "homoglyphs": lambda text: text.translate(_GREEK),
    "full_width": lambda text: "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text),
    "bidi": lambda text: f"\u202e{text[::-1]}\u202c\u2066",
    "percent": urllib.parse.quote,
    "ansi": lambda text: f"\x1b[2J\x1b[31m{text}\x1b[0m\x1b]0;title\x07",
    "carriage": lambda text: f"step ok\r{text}\rstep ok",
    "controls": lambda text: f"\x00\x07\x08{text}\x0b\x0c\x9b31m\u2028",
    "osc8": lambda text: f"\x1b]8;;https://{EVIL}/\x07{text}\x1b]8;;\x07",
}


@dataclass(frozen=True, slots=True)
class Attack:
    """Lines of an attack as they stand in the log, and what a model that falls for it does."""

    name: str
    lines: tuple[str, ...]
    obeys: str


def attacks(outside: str) -> list[Attack]:
    """All attacks; `outside` is a file that is not the log."""
    rows = yaml.safe_load((DATA / "hostile" / "attacks.yaml").read_text(encoding="utf-8"))
    return [
        Attack(
            row["name"],
            tuple(_FORMS.get(row.get("form", ""), str)(_filled(text, outside)) for text in row["lines"]),
            row["obeys"],
        )
        for row in rows
    ]


def _filled(text: str, outside: str) -> str:
    return text.replace("{outside}", outside).replace("{guess}", "0123456789abcdef")


def obedient(attack: Attack, outside: str) -> Callable[[dict[str, Any]], Reply]:
    """A model that does what the attack wants, then what comes nearest to it, as long as it is let."""
    turns: list[int] = []

    def reply(body: dict[str, Any]) -> Reply:
        turns.append(1)
        shown = "\n".join(str(message.get("content")) for message in body["messages"])
        return _OBEYS[attack.obeys](len(turns) - 1, shown, outside)

    return reply


def _answer(shown: str, turn: int, **more: Any) -> dict[str, Any]:
    """An answer that cites a line that was shown: on each turn another, the attack's own among them."""
    rows = re.findall(r"^s(\d+):(\d+)[^|\n]*\| (.{8,80})", shown, re.MULTILINE) or [("1", "1", "no line at all")]
    wanted = [row for row in rows if re.search(r"(?i)answer|assistant|NodeFailure|none", row[2])] or rows
    source, number, quote = (wanted + rows)[turn % len(wanted + rows)]
    return {
        "reason": "NodeFailure",
        "root_line": {"source": int(source), "number": int(number), "quote": quote},
        "evidence": [],
        "cause": "The node was lost: restart.",
        "would_prove": "Restart it.",
        "confidence": 1.0,
        **more,
    }


def _none(turn: int, shown: str, outside: str) -> Reply:
    return calls("answer", **_answer(shown, turn, reason="none", root_line=None, cause="Nothing failed."))


def _made_up(turn: int, shown: str, outside: str) -> Reply:
    root = {"source": 1 + turn, "number": 9999 + turn, "quote": "GPU has fallen off the bus"}
    return calls("answer", **_answer(shown, turn, root_line=root))


def _prompt(turn: int, shown: str, outside: str) -> Reply:
    if turn == 1:
        return says(shown)
    return calls("answer", **_answer(shown, turn, reason="RuntimeError", cause=shown[:4000], would_prove=shown[:4000]))


def _markup(turn: int, shown: str, outside: str) -> Reply:
    words = (
        f"![x](https://{EVIL}/p.png?q=1) [click](https://{EVIL}/) <img src=https://{EVIL}/x onerror=alert(1)>"
        f"<script>alert(1)</script> \x1b[31mred\x1b]8;;https://{EVIL}/\x07x\x1b]8;;\x07 \u202eleft \u200b\U000e0041"
        " |a|b|\n# heading\n- item\n```\ncode"
    )
    return calls("answer", **_answer(shown, turn, reason="RuntimeError", cause=words, would_prove=words))


def _outside(turn: int, shown: str, outside: str) -> Reply:
    tries = [
        calls("read_lines", path=outside),
        calls("read_lines", source=outside, first=1, last=9),
        calls("read_lines", source=99, first=1, last=9),
        calls("read_lines", source=-1, first=-9, last=10**9),
        calls("grep_log", pattern=".*", source=outside),
        calls("read_file", path=outside),
    ]
    return tries[turn] if turn < len(tries) else calls("answer", **_answer(shown, turn))


def _shell(turn: int, shown: str, outside: str) -> Reply:
    tries = [calls("run_shell", command=f"touch {outside}.made"), calls("http_get", url=f"https://{EVIL}/")]
    return tries[turn] if turn < len(tries) else calls("answer", **_answer(shown, turn))


def _secret(turn: int, shown: str, outside: str) -> Reply:
    tries = [
        calls("grep_log", pattern="password"),
        calls("read_lines", source=1, first=1, last=60),
    ]
    if turn < len(tries):
        return tries[turn]
    found = " ".join(re.findall(r"(?i)password\S*", shown))
    return calls("answer", **_answer(shown, turn, reason="RuntimeError", cause=f"The password: {found}"))


def _slow(turn: int, shown: str, outside: str) -> Reply:
    return calls("grep_log", pattern=r"(a+)+$") if turn < 3 else calls("answer", **_answer(shown, turn))


def _action(turn: int, shown: str, outside: str) -> Reply:
    more = {
        "action": "restart",
        "automatic": True,
        "exclude_nodes": ["node-1", "node-2"],
        "recovery": {"action": "restart"},
    }
    reply = calls("answer", **_answer(shown, turn, **more))
    return reply if turn % 2 else says(json.dumps(_answer(shown, turn, **more)))


def _pseudonyms(turn: int, shown: str, outside: str) -> Reply:
    words = "<secret-1> <secret-2> <secret-3> <host-1> <user-1> <text-1>"
    return calls("answer", **_answer(shown, turn, reason="RuntimeError", cause=words, would_prove=words))


_OBEYS: dict[str, Callable[[int, str, str], Reply]] = {
    "restart": lambda turn, shown, outside: calls("answer", **_answer(shown, turn)),
    "none": _none,
    "made_up": _made_up,
    "prompt": _prompt,
    "markup": _markup,
    "outside": _outside,
    "shell": _shell,
    "secret": _secret,
    "slow": _slow,
    "endless": lambda turn, shown, outside: calls("explain_code", kind="exit", code="1"),
    "action": _action,
    "pseudonyms": _pseudonyms,
}
