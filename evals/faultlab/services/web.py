"""An HTTP service on loopback that answers as planned.

    web.py PORT PATH=ANSWER,ANSWER,... [PATH=...]

An ANSWER is a status (`200`, `503`, `429`), `STATUS:FILE` (with the file's content), `reset` (the connection is cut),
`stall` (no answer for a minute), `short` (less than the promised body) or `html` (a page where JSON is expected); the
last one of a path is repeated. Paths without a plan answer 200. PORT may be `HOST:PORT`.
"""

from __future__ import annotations

import http.server
import pathlib
import socket
import struct
import sys
import time


def plans_of(arguments: list[str]) -> dict[str, list[str]]:
    """The planned answers of each path."""
    return {path: answers.split(",") for path, _, answers in (argument.partition("=") for argument in arguments)}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request by the plan of its path."""

    plans: dict[str, list[str]] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        """Any method is answered alike."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        plan = next((plan for path, plan in self.plans.items() if self.path.startswith(path)), ["200"])
        answer = plan.pop(0) if len(plan) > 1 else plan[0]
        if answer == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif answer == "stall":
            time.sleep(60)
        else:
            self._reply(answer)

    do_POST = do_PUT = do_HEAD = do_DELETE = do_GET  # noqa: N815

    def _reply(self, answer: str) -> None:
        status, _, name = answer.partition(":")
        body = b"<html><body>Gateway</body></html>" if answer == "html" else b'{"ok": true}'
        if name:
            body = pathlib.Path(name).read_bytes()
        self.send_response(int(status) if status.isdigit() else 200)
        kinds = {"html": "text/html", "xml": "application/xml"}
        self.send_header("Content-Type", kinds.get(answer.rpartition(".")[2], "application/json"))
        self.send_header("Content-Length", str(len(body) + (1000 if answer == "short" else 0)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    Handler.plans = plans_of(sys.argv[2:])
    http.server.ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler).serve_forever()
