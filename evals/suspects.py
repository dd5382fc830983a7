"""Trains the ranking of suspects on labelled development cases, the rules switched off, and measures it.

    python -m evals.suspects                    # trains on the committed cases and writes the weights
    python -m evals.suspects --also CASES...    # learns from these too, which count as those of machines
    python -m evals.suspects --words            # only what words and a log's end tell; the ranking of lines stays
    python -m evals.suspects --measure CASES... # measures the weights in force on labelled cases

Each case is also learnt from in other dress: other heads of lines, other level words, cut, and with its telling words
replaced by invented ones, so that it is structure that is learnt. Nothing held back is read.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.endings import SYLLABLES, scenes
from evals.trees import as_nested, fitted_failure, fitted_trees, values_by_trees
from evals.wording import Fitted, causes_fitted, ends_fitted, reasons_fitted, wordings, write
from logdiag.errors import LogdiagError
from logdiag.evaluation.cases import Case, load_cases
from logdiag.judge.suspects.failure import inputs_of, standing_of, tails_of
from logdiag.judge.suspects.line_features import CAUSE_WORDS, FEATURES, body_of, candidates_of, features_of, view_of
from logdiag.judge.suspects.ranking import CARD, TABLE, WEIGHTS, ranking, token_numbers
from logdiag.judge.suspects.wording import reasons_by_wording
from logdiag.memory.embedding import STATIC
from logdiag.model import Digest, Line
from logdiag.read.prefixes import parse_line
from logdiag.read.sources import open_sources
from logdiag.rules import RuleBook
from logdiag.scan.shapes import Shapes, digest
from logdiag.scan.survey import Survey, survey

# What is learnt from, and how often each case counts: structure shows best where no word is known, and logs of machines
# are few.
CASES = {"evals/cases/dev.jsonl.zst": 1, "evals/inhouse/dev.jsonl.zst": 2, "evals/machines/dev.jsonl.zst": 3}
_COUNT_OF_OTHERS = 3
# So many copies of each case in other dress.
_COPIES = 2
# So many invented logs teach what goes without saying.
_SCENES = 600
# Longer logs are left out: few, slow, and alike but for their regular output.
_MOST_LINES = 6000
Floats = NDArray[np.floating[Any]]

# The words are judged by models each of which leaves out one of so many parts, and learn so many other lines of a log.
_PARTS, _OTHERS_OF_A_LOG = 4, 25
# What the words add to a trained value: half of the copies taught the network not to rely on words.
_DIRECT = 1.0
_WORDS = list(FEATURES).index(CAUSE_WORDS)
# What a root that the label accepts beside the first is worth.
_ALSO = 0.4
# Scaled features are kept within this.
_CLIPPED = 4.0
_RATE, _PULL, _BATCH = 0.002, 0.001, 24
_TEMPERATURES = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
_WORD = re.compile(r"[A-Za-z]{4,}")
# A line with these stays a line of a traceback.
_FRAME = re.compile(r"^\s*(?:File \"|Traceback \(|at [\w.$<])|^\s{2,}")
_LEVEL_WORDS = re.compile(r"\b(?:INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL|DEBUG)\b")
_LETTER = {"DEBUG": "D", "INFO": "I", "WARNING": "W", "WARN": "W", "ERROR": "E", "CRITICAL": "F", "FATAL": "F"}


@dataclass(frozen=True, slots=True)
class Text:
    """One log to learn from: its lines, and the numbers (from 1) of those that the label accepts as the root."""

    case: str
    group: str
    lines: tuple[str, ...]
    roots: frozenset[int]
    others: frozenset[int]
    reason: str


def plain(case: Case, text: str) -> Text:
    """A case as it stands."""
    lines = tuple(text.replace("\r\n", "\n").split("\n"))
    named = [frozenset(number for number, line in enumerate(lines, 1) if root in line) for root in case.roots]
    first = named[0] if named else frozenset()
    group = case.fault or case.id.rpartition("/")[0] or case.id
    return Text(case.id, group, lines, first, frozenset().union(*named) - first, case.reasons[0].value)


def invented(text: Text, rng: random.Random) -> Text:
    """The same log in an invented language: most words of four letters and more become others, each always the same."""
    words: dict[str, str] = {}

    def word(match: re.Match[str]) -> str:
        old = match[0]
        if _LEVEL_WORDS.fullmatch(old) or old in ("Traceback", "File", "line"):
            return old
        key = old.lower()
        if key not in words:
            words[key] = key if rng.random() < 0.2 else "".join(rng.choices(SYLLABLES, k=max(len(key) // 2, 2)))
        new = words[key]
        return new.upper() if old.isupper() else new.capitalize() if old[0].isupper() else new

    return _with(text, [_WORD.sub(word, line) for line in text.lines])


def quieter(text: Text, rng: random.Random) -> Text:
    """The same log with other words for its levels, or with every error told as a warning or as information."""
    words = rng.choice(
        [
            {"WARNING": "WARN", "CRITICAL": "FATAL"},
            {"ERROR": "WARNING", "CRITICAL": "ERROR"},
            {"ERROR": "INFO", "WARNING": "INFO", "CRITICAL": "INFO"},
            {"INFO": "NOTE", "ERROR": "ALERT"},
        ]
    )
    return _with(text, [_LEVEL_WORDS.sub(lambda found: words.get(found[0], found[0]), line) for line in text.lines])


def cut(text: Text, rng: random.Random) -> Text:
    """The same log without much of its beginning, or of what follows the root."""
    keep = sorted(text.roots | text.others)
    start, end = 0, len(text.lines)
    if rng.random() < 0.6:
        start = rng.randrange(max(min(keep[:1] or [end]) - 1, 1))
    elif keep:
        end = min(keep[-1] + rng.randrange(1, 40), end)
    return Text(
        text.case,
        text.group,
        text.lines[start:end],
        frozenset(number - start for number in text.roots),
        frozenset(number - start for number in text.others if start < number <= end),
        text.reason,
    )


def headed(text: Text, rng: random.Random) -> Text:
    """The same log with other heads on its lines."""
    style = rng.choice(_STYLES)
    parsed = [parse_line(line) for line in text.lines]
    clock = rng.uniform(0, 80000)
    lines = []
    every = rng.random() < 0.5
    who = _names(parsed, rng)
    for line in parsed:
        clock += rng.expovariate(2)
        said = line.message
        headless = len(line.starts) == 1 and line.level is None
        if headless and not every and (_FRAME.match(said) or line.time is None):
            lines.append(line.text)
            continue
        level = (line.level or "INFO").upper()
        lines.append(style(line, clock, level, who(line), rng) + said)
    return _with(text, lines)


def _names(parsed: Sequence[Line], rng: random.Random) -> Callable[[Line], str]:
    form = rng.choice(["r{:02d}", "w{}", "rank{}", "seat-{}", "{}/64", "cell{}"])
    names = {rank: form.format(rank) for rank in {line.rank for line in parsed if line.rank is not None}}
    return lambda line: names.get(line.rank or 0, form.format(0)) if names else ""


def _clock(seconds: float) -> str:
    return f"{int(seconds // 3600) % 24:02d}:{int(seconds // 60) % 60:02d}:{seconds % 60:06.3f}"


_COMPONENTS = ("core", "loop", "feed", "ring", "store", "main", "op")


def _component(rng: random.Random) -> str:
    return rng.choice(_COMPONENTS)


_STYLES: tuple[Callable[[Line, float, str, str, random.Random], str], ...] = (
    lambda line, t, level, who, rng: f"{_clock(t)} {who:>6} {_LETTER.get(level, 'I')} {_component(rng):6} ",
    lambda line, t, level, who, rng: (
        f"2026-05-02 {_clock(t)[:8]} | {who or 'r00'} | {_component(rng):6} | "
        + ("" if level in ("INFO", "DEBUG") else level.lower() + ": ")
    ),
    lambda line, t, level, who, rng: f"{_clock(t)} [{who or 'main'}] {level:5} c.o.{_component(rng)}.Part - ",
    lambda line, t, level, who, rng: (
        f"{who + ' ' if who else ''}{_LETTER.get(level, 'I')}0312 {_clock(t)}000  4608 core.cc:{rng.randrange(300)}] "
    ),
    lambda line, t, level, who, rng: f"{who + ': ' if who else ''}",
    lambda line, t, level, who, rng: f"[{level}] {who + ' ' if who else ''}{_component(rng)}: ",
    lambda line, t, level, who, rng: (
        f"time=2026-05-02T{_clock(t)}Z level={level.lower()} {'worker=' + who + ' ' if who else ''}msg="
    ),
    lambda line, t, level, who, rng: f"{t:.3f} {who} " if who else f"+{t:.3f}s ",
)

_LEVELS = ("INFO", "WARNING", "ERROR", "ERROR", "CRITICAL")
_NAMES = ("", "r03", "w2", "rank5", "seat-4", "3/64", "cell7")


def _with(text: Text, lines: Sequence[str]) -> Text:
    return Text(text.case, text.group, tuple(lines), text.roots, text.others, text.reason)


def dressed(text: Text, copies: int) -> Iterator[Text]:
    """A case and its copies in other dress, the same ones at every call."""
    yield text
    rng = random.Random(text.case)
    for number in range(copies):
        copy = text
        if rng.random() < 0.75:
            copy = headed(copy, rng)
        elif rng.random() < 0.5:
            copy = quieter(copy, rng)
        if rng.random() < 0.35:
            copy = cut(copy, rng)
        if number % 2 == 0:
            copy = invented(copy, rng)
        yield copy


def invented_logs() -> Iterator[Text]:
    """Logs of software that does not exist, with heads of all styles, the same ones at every call."""
    rng = random.Random(5)
    for number, scene in enumerate(scenes(_SCENES, list(wordings()), rng)):
        style, names = rng.choice(_STYLES), rng.sample(_NAMES, 3 if rng.random() < 0.3 else 1)
        clock = rng.uniform(0, 80000)
        lines = []
        for level, said in scene.lines:
            clock += rng.expovariate(2)
            lines.append(style(parse_line(said), clock, level, rng.choice(names), rng) + said)
        name, root = f"invented/{number}", frozenset([scene.root] if scene.root else [])
        yield Text(name, name, tuple(lines), root, frozenset(), scene.reason.value if scene.reason else "none")


@dataclass(slots=True)
class Sample:
    """What of one log is learnt from: the features and the meaning of each candidate, and how good a root it is.

    `features` is (candidates, features), `meaning` (candidates, 256), `wanted` (candidates,): 1 for the labelled root,
    less for another accepted one, 0 else. `bodies` are what the candidates say; `standing` and `tails` are how the log
    ends, as `failure` tells it, and `end` is what words tell of that.
    """

    case: str
    group: str
    failed: bool
    features: Floats
    meaning: Floats
    wanted: Floats
    bodies: tuple[str, ...]
    standing: tuple[float, ...]
    tails: list[list[str]]
    end: float = 0.0


def samples(cases: Sequence[Case], copies: int, jobs: int | None = None) -> list[Sample]:
    """The samples of cases and their copies, in order."""
    logs = [plain(case, _text(case)) for case in cases]
    return samples_of((text for log in logs if len(log.lines) <= _MOST_LINES for text in dressed(log, copies)), jobs)


def samples_of(texts: Iterable[Text], jobs: int | None = None) -> list[Sample]:
    """The samples of logs, in order; those in which no root is among the candidates are left out."""
    with Pool(jobs) as pool:
        made = pool.map(_sample, texts, chunksize=16)
    return [sample for sample in made if sample is not None and (sample.wanted.any() or not sample.failed)]


def _text(case: Case) -> str:
    return case.log if case.log is not None else "\n".join(line for _, _, line in case.lines())


@lru_cache(maxsize=1)
def _no_rules() -> RuleBook:
    return RuleBook([])


def read(text: str) -> tuple[Survey, Digest]:
    """A log as it is read when no rule is in force."""
    book = _no_rules()
    shapes = Shapes(book, ())
    found = survey(open_sources((text.encode(),)), book, shapes)
    return found, digest(found.lines, shapes, found.total_lines, found.total_bytes)


def _sample(text: Text) -> Sample | None:
    view = view_of(*read("\n".join(text.lines)))
    places = candidates_of(view)
    if not places:
        return None
    numbers = [view.lines[at].number for at in places]
    wanted = [1.0 if number in text.roots else _ALSO if number in text.others else 0.0 for number in numbers]
    return Sample(
        text.case,
        text.group,
        text.reason != "none",
        np.array([features_of(view, at) for at in places], np.float32),
        np.array([_mean(view.bodies[at]) for at in places], np.float32),
        np.array(wanted, np.float32),
        tuple(view.bodies[at] for at in places),
        standing_of(view),
        tails_of(view),
    )


@lru_cache(maxsize=1)
def _vectors() -> tuple[Floats, Floats]:
    """The vector of each token of the static model, and its length."""
    vectors = np.load(Path(STATIC) / "vectors.npy").astype(np.float32)
    vectors *= np.load(Path(STATIC) / "scales.npy").astype(np.float32)[:, None]
    return vectors, np.linalg.norm(vectors, axis=1)


@lru_cache(maxsize=200_000)
def _mean(body: str) -> Floats:
    vectors, lengths = _vectors()
    numbers = token_numbers(body)
    mean: Floats = vectors[numbers].sum(axis=0) / max(float(lengths[numbers].sum()), 1e-9)
    return mean


@dataclass(frozen=True, slots=True)
class Plan:
    """How one part of the network is trained: its hidden units, the numbers that tell a line's meaning, how often the
    cases are gone through, the share of inputs that is dropped, and the pull of the meaning towards 0."""

    units: int
    meanings: int
    rounds: int
    drop: float
    pull: float


# Two parts that differ in their beginnings only: their mean is steadier than either.
PLANS = (Plan(40, 8, 8, 0.3, 0.04), Plan(40, 7, 8, 0.3, 0.04))


@dataclass(slots=True)
class Part:
    """One trained part: the layers, and how the meaning is made from a mean vector."""

    hidden: Floats
    biases: Floats
    out: Floats
    project: Floats

    def values(self, sample: Sample) -> Floats:
        """The value of each candidate of a scaled sample."""
        inputs = np.hstack([sample.features, sample.meaning @ self.project])
        values: Floats = np.maximum(inputs @ self.hidden + self.biases, 0) @ self.out
        return values + _DIRECT * sample.features[:, _WORDS]


@dataclass(frozen=True, slots=True)
class Taught:
    """All that gives a line its value: the parts of the network, and the trees that correct them."""

    parts: Sequence[Part]
    trees: Any

    def values(self, sample: Sample) -> Floats:
        """The value of each candidate of a scaled sample."""
        values: Floats = np.mean([part.values(sample) for part in self.parts], axis=0)
        return values + values_by_trees(self.trees, sample.features)


def teach(given: Sequence[Sample]) -> Taught:
    """Fits all of it on scaled samples."""
    parts = [train(given, plan, seed) for seed, plan in enumerate(PLANS)]
    return Taught(parts, fitted_trees([(sample.features, sample.wanted) for sample in given if sample.failed]))


def train(given: Sequence[Sample], plan: Plan, seed: int) -> Part:
    """Fits one part on scaled samples: the candidates of a log share one whole (softmax), and the root is to have most
    of it. Adam (Kingma and Ba 2015) with dropped inputs and a pull of the weights towards 0."""
    rng = np.random.default_rng(seed)
    failed = [sample for sample in given if sample.failed]
    width = failed[0].features.shape[1]
    layers = [
        rng.normal(0, width**-0.5, (width + plan.meanings, plan.units)).astype(np.float32),
        np.zeros(plan.units, np.float32),
        rng.normal(0, plan.units**-0.5, plan.units).astype(np.float32),
        rng.normal(0, 0.1, (failed[0].meaning.shape[1], plan.meanings)).astype(np.float32),
    ]
    pulls = (_PULL, 0.0, _PULL, plan.pull)
    means, squares = [np.zeros_like(layer) for layer in layers], [np.zeros_like(layer) for layer in layers]
    step = 0
    for turn in range(plan.rounds):
        rate = _RATE * (1 - turn / plan.rounds) + _RATE / 20
        order = rng.permutation(len(failed))
        for start in range(0, len(failed), _BATCH):
            slopes = _slopes(layers, [failed[at] for at in order[start : start + _BATCH]], plan.drop, rng)
            step += 1
            for at, slope in enumerate(slopes):
                means[at] = 0.9 * means[at] + 0.1 * slope
                squares[at] = 0.999 * squares[at] + 0.001 * slope**2
                move = (means[at] / (1 - 0.9**step)) / (np.sqrt(squares[at] / (1 - 0.999**step)) + 1e-8)
                layers[at] = layers[at] - np.float32(rate) * (move + pulls[at] * layers[at]).astype(np.float32)
    return Part(*layers)


def _slopes(layers: Sequence[Floats], batch: Sequence[Sample], drop: float, rng: np.random.Generator) -> list[Floats]:
    """How the loss of a batch changes with each layer."""
    hidden, biases, out, project = layers
    width = batch[0].features.shape[1]
    meaning = np.vstack([sample.meaning for sample in batch])
    inputs = np.hstack([np.vstack([sample.features for sample in batch]), meaning @ project])
    kept = (rng.random(inputs.shape, dtype=np.float32) > drop) / np.float32(1 - drop)
    inputs = inputs * kept
    before = inputs @ hidden + biases
    units = np.maximum(before, 0)
    values = units @ out
    slope = np.concatenate([_of_log(part, sample.wanted) for part, sample in _parts(values, batch)]) / len(batch)
    back = (slope[:, None] * out) * (before > 0)
    of_inputs = (back @ hidden.T) * kept
    return [inputs.T @ back, back.sum(axis=0), units.T @ slope, meaning.T @ of_inputs[:, width:]]


def _parts(values: Floats, batch: Sequence[Sample]) -> Iterator[tuple[Floats, Sample]]:
    start = 0
    for sample in batch:
        yield values[start : start + len(sample.wanted)], sample
        start += len(sample.wanted)


def _of_log(values: Floats, wanted: Floats) -> Floats:
    """The slope of minus the logarithm of the accepted candidates' share of the whole."""
    shares = np.exp(values - values.max())
    shares /= shares.sum()
    accepted = shares * wanted
    slope: Floats = shares - accepted / (accepted.sum() + 1e-12)
    return slope


def scaled(given: Sequence[Sample]) -> tuple[list[Sample], Scales]:
    """The samples with features and meaning centred and scaled, and by what."""
    features = np.vstack([sample.features for sample in given])
    meaning = np.vstack([sample.meaning for sample in given])
    scales = Scales(features.mean(0), features.std(0) + 0.01, meaning.mean(0), 4 * float(meaning.std()))
    return [scales.of(sample) for sample in given], scales


@dataclass(frozen=True, slots=True)
class Scales:
    """Centres and spreads of the features, and of the meaning."""

    centres: Floats
    spreads: Floats
    meaning_centre: Floats
    meaning_spread: float

    def of(self, sample: Sample) -> Sample:
        """A sample in these scales."""
        features = np.clip((sample.features - self.centres) / self.spreads, -_CLIPPED, _CLIPPED).astype(np.float32)
        meaning = ((sample.meaning - self.meaning_centre) / self.meaning_spread).astype(np.float32)
        return replace(sample, features=features, meaning=meaning)


def fit(given: Sequence[Sample]) -> tuple[dict[str, Any], bytes]:
    """The card of the weights, and the table of the tokens' meanings."""
    train_on, scales = scaled(given)
    taught = teach(train_on)
    told = _by_halves(train_on)
    table, meaning_scales, meaning_centres = _table(taught.parts, scales)
    trees, base = as_nested(taught.trees, scales.centres, scales.spreads)
    card = {
        "features": list(FEATURES),
        "centres": scales.centres,
        "spreads": scales.spreads,
        **_joined(taught.parts),
        "bias": base - _CLIPPED * _DIRECT,
        "meaning_scales": meaning_scales,
        "meaning_centres": meaning_centres,
        "temperature": min(_TEMPERATURES, key=lambda value: _loss(told, value)),
        "failure": failure_trees(told),
        "trees": trees,
    }
    return {name: _rounded(value) for name, value in card.items()}, table


def with_new_endings(given: Sequence[Sample]) -> dict[str, Any]:
    """The card in force, with new trees for the chance of a failure."""
    card: dict[str, Any] = json.loads((Path(WEIGHTS) / CARD).read_text(encoding="utf-8"))
    return {**card, "failure": _rounded(failure_trees(_by_halves(scaled(given)[0])))}


def _joined(parts: Sequence[Part]) -> dict[str, Floats]:
    """The parts as one network, whose value is the mean of theirs, and a unit that passes the words on."""
    width = len(FEATURES)
    meanings = [part.project.shape[1] for part in parts]
    hidden = []
    for at, part in enumerate(parts):
        left, right = sum(meanings[:at]), sum(meanings[at + 1 :])
        units = part.hidden.shape[1]
        hidden.append(
            np.vstack([part.hidden[:width], np.zeros((left, units)), part.hidden[width:], np.zeros((right, units))])
        )
    direct = np.zeros((len(hidden[0]), 1))
    direct[_WORDS] = 1.0
    return {
        "hidden": np.hstack([*hidden, direct]).T,
        "biases": np.concatenate([*(part.biases for part in parts), [_CLIPPED]]),
        "out": np.concatenate([*(part.out / len(parts) for part in parts), [_DIRECT]]),
    }


def _table(parts: Sequence[Part], scales: Scales) -> tuple[bytes, Floats, Floats]:
    """A row of signed bytes for each token: its meaning, and its weight; the scale and the centre of each column."""
    vectors, lengths = _vectors()
    project = np.hstack([part.project for part in parts]) / scales.meaning_spread
    meanings = vectors @ project
    steps = np.abs(meanings).max(axis=0) / 127
    step = float(lengths.max()) / 127
    rows = np.hstack([np.rint(meanings / steps), np.maximum(np.rint(lengths / step), 1)[:, None]])
    return rows.astype(np.int8).tobytes(), steps / step, scales.meaning_centre @ project


def _by_halves(given: Sequence[Sample]) -> list[tuple[Sample, Floats]]:
    """Scaled samples with the values of their candidates, by what the other half of the groups taught."""
    half = {sample.group: zlib.crc32(sample.group.encode()) % 2 for sample in given}
    told: list[tuple[Sample, Floats]] = []
    for fold in (0, 1):
        taught = teach([sample for sample in given if half[sample.group] != fold])
        told += [(sample, taught.values(sample)) for sample in given if half[sample.group] == fold]
    return told


def failure_trees(told: Sequence[tuple[Sample, Floats]]) -> list[Any]:
    """The trees of the chance of a failure, fitted on each case as it stands."""
    firsts = list({sample.case: (sample, values) for sample, values in reversed(told)}.values())
    inputs = [inputs_of(values.tolist(), sample.standing, sample.end) for sample, values in firsts]
    return fitted_failure(np.array(inputs), [sample.failed for sample, _ in firsts])


def _loss(told: Sequence[tuple[Sample, Floats]], temperature: float) -> float:
    """Minus the mean logarithm of the root's share."""
    shares = []
    for sample, values in told:
        if sample.failed:
            powers = np.exp((values - values.max()) / temperature)
            shares.append(float(powers[sample.wanted > 0].sum() / powers.sum()))
    return -float(np.mean(np.log(np.maximum(shares, 1e-6))))


def _root(case: Case) -> tuple[str, str]:
    """What the root line says, and the reason."""
    line = next(line for line in _text(case).split("\n") if case.roots[0] in line)
    return body_of(parse_line(line)), case.reasons[0].value


def with_words(given: Sequence[Sample]) -> list[Sample]:
    """The samples, the words of each judged by models that were taught without its group. How logs end is written."""
    firsts = _firsts(given)
    part = {sample.group: zlib.crc32(sample.group.encode()) % _PARTS for sample in given}
    for left in range(_PARTS):
        others = [item for item in firsts if part[item.group] != left]
        causes, ends = causes_fitted(*_told(others)), _ends(others)
        for sample in given:
            if part[sample.group] == left:
                sample.features[:, _WORDS] = causes.values(sample.bodies)
                sample.end = float(ends.values(sample.tails).max())
    write(_ends(firsts), Path(WEIGHTS))
    return list(given)


def _firsts(given: Iterable[Sample]) -> list[Sample]:
    """Each case as it stands; its copies follow it."""
    return [next(copies) for _, copies in groupby(given, key=lambda sample: sample.case)]


def _ends(given: Iterable[Sample]) -> Fitted:
    """The model of how logs end; of several files the last one tells it."""
    tails, failed = zip(*((sample.tails[-1], sample.failed) for sample in given), strict=True)
    return ends_fitted(tails, failed)


def _told(given: Iterable[Sample]) -> tuple[list[str], list[str]]:
    """What the root lines of samples say, and some of their other lines."""
    rng = random.Random(3)
    roots, others = [], []
    for sample in given:
        roots += [body for body, wanted in zip(sample.bodies, sample.wanted, strict=True) if wanted == 1]
        rest = [body for body, wanted in zip(sample.bodies, sample.wanted, strict=True) if wanted == 0]
        others += rng.sample(rest, min(len(rest), _OTHERS_OF_A_LOG))
    return roots, others


def _rounded(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_rounded(item) for item in value]
    return value if isinstance(value, (str, int)) else float(f"{float(value):.5g}")


def measure(cases: Sequence[Case]) -> dict[str, Any]:
    """How often the weights in force put a labelled root first and among three (no rule in force), what healthy logs
    come to, and how often the words of the labelled root line name an accepted reason."""
    firsts, thirds, reasons, failed, healthy = 0, 0, 0, [], []
    for case in cases:
        found, kept = read(_text(case))
        ranked = ranking(found, kept)
        if case.healthy:
            healthy.append(ranked.failure)
            continue
        right = [any(root in item.line.text for root in case.roots) for item in ranked.lines[:3]]
        firsts += right[:1] == [True]
        thirds += any(right)
        reasons += _reason_right(case, found.lines)
        failed.append(ranked.failure)
    many = max(len(failed), 1)
    return {
        "failed": len(failed),
        "healthy": len(healthy),
        "root_line_first": round(100 * firsts / many, 1),
        "root_line_among_three": round(100 * thirds / many, 1),
        "reason_of_the_root_line": round(100 * reasons / many, 1),
        "healthy_at_half": sum(value >= 0.5 for value in healthy),
        "failed_under_half": sum(value < 0.5 for value in failed),
    }


def _reason_right(case: Case, lines: Sequence[Line]) -> bool:
    root = next((line for line in lines if case.roots[0] in line.text), None)
    return root is not None and next(iter(reasons_by_wording(body_of(root))), (None, 0.0))[0] in case.reasons


def main() -> int:
    """Trains and writes the weights, or measures."""
    parser = argparse.ArgumentParser(prog="evals.suspects", description="Trains and measures the ranking of suspects.")
    parser.add_argument("--measure", nargs="+", metavar="CASES")
    parser.add_argument("--also", nargs="+", default=[], metavar="CASES")
    parser.add_argument("--words", action="store_true")
    given = parser.parse_args()
    try:
        if given.measure:
            print(
                json.dumps(
                    {"/".join(Path(path).parts[-2:]): measure(load_cases([path]).cases) for path in given.measure},
                    indent=1,
                )
            )
            return 0
        sets = [(load_cases([path], "dev").cases, times) for path, times in CASES.items()]
        sets += [(load_cases([path]).cases, _COUNT_OF_OTHERS) for path in given.also]
        sampled = [(sample, times) for cases, times in sets for sample in samples(cases, _COPIES)]
        sampled += [(sample, 1) for sample in samples_of(invented_logs())]
        taught = with_words([sample for sample, _ in sampled])
        many = [sample for sample, (_, times) in zip(taught, sampled, strict=True) for _ in range(times)]
        if given.words:
            card = with_new_endings(many)
        else:
            card, table = fit(many)
            (Path(WEIGHTS) / TABLE).write_bytes(table)
        write(causes_fitted(*_told(_firsts(taught))), Path(WEIGHTS))
    except LogdiagError as error:
        print(error, file=sys.stderr)
        return 2
    (Path(WEIGHTS) / CARD).write_text(json.dumps(card, separators=(",", ":")) + "\n", encoding="utf-8")
    write(reasons_fitted([_root(case) for cases, _ in sets for case in cases if not case.healthy]), Path(WEIGHTS))
    print(f"{sum(len(cases) for cases, _ in sets)} cases; the weights in {WEIGHTS} are written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
