"""The connections to a model's server, bounded in time and size. Redirects are not followed, so a prompt goes only to
the configured address."""

from __future__ import annotations

import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from logdiag.errors import AgentError

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 4_000_000
"""A longer answer, counted after it was decompressed, is broken off."""

_SHORTEST = 0.05
# What zlib takes for gzip or deflate, by the first bytes.
_GZIP_OR_DEFLATE = 47


class Connection:
    """All that is connected for one consultation until it `ends` (of `time.monotonic`); threads may share it."""

    def __init__(self, ends: float) -> None:
        self._ends = ends
        self._closed = False
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float:
        """Until the deadline; never less than a little."""
        return max(_SHORTEST, self._ends - time.monotonic())

    def client(self) -> httpx.Client:
        """A client for clients of providers that take one."""
        import httpx

        return httpx.Client(transport=self.transport(), follow_redirects=False, timeout=self.seconds_left)

    def transport(self) -> httpx.BaseTransport:
        """The same for those that make their own client: a transport whose answers keep to the bounds."""
        import httpx

        connection = self

        class Body(httpx.SyncByteStream):
            def __init__(self, stream: Any, encoding: str) -> None:
                self._stream = stream
                self._encoding = encoding

            def __iter__(self) -> Iterator[bytes]:
                return connection.bounded(iter(self._stream), self._encoding)

            def close(self) -> None:
                self._stream.close()

        class Bounded(httpx.HTTPTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                request.headers["Accept-Encoding"] = "identity"
                request.extensions = {
                    **request.extensions,
                    "timeout": httpx.Timeout(connection.seconds_left).as_dict(),
                    "trace": traced,
                }
                answer = super().handle_request(request)
                # Both headers are of the body as it came, not as it is handed on.
                encoding = answer.headers.pop("Content-Encoding", "").strip().lower()
                answer.headers.pop("Content-Length", None)
                answer.stream = Body(answer.stream, encoding)
                return answer

        def traced(event: str, info: dict[str, Any]) -> None:
            if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                item = info["return_value"].get_extra_info("socket")
                if item is not None:
                    self.opened(item)

        return Bounded(limits=httpx.Limits(max_keepalive_connections=0))

    def close(self) -> None:
        """Ends every connection, also those that another thread waits at."""
        with self._lock:
            self._closed = True
            sockets, self._sockets = self._sockets, set()
        for item in sockets:
            try:
                item.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it was closed already

    def opened(self, item: socket.socket) -> None:
        """Notes a socket, which is ended with the others."""
        with self._lock:
            self._sockets.add(item)
        if self._closed:
            self.close()

    def bounded(self, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
        """An answer's body decompressed, up to the bounds. Raises AgentError beyond them."""
        decode = _decoder(encoding)
        size = 0
        for chunk in chunks:
            text = decode(chunk, MOST_BYTES + 1 - size)
            size += len(text)
            if size > MOST_BYTES:
                raise AgentError(f"its answer is longer than {MOST_BYTES // 1_000_000} MB")
            if time.monotonic() > self._ends or self._closed:
                raise TimeoutError
            yield text


def _decoder(encoding: str) -> Callable[[bytes, int], bytes]:
    """What decompresses a body piece by piece, each to so many bytes at most."""
    if encoding in ("", "identity"):
        return lambda chunk, most: chunk
    if encoding in ("gzip", "x-gzip", "deflate"):
        # What stays undone behind the most bytes is never asked for: the bound ends the answer first.
        return zlib.decompressobj(_GZIP_OR_DEFLATE).decompress
    raise AgentError(f"its answer is compressed in a way that was not asked for ({encoding[:20]})")
