"""Notices reach a real server, try again, and never hold anything up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from logdiag.recovery.notices import Notice, Notifier
from tests.helpers import run_logdiag

NOTICE = Notice("restarted", "attempt 1 failed: ECCError on n4. restarted without n4", 1, "ECCError", "n4", 12)


@contextmanager
def server(*answers: int, seconds: float = 0.0) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server that gives these statuses in turn and then 200, each after so long; what it was sent."""
    got: list[dict[str, object]] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            time.sleep(seconds)
            self.send_response(left.pop(0) if left else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/hook", got
        listening.shutdown()


def test_a_notice_is_sent_again_until_it_is_taken() -> None:
    """A webhook gets the fields, Slack its own form; a server's error is tried again, a refusal is not."""
    with server(500, 503) as (address, got), server(404) as (refusing, refused):
        notifier = Notifier([address, f"slack:{address}", refusing], environ={}, pause=0.01)
        notifier.send(NOTICE)
        notifier.close()
    assert [item["schema"] for item in got[:3]] == ["logdiag.notice/1"] * 3
    assert (got[2]["reason"], got[2]["node"], got[2]["step"], got[2]["event"]) == ("ECCError", "n4", 12, "restarted")
    assert got[3] == {"text": NOTICE.text}
    assert len(refused) == 1
    assert notifier.notes == ["a notice could not be sent (Not Found)"]


def test_a_slow_server_holds_nothing_up() -> None:
    """Handing over takes no time, and the end of the job waits no longer than it is told to."""
    with server(seconds=30) as (address, _):
        notifier = Notifier([address], environ={})
        began = time.monotonic()
        for _ in range(50):
            notifier.send(NOTICE)
        notifier.close(seconds=0.2)
        assert time.monotonic() - began < 15  # half of what one answer takes
    assert notifier.notes == ["not all notices could be sent in time"]


def test_on_github_an_annotation_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Only there; an error where a person is needed, and no line break of it steers the runner."""
    Notifier([], environ={}).send(NOTICE)
    assert capsys.readouterr().err == ""
    Notifier([], environ={"GITHUB_ACTIONS": "true"}).send(Notice("stopped", "50 %\n::set-env", 2))
    assert capsys.readouterr().err == "::error title=logdiag::50 %25%0A::set-env\n"


def test_a_job_that_stops_tells_its_people(tmp_path: Path) -> None:
    """`logdiag run --notify`: the verdict, and no line of the log."""
    with server() as (address, got):
        code = "print('step 1 loss 2.0'); password = 'hunter2'; print(pasword)"
        done = run_logdiag("run", "--state", tmp_path / "s", "--notify", address, "--", "python3", "-c", code)
    assert done.returncode == 1
    assert [item["event"] for item in got] == ["stopped"]
    assert "NameError" in str(got[0]["text"])
    assert "pasword" not in json.dumps(got)
