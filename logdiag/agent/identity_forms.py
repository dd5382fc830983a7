"""Finds people and machines in log text: e-mail addresses, users, hosts, network and hardware addresses.

A host or user is recognised by the words around it, and from then on hidden wherever it occurs. What a diagnosis needs
stays: PCI addresses, library paths, file:line, ports, versions, times.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import resources

from logdiag.agent.forms import read_forms

KINDS = ("host", "user", "ip", "mac", "email", "name", "pod", "bucket", "device")
"""The kinds of names that are hidden under a pseudonym and restored in answers; secrets are not."""

_DATA = read_forms("identities.yaml")
_FORM = _DATA.patterns
_LOCAL, _MODULE_LIKE = (frozenset(_DATA.words[name]) for name in ("local", "module_like"))
# A name before a colon is a host's if so many different lines begin with it.
_FEWEST_SPOKEN = 3

_WORD = re.compile(r"[^\W_]+(?:[._-]+[^\W_]+)*")
_PIECE = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_MOST_PIECES = 12
_MOST_MEMBERS = 2000
# gpu-[003-010,12]
_RANGE = re.compile(r"(?P<head>[\w.-]*)\[(?P<numbers>[\d,-]+)\](?P<tail>[\w.-]*)")

# Words and generic accounts that are never hidden, since that would hide the log itself.
_WORDS = frozenset(sys.stdlib_module_names).union(
    resources.files(__package__).joinpath("common_words.txt").read_text(encoding="utf-8").split()
)

Hide = Callable[[str, str], str]


def hide_identities(text: str, hide: Hide) -> str:
    """The text with hosts, users and addresses replaced by what `hide(kind, value)` returns; `kind` is one of KINDS, or
    `path` (the folder of a user, with the name)."""
    text = _without_forms("addresses", text, hide)
    text = _FORM["ipv6"].sub(lambda match: hide("ip", match[0]) if _is_ipv6(match[0]) else match[0], text)
    text = _FORM["ipv4"].sub(lambda match: match[0] if _is_kept_ipv4(match) else hide("ip", match[0]), text)
    text = _FORM["at_host"].sub(lambda match: _at_host(match, hide), text)
    text = _FORM["in_path"].sub(lambda match: _in_path(match, hide), text)
    text = _FORM["shared_path"].sub(lambda match: _in_shared_path(match, hide), text)
    text = _without_forms("users", text, hide)
    text = _without_speakers(text, hide)
    text = _without_forms("hosts", text, hide)
    return _without_forms("others", text, hide)


def hide_names(text: str, names: Mapping[str, str], hide: Hide) -> str:
    """The text with each of `names` (in lower case, with its kind) hidden wherever no letter or digit stands beside
    it."""
    if not names:
        return text
    first = {found[0] for name in names if (found := _PIECE.match(name))}
    return _WORD.sub(lambda match: _hide_names_in_word(match[0], names, first, hide), text)


def learnable(name: str) -> bool:
    """Whether a name that was found once may be hidden wherever it occurs: it is no word, no number and not short."""
    return len(name) >= 3 and name.lower() not in _WORDS and not name.isdigit()


def is_common(word: str) -> bool:
    """Whether a word of a path or of a job's metadata is nobody's name: all its parts are common in training jobs."""
    return all(len(part) < 3 or part in _WORDS for part in _LETTERS.findall(word.lower()))


def names_in(text: str) -> Iterator[str]:
    """The words of a path or of a job's metadata that could be names; of a file also without its suffix."""
    for match in _WORD.finditer(text):
        yield match[0]
        stem, dot, _ = match[0].rpartition(".")
        if dot:
            yield stem


def members_of(hosts: str) -> list[str]:
    """The hosts of a list: of `a,b` both, of `gpu-[003-005,9]` all four; empty for a single one."""
    if (found := _RANGE.fullmatch(hosts)) is None:
        return hosts.split(",")[:_MOST_MEMBERS] if "," in hosts else []
    members: list[str] = []
    for part in found["numbers"].split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and (high or low).isdigit():
            last = min(int(high or low), int(low) + _MOST_MEMBERS)
            members += [f"{found['head']}{at:0{len(low)}d}{found['tail']}" for at in range(int(low), last + 1)]
    return members[:_MOST_MEMBERS]


def _hide_names_in_word(word: str, names: Mapping[str, str], first: set[str], hide: Hide) -> str:
    low = word.lower()
    if low in names:
        return hide(names[low], word)
    if len(low) != len(word):
        return word  # a letter whose small form is two
    pieces = list(_PIECE.finditer(low))
    for at, piece in enumerate(pieces):
        if piece[0] not in first:
            continue
        for last in reversed(pieces[at : at + _MOST_PIECES]):
            start, end = piece.start(), last.end()
            if (kind := names.get(low[start:end])) is not None:
                rest = _WORD.sub(lambda match: _hide_names_in_word(match[0], names, first, hide), word[end:])
                return word[:start] + hide(kind, word[start:end]) + rest
    return word


def _without_speakers(text: str, hide: Hide) -> str:
    """The text without host names that stand before a colon at the beginning of several different lines."""
    messages: dict[str, set[str]] = {}
    for match in _FORM["speaker"].finditer(text):
        messages.setdefault(match["host"], set()).add(text[match.end() : match.end() + 40])
    hosts = {
        name for name, texts in messages.items() if len(texts) >= _FEWEST_SPOKEN and not _FORM["no_speaker"].match(name)
    }

    def shown(match: re.Match[str]) -> str:
        name = match["host"]
        return f"{match['head']}{_hide_host(name, hide)}: " if name in hosts and _is_name("host", name) else match[0]

    return _FORM["speaker"].sub(shown, text) if hosts else text


def _without_forms(forms: str, text: str, hide: Hide) -> str:
    def shown(match: re.Match[str]) -> str:
        parts, end = [], match.start()
        for group in sorted(match.re.groupindex, key=match.start):
            kind, value = group.rstrip("2"), match[group]
            if value and _is_name(kind, value):
                hidden = _hide_host(value, hide) if kind == "host" else hide(kind, value)
                parts += [match.string[end : match.start(group)], hidden]
                end = match.end(group)
        return "".join([*parts, match.string[end : match.end()]])

    for form in _DATA.forms[forms]:
        text = form.pattern.sub(shown, text)
    return text


def _is_name(kind: str, value: str) -> bool:
    low = value.lower()
    if (
        low in _WORDS
        or low in _LOCAL
        or (low.isdigit() and kind != "device")
        or re.fullmatch(r"(?:default|rank|gpu)\d{1,2}", low)
        or value[0] >= "\U000f0000"
    ):
        return False
    if kind in ("bucket", "name", "pod"):
        return not is_common(value)
    return kind != "host" or any(map(str.isalpha, value))


def _hide_host(value: str, hide: Hide) -> str:
    """A host name with all hidden but the domain of a public service."""
    low = value.lower()
    if low in _LOCAL or low in _WORDS:
        return value
    public = _FORM["public"].fullmatch(value)
    if public is not None:
        inner = public["inner"].rstrip(".")
        return f"{hide('host', inner)}.{public['public']}" if inner and inner.lower() not in _WORDS else value
    labels = low.split(".")
    if len(labels) == 2 and labels[-1] in _MODULE_LIKE and not re.search(r"[\d-]", labels[0]):
        return value
    return hide("host", value)


def _at_host(match: re.Match[str], hide: Hide) -> str:
    user, host = match["user"], match["host"]
    if user == "git" or not re.search(r"[a-z]", host) or re.fullmatch(r"[A-Z_]+[\d._]*|\d.*", host):
        return match[0]
    shown = user if user.lower() in _WORDS else hide("user", user)
    return f"{shown}@{_hide_host(host, hide)}"


def _in_path(match: re.Match[str], hide: Hide) -> str:
    if match["user"].lower() in _WORDS:
        return match[0]
    hide("path", match[0])
    return match["folder"] + hide("user", match["user"])


def _in_shared_path(match: re.Match[str], hide: Hide) -> str:
    folders = match["folders"].split("/")[:-1]
    shown = (name if is_common(name) or name[0] >= "\U000f0000" else hide("name", name) for name in folders)
    return match["root"] + "".join(f"{name}/" for name in shown)


def _is_kept_ipv4(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 24) : match.start()]
    return bool(_FORM["kept_address"].match(match[0]) or _FORM["version_before"].search(before))


def _is_ipv6(value: str) -> bool:
    try:
        ipaddress.IPv6Address(value)
    except ValueError:
        return False
    return not _FORM["kept_address"].match(value)
