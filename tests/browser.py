"""A real browser without a window, told what to do through its debugging pipe; no driver and no network port."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_SECONDS = 60.0

BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)


class Page:
    """One page of the browser. `said` are the messages that it printed, `asked` the addresses that it asked for."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._rest = write, read, b""
        self._number = 0
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Log", "Runtime", "Network"):
            self._tell(f"{part}.enable")

    def open(self, file: Path, *, width: int = 1280, dark: bool = False) -> float:
        """Opens a page at so many pixels; the seconds until it was loaded, laid out and painted."""
        self._tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tell("Emulation.setEmulatedMedia", features=[scheme])
        began = time.monotonic()
        self._tell("Page.navigate", url=file.resolve().as_uri())
        self.value("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - began

    def value(self, script: str) -> Any:
        """What a script gives on the page, as plain values."""
        answer = self._tell("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _tell(self, method: str, **params: Any) -> Any:
        return self._send(method, session=self._session, **params)

    def _send(self, method: str, session: str | None = None, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        data = json.dumps({**message, "sessionId": session} if session else message).encode()
        os.write(self._write, data + b"\0")
        deadline = time.monotonic() + _SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Log.entryAdded":
            self.said.append(event["params"]["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.said.append(event["params"]["exceptionDetails"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked.append(event["params"]["request"]["url"])

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        message, self._rest = self._rest.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser with a profile in `folder`, ended afterwards."""
    assert BROWSER is not None
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    # The browser reads its orders from descriptor 3 and answers on 4.
    script = f'exec 3<&{to_read} 4>&{from_write}; exec "$0" "$@"'
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        ["/bin/bash", "-c", script, BROWSER, *options],
        pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(to_write, from_read)
    finally:
        process.terminate()
        process.wait(_SECONDS)
        os.close(to_write)
        os.close(from_read)
