"""Hides from a language model what it must not see, under stable pseudonyms that are mapped back in its answer.

Secrets never come back. All else (hosts, users, addresses) is the reader's own and is restored locally.
"""

from __future__ import annotations

import re
import threading

from logdiag.agent.identity_forms import KINDS, hide_identities, hide_names, is_common, learnable, members_of, names_in
from logdiag.agent.secret_forms import hide_secrets

# While a text is worked on, each pseudonym is one sign of the last planes, which no later pattern takes for a word.
_FIRST_SIGN = 0xF0000
_SIGNS = re.compile("[\U000f0000-\U0010ffff]")
PSEUDONYM = re.compile(rf"<(?P<kind>{'|'.join(KINDS)}|secret|text)-\d{{1,6}}>")
"""What stands for a name or a secret in a hidden text."""
_FOREIGN = re.compile(f"{_SIGNS.pattern}|{PSEUDONYM.pattern}")
_COUNTED = {kind: f"{kind}s" for kind in (*KINDS, "path", "secret")} | dict.fromkeys(("ip", "mac"), "addresses")
# Values of these kinds are hidden wherever they occur again, all others only where a form matches.
_LEARNT = ("host", "user", "name", "pod", "bucket")
# A secret of so many characters is hidden wherever it occurs again, also where no word marks it as one.
_DISTINCT_LENGTH = 8


class Redactor:
    """Hides the texts of one consultation; several threads may use one.

    What was found in one text is hidden in all later ones under the same pseudonym. So teach it everything first
    (`hide` texts, `know` and `know_words` fields), then hide what leaves.
    """

    def __init__(self) -> None:
        self._signs: dict[tuple[str, str], str] = {}
        self._shown: list[str] = []
        self._originals: dict[str, str] = {}
        self._names: dict[str, str] = {}  # a name in small letters, and its kind
        self._secrets: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def know(self, kind: str, name: str | None) -> None:
        """Takes the value of a field, such as a node's name, for a name wherever it stands from now on."""
        if name and learnable(name):
            with self._lock:
                self._names.setdefault(name.lower(), kind)

    def know_words(self, text: str) -> None:
        """Takes each word of a path or of a job's metadata for a name that is not common in training jobs."""
        for word in names_in(text):
            if not is_common(word):
                self.know("name", word)

    def hide(self, text: str) -> str:
        """The text with pseudonyms such as `<host-1>`; lines stay lines, and hiding it again changes nothing. Raises
        AgentError without the library that knows secrets."""
        with self._lock:
            text = _FOREIGN.sub(self._known_or_mark, text)
            text = self._without_known_secrets(text)
            text = hide_secrets(text, lambda value: self._sign("secret", self._plain(value)))
            text = hide_identities(text, self._sign)
            text = hide_names(self._without_known_secrets(text), self._names, self._sign)
            return _SIGNS.sub(lambda match: self._shown[ord(match[0]) - _FIRST_SIGN], text)

    def restore(self, text: str) -> str:
        """The text with every pseudonym of this redactor mapped back, apart from secrets."""
        return PSEUDONYM.sub(lambda match: self._originals.get(match[0], match[0]), text)

    def manifest(self) -> dict[str, int]:
        """How many different hosts, users, names, addresses, secrets and so on were hidden so far."""
        kinds = dict.fromkeys(_COUNTED.values(), 0)
        for kind, name in _COUNTED.items():
            kinds[name] += self._counts.get(kind, 0)
        return kinds

    def _sign(self, kind: str, value: str) -> str:
        """The sign that stands for a value while its text is worked on."""
        sign = self._signs.get((kind, value))
        if sign is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            shown = f"<{kind}-{self._counts[kind]}>"
            sign = self._signs[(kind, value)] = chr(_FIRST_SIGN + len(self._shown))
            self._shown.append(shown)
            self._originals[shown] = {"secret": shown, "text": value}.get(kind) or self._plain(value)
            self._learn(kind, value, sign)
        return sign

    def _learn(self, kind: str, value: str, sign: str) -> None:
        for member in members_of(value) if kind == "host" else ():
            if learnable(member):
                self._names.setdefault(member.lower(), kind)
        if kind in _LEARNT and learnable(value) and (kind != "host" or re.search(r"[\d.-]", value)):
            self._names.setdefault(value.lower(), kind)
        elif kind == "secret" and len(value) >= _DISTINCT_LENGTH and not value.isalpha():
            self._secrets[value] = sign

    def _without_known_secrets(self, text: str) -> str:
        for value, sign in self._secrets.items():
            if value in text:
                text = text.replace(value, sign)
        return text

    def _known_or_mark(self, match: re.Match[str]) -> str:
        """The sign of a pseudonym that is ours; other text that looks like ours stands for itself."""
        if match[0] in self._originals:
            return chr(_FIRST_SIGN + self._shown.index(match[0]))
        return self._sign("text", match[0])

    def _plain(self, value: str) -> str:
        """A value in which something was hidden already, as it was."""
        return _SIGNS.sub(lambda match: self._originals[self._shown[ord(match[0]) - _FIRST_SIGN]], value)
