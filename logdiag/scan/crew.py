"""Several processes read and scan the logs of one job.

What takes long depends on a file's bytes alone: its blocks, the shapes of their lines, the lines on which a rule may
fire. Workers do that. What depends on earlier lines is done by the process that started them, in the order of the logs,
as if it had read them itself: the answers are the same. Where there is no worker, or it gives up, this process reads.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import IO, BinaryIO, cast

from logdiag.errors import SourceError
from logdiag.model import CommonPrefix
from logdiag.read.blocks import Written, pieces_between
from logdiag.read.decompression import CHUNK_BYTES, broken_stream_errors
from logdiag.read.envelopes import recognise
from logdiag.read.streams import Stream
from logdiag.rules import RuleBook
from logdiag.scan.hits import RuleHits
from logdiag.scan.kinds_of_log import kind_of_block
from logdiag.scan.lines import BlockLines, ShapedBlock, shaped

# In bytes: a file that is larger becomes several tasks; the part for one task; the most that one may hold unpacked.
_LARGE, _PART, _MOST_UNPACKED = 8 * CHUNK_BYTES, 4 * CHUNK_BYTES, 32 << 20
_TASKS_AHEAD = 2
_PIPE_BYTES = 1 << 20
_GONE = (EOFError, OSError, pickle.UnpicklingError)
# Of the package a worker needs little: without its `__init__` it is up in two thirds of the time.
_SERVE = """
import sys, types
sys.path[:] = {paths!r}
sys.modules["logdiag"] = package = types.ModuleType("logdiag")
package.__path__ = [{package!r}]
from logdiag.scan.crew import serve
serve()
"""


@dataclass(frozen=True, slots=True)
class _Task:
    """A file to read, or of a large one the lines that begin between two offsets; `end` is None for the file's end."""

    stream: int
    path: str
    start: int = 0
    end: int | None = None

    @property
    def is_part(self) -> bool:
        return bool(self.start) or self.end is not None


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of a task: its blocks, whose lines are numbered from 1, and how many lines and bytes they are of."""

    blocks: Sequence[ShapedBlock]
    bytes: int
    lines: int = 0


class _Worker:
    """One process; `pending` is the number of its tasks whose results were not taken yet."""

    def __init__(self, setup: bytes) -> None:
        import subprocess

        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        paths = [path for path in sys.path if isinstance(path, str)]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _SERVE.format(paths=paths, package=package)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pipesize=_PIPE_BYTES,
        )
        self.pending = 0
        self._setup = setup
        self._in, self._out = cast("IO[bytes]", self.process.stdin), cast("IO[bytes]", self.process.stdout)

    @property
    def is_up(self) -> bool:
        """Whether it is ready for tasks. Raises EOFError if it has ended."""
        if not self._setup:
            return True
        from multiprocessing.connection import wait

        if not wait([self._out.fileno()], 0):
            return False
        if not self._out.read(1):
            raise EOFError
        self._write(self._setup)
        self._setup = b""
        return True

    def give(self, task: _Task) -> None:
        """Sends it a task."""
        self._write(pickle.dumps(task))
        self.pending += 1

    def take(self) -> _Done | None:
        """The result of the first of its tasks, None where it could not be done."""
        self.pending -= 1
        return cast("_Done | None", pickle.load(self._out))

    def end(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self._in, self._out):
            with suppress(OSError):  # what was not written yet has no reader
                pipe.close()

    def _write(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()


class Crew(AbstractContextManager["Crew"]):
    """Workers that read the streams of one job. A context that ends them."""

    def __init__(self, streams: Sequence[Stream], book: RuleBook, count: int) -> None:
        setup = pickle.dumps(book.parts)
        self._workers = [_Worker(setup) for _ in range(count)]
        self._left = deque(_tasks_of(streams))
        self._sent: deque[tuple[_Task, _Worker]] = deque()
        self._reader = _Reader(set(), lambda shaped_block: shaped_block)

    def __exit__(self, *_raised: object) -> None:
        self._end()

    def blocks(self, stream: Stream, settled: set[bytes]) -> Iterator[ShapedBlock]:
        """The blocks of a stream with what depends on their bytes. The streams must be asked for in order."""
        self._reader.settled = settled
        taken = yield from self._by_workers(stream)
        if taken is not None:
            # Reading from the start gives the same blocks again: those that were taken already are skipped.
            stream.bytes_read = 0
            yield from islice(shaped(stream.blocks(settled)), taken, None)

    def _by_workers(self, stream: Stream) -> Generator[ShapedBlock, None, int | None]:
        """The blocks that tasks gave. Returns how many, if this process must read the others itself, else None."""
        taken, number, size, whole = 0, 1, 0, False
        prefix: CommonPrefix | None = None
        opening: Callable[[bytes], bytes] = bytes
        while task := self._task_of(stream):
            done = self._result_of(task, stream)
            if done is None:
                return taken
            size += done.bytes
            stream.bytes_read = size
            for shaped_block in done.blocks:
                block = shaped_block.block
                if not taken:
                    prefix = block.prefix
                    if block.wrapped and (envelope := recognise(list(block.wrapped))):
                        opening = envelope.opened
                taken += 1
                first = block.first_line + number - 1
                numbers = block.line_numbers and tuple(at + number - 1 for at in block.line_numbers)
                block = block._replace(stream=stream.index, first_line=first, line_numbers=numbers)
                sealed = block.sealed._replace(opened=opening)
                yield shaped_block._replace(block=block._replace(prefix=prefix, sealed=sealed))
            number, whole = number + done.lines, task.end is None
            if task.is_part and whole and size < (stream.size or 0):
                stream.note_cut(stream.size or 0, size)
        return None if whole else taken

    def _task_of(self, stream: Stream) -> _Task | None:
        """The next task of a stream, whether a worker has it or not; None for none."""
        try:
            while self._sent and self._sent[0][0].stream < stream.index:
                self._sent.popleft()[1].take()
            while self._left and self._left[0].stream < stream.index:
                self._left.popleft()
            up = [worker for worker in self._workers if worker.is_up]
            while self._left and up:
                worker = min(up, key=lambda worker: worker.pending)
                if worker.pending >= _TASKS_AHEAD:
                    break
                worker.give(self._left[0])
                self._sent.append((self._left.popleft(), worker))
        except _GONE:
            self._lose(stream)
        task = self._sent[0][0] if self._sent else self._left[0] if self._left else None
        return task if task and task.stream == stream.index else None

    def _result_of(self, task: _Task, stream: Stream) -> _Done | None:
        """The result of a task. If no worker has it, this process does it. None where it cannot be done as a task."""
        done: _Done | None = None
        if self._sent:
            try:
                done = self._sent.popleft()[1].take()
            except _GONE:
                self._lose(stream)
        else:
            self._left.popleft()
            done = self._reader.read(task) if task.is_part else None
        while done is None and self._left and self._left[0].stream == task.stream:
            self._left.popleft()
        return done

    def _lose(self, stream: Stream) -> None:
        """Ends all workers after one has ended by itself: this process goes on alone."""
        self._end()
        stream.notes.append("a reading process ended before its time, as when memory runs out; this one read the rest")

    def _end(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._sent.clear()
        self._left.clear()


def crew_for(streams: Sequence[Stream], book: RuleBook, count: int) -> Crew | None:
    """A crew of `count` workers; None where one process must read alone, or where no other can be started."""
    limited = any(stream.limits.limited for stream in streams)
    possible = os.name == "posix" and sys.executable and not getattr(sys, "frozen", False)
    # A user's own form may be slow, and the note on that counts the lines of all logs.
    if limited or not possible or book.forms or not book.matcher.dumped:
        return None
    try:
        return Crew(streams, book, count)
    except OSError as error:
        streams[0].notes.append(f"no further process could be started to read the logs ({error}); this one read alone")
        return None


def serve() -> None:
    """Runs a worker: reads the rules, then tasks from standard input, and writes their results to standard output."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(b".")
    sink.flush()
    book = RuleBook(*pickle.load(source))
    hits = RuleHits(book)
    reader = _Reader(hits.settled, partial(_scanned, book=book, hits=hits))
    while True:
        try:
            task: _Task = pickle.load(source)
        except EOFError:
            return
        pickle.dump(reader.read(task), sink, pickle.HIGHEST_PROTOCOL)
        sink.flush()


class _Reader:
    """Does tasks. What it learnt of the latest large file is used for the other parts of it. Lines of the shapes
    `settled` may be sealed. `finish` is called with each block."""

    def __init__(self, settled: set[bytes], finish: Callable[[ShapedBlock], ShapedBlock]) -> None:
        self.settled, self._finish = settled, finish
        self._path = ""
        self._written: Written | None = None

    def read(self, task: _Task) -> _Done | None:
        """The result of a task; None where it cannot be done, or only with a note."""
        try:
            with open(task.path, "rb", buffering=0) as raw:
                return self._part(task, raw) if task.is_part else self._whole(task, raw)
        except Exception as error:  # whose types are known only once a decompressor was loaded
            if not isinstance(error, (SourceError, ValueError, *broken_stream_errors())):
                raise
            return None

    def _part(self, task: _Task, raw: BinaryIO) -> _Done | None:
        if task.path != self._path:
            stream = Stream(0, task.path, partial(open, task.path, "rb", buffering=0))
            self._path, self._written = task.path, stream.written(self.settled)
        if self._written is None:
            return None
        offset, pieces = pieces_between(raw, task.start, task.end, self._written.envelope)
        own = self._written.blocks(0, ((piece, True) for piece in pieces), offset)
        blocks = list(map(self._finish, shaped(own)))
        if self._written.envelope is None and all(done.block.line_numbers is None for done in blocks):
            lines = sum(len(done.shapes) for done in blocks)  # counted already
        else:
            lines = sum(piece.count(b"\n") for piece in pieces)
        return _Done(blocks, sum(map(len, pieces)), lines)

    def _whole(self, task: _Task, raw: BinaryIO) -> _Done | None:
        blocks = []
        stream = Stream(0, task.path, partial(nullcontext, raw))
        for shaped_block in shaped(stream.blocks(self.settled)):
            blocks.append(self._finish(shaped_block))
            if stream.bytes_read > _MOST_UNPACKED:
                return None
        return _Done(blocks, stream.bytes_read) if stream.complete and not stream.notes else None


def _scanned(shaped_block: ShapedBlock, book: RuleBook, hits: RuleHits) -> ShapedBlock:
    """A block to be sent to another process, with its hits and kind."""
    lines = BlockLines(shaped_block)
    hits.settle(lines)
    kind = None if lines.block.offset else kind_of_block(lines.block, book)
    # If a user's own pattern took too long, the process that writes the note must find the kind itself.
    return shaped_block._replace(hits=hits.by_scan(lines, hits.settled), kind=None if book.notes else kind)


def _tasks_of(streams: Iterable[Stream]) -> Iterator[_Task]:
    """The tasks for those of a job's streams that are files, in order."""
    for stream in streams:
        if not stream.path or not stream.size:
            continue
        if stream.size <= _LARGE:
            yield _Task(stream.index, stream.path)
            continue
        for start in range(0, stream.size, _PART):
            end = start + _PART if start + _PART < stream.size else None
            yield _Task(stream.index, stream.path, start, end)
