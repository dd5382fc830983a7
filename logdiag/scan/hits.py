"""Says on which lines of a block a rule may fire; of lines in shapes that come often it is asked once for all."""

from __future__ import annotations

from collections.abc import Sequence

from logdiag.model import ALL_NINES, HEX
from logdiag.rules import RuleBook
from logdiag.rules.matcher import starts_of_lines
from logdiag.scan.lines import BlockLines, Hits, Patterns

# In a log of so many lines, of each shape that comes so often in one block it is asked whether rules can fire on it.
FREQUENT, _WORTH_ASKING = 50, 2000
_MOST_SHAPES = 20_000


class RuleHits:
    """Which rules may fire on which lines, for all logs of a job.

    On lines of `settled` shapes no rule can fire, whatever numbers they hold. Those of the shapes in `patterns_of` mark
    frames of tracebacks and calls of collectives, and need no scan. On lines of `steady` shapes rules may fire, but the
    patterns `found` on a line are found on all lines that differ from it in digits only."""

    def __init__(self, book: RuleBook) -> None:
        self._book = book
        self.settled: set[bytes] = set()
        self.patterns_of: dict[bytes, Patterns] = {}
        self._steady: set[bytes] = set()
        # Lines of these three are not scanned for rules.
        self.not_scanned: set[bytes] = set()
        # The only patterns that may match on the lines of a shape.
        self._possible: dict[bytes, frozenset[int]] = {}
        self._found: dict[bytes, Patterns] = {}
        self._total = 0

    def settle(self, lines: BlockLines) -> None:
        """Asks once, of each shape that is frequent in a block of a long log, whether a rule can fire on its lines."""
        self._total += lines.count
        for key in [key for key, count in lines.counts.items() if count >= FREQUENT and self._total > _WORTH_ASKING]:
            if key not in self._possible and len(self._possible) < _MOST_SHAPES:
                patterns = self._book.patterns_on_shape(key)
                self._possible[key] = frozenset(patterns)
                fires = self._book.marks_of(patterns).fire
                if fires and (HEX in key or not self._book.take_all_digits(patterns)):
                    continue
                if not patterns:
                    self.settled.add(key)
                elif fires:
                    self._steady.add(key)
                else:
                    self.patterns_of[key] = patterns
                self.not_scanned.add(key)

    def may_match(self, patterns: Patterns, shape: bytes) -> bool:
        """Whether one of these patterns may match on a line of a shape."""
        return shape not in self._possible or not self._possible[shape].isdisjoint(patterns)

    def by_scan(self, lines: BlockLines, left_out: set[bytes]) -> Hits:
        """The hits on lines of a block, without those of some shapes."""
        if left_out.issuperset(lines.counts):
            return []
        hits, every = lines.shaped.hits, left_out.isdisjoint(lines.counts)
        if hits is not None:
            return hits if every else [hit for hit in hits if lines.shapes[hit[0]] not in left_out]
        asked = range(lines.count) if every else [at for at, key in enumerate(lines.shapes) if key not in left_out]
        data = lines.block.data if every else b"\n".join(lines.several(asked))
        found = self._book.matcher.on_lines(data, starts_of_lines(data))
        return found if every else [(asked[at], patterns) for at, patterns in found]

    def on(self, lines: BlockLines) -> dict[Patterns, list[int]]:
        """The indices of the lines of a block on which patterns may match, in order, by all the patterns of a line."""
        hits: dict[Patterns, list[int]] = {}
        for at, patterns in self.by_scan(lines, self.not_scanned):
            hits.setdefault(patterns, []).append(at)
        met, steady = lines.counts.keys(), list[int]()
        indices_of = {shape: hits.setdefault(self.patterns_of[shape], []) for shape in met & self.patterns_of.keys()}
        indices_of |= dict.fromkeys(met & self._steady, steady)
        for at, shape in enumerate(lines.shapes) if indices_of else ():
            if shape in indices_of:
                indices_of[shape].append(at)
        for at, patterns in zip(steady, self._patterns_on(lines.several(steady)), strict=True):
            if patterns:
                hits.setdefault(patterns, []).append(at)
        return {patterns: sorted(indices) for patterns, indices in hits.items()}

    def _patterns_on(self, texts: Sequence[bytes]) -> list[Patterns]:
        """The patterns that are found on each of these lines of steady shapes."""
        alike = [text.translate(ALL_NINES) for text in texts]
        for nines, text in dict(zip(alike, texts, strict=True)).items():
            if nines not in self._found:
                self._found[nines] = next((hit[1] for hit in self._book.matcher.on_lines(text, (0, len(text) + 1))), ())
        patterns = [self._found[nines] for nines in alike]
        if len(self._found) >= _MOST_SHAPES:
            self.not_scanned -= self._steady
            self._steady.clear()
        return patterns
