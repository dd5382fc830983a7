"""The same work on many logs, in several processes. A process that dies takes nothing along but its own log."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from logdiag.rules import RuleBook

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def answers_of(
    work: Callable[[Item, RuleBook], Answer],
    items: Sequence[Item],
    processes: int,
    folders: Sequence[str],
    together: int = 1,
) -> Iterator[Answer | None]:
    """What `work` makes of each item and of the rules in force with these folders, in the order of the items; None
    where its process died. `work` is a function of a module, or a partial one, so that another process can find it;
    so many items go to a process `together`."""
    done = 0
    pool = ProcessPoolExecutor(min(processes, len(items)), get_context("spawn"), _begin, (folders,))
    try:
        for answer in pool.map(partial(_answer, work), items, chunksize=together):
            yield answer
            done += 1
        return
    except BrokenProcessPool:
        if len(items) == 1:
            yield None
            return
    finally:
        pool.shutdown(cancel_futures=True)
    # All of a pool end with one: what was under way is done once more, each item alone. They are begun in their order.
    begun = done + processes * together
    for item in items[done:begun]:
        yield from answers_of(work, [item], 1, folders)
    if items[begun:]:
        yield from answers_of(work, items[begun:], processes, folders, together)


_book: RuleBook


def _begin(folders: Sequence[str]) -> None:
    """What a process begins with. Ctrl-C is the parent's to handle."""
    global _book
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _book = RuleBook.load(folders)


def _answer(work: Callable[[Item, RuleBook], Answer], item: Item) -> Answer:
    return work(item, _book)
