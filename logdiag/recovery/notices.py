"""Tells people what became of a job: a webhook, a Slack message, an annotation of GitHub Actions. A thread sends, with
a few retries, so that recovery never waits. Only the verdict, the step and the node are sent, no line of the log."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from queue import SimpleQueue

from logdiag.errors import LogdiagError

_SLACK = "slack:"
_SECONDS, _TRIES, _FIRST_PAUSE = 5.0, 4, 1.0


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened: `event` is restarted, stopped or done; `text` says it in a sentence or two."""

    event: str
    text: str
    attempt: int
    reason: str = ""
    node: str = ""
    step: int | None = None


class Notifier:
    """Sends notices to each address: an http(s) address gets JSON, one that begins with `slack:` Slack's own form."""

    def __init__(
        self, addresses: Sequence[str], *, environ: Mapping[str, str] = os.environ, pause: float = _FIRST_PAUSE
    ) -> None:
        """Raises LogdiagError for an address that is neither http(s) nor slack:http(s)."""
        for address in addresses:
            if not address.removeprefix(_SLACK).startswith(("http://", "https://")):
                raise LogdiagError(f"--notify {address}: no address; give https://... or slack:https://...")
        self.notes: list[str] = []
        self._addresses, self._pause = tuple(addresses), pause
        self._github = environ.get("GITHUB_ACTIONS") == "true"
        self._waiting: SimpleQueue[Notice | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, notice: Notice) -> None:
        """Queues a notice for the sending thread; returns at once."""
        if self._github:
            kind = "error" if notice.event == "stopped" else "notice"
            text = notice.text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            print(f"::{kind} title=logdiag::{text}", file=sys.stderr, flush=True)
        if self._addresses:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="logdiag-notices", daemon=True)
                self._thread.start()
            self._waiting.put(notice)

    def close(self, seconds: float = 10.0) -> None:
        """Waits until all is sent, for `seconds` at most."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(seconds)
            if self._thread.is_alive():
                self.notes.append("not all notices could be sent in time")

    def _serve(self) -> None:
        for notice in iter(self._waiting.get, None):
            for address in self._addresses:
                self._deliver(address, notice)

    def _deliver(self, address: str, notice: Notice) -> None:
        import urllib.error
        import urllib.request

        slack = address.startswith(_SLACK)
        document = {"text": notice.text} if slack else {"schema": "logdiag.notice/1", **asdict(notice)}
        request = urllib.request.Request(
            address.removeprefix(_SLACK), json.dumps(document).encode(), {"Content-Type": "application/json"}
        )
        for attempt in range(_TRIES):
            time.sleep(self._pause * 2 ** (attempt - 1) if attempt else 0)
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS):
                    return
            except (OSError, ValueError) as error:
                why = str(getattr(error, "reason", None) or error)
                if isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429:
                    break
        self.notes.append(f"a notice could not be sent ({why})")
