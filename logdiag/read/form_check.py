"""Proves log forms by their samples: what `logdiag forms test` and the tests run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from logdiag.model import Line
from logdiag.read.envelopes import recognise
from logdiag.read.form_files import rivals
from logdiag.read.forms import Form, Forms, Sample
from logdiag.read.prefixes import heads_of, parse_line
from logdiag.rules.searching import takes_too_long
from logdiag.rules.tables import Problem, problem_at

# A pattern that takes too long on a sample with a part repeated to so many characters can run away on a log.
_LONG = 4000


def check(forms: Forms) -> list[Problem]:
    """Every problem of forms that were loaded with their proof."""
    taken = {form.id: [rivals(forms, form, sample) for sample in form.samples] for form in forms.forms}
    problems = [problem for form in forms.forms for problem in _check_form(forms, form, taken)]
    for sample in forms.keys.samples:
        if wrong := _differs(read_alone(sample.line, forms), sample):
            problems.append(problem_at(sample.file, "keys", sample.line, wrong, "mend the keys, or the sample"))
    return sorted(problems, key=lambda problem: (problem.file, problem.line))


def read_alone(text: str, forms: Forms) -> Line:
    """What a line says that stands alone in its log."""
    return parse_line(plain_line(text, forms), forms=forms)


def plain_line(text: str, forms: Forms) -> str:
    """A record in JSON, or another envelope, as the plain line that it becomes; any other line as it is."""
    data = text.encode(errors="replace")
    envelope = recognise([data], forms)
    found = next(envelope.unwrap([(1, data)]), None) if envelope else None
    return found[1].decode(errors="replace") if found else text


def _check_form(forms: Forms, form: Form, taken: dict[str, list[tuple[int, tuple[str, ...]]]]) -> Iterator[Problem]:
    for sample, (place, fitting) in zip(form.samples, taken[form.id], strict=True):
        walked = [found.id for found, _ in heads_of(sample.line, forms) if found]
        problem = partial(problem_at, form.file, form.id, sample.line)
        first = next((other for other in fitting if other in walked), None)
        if not fitting:
            yield problem(f"does not fit its sample {sample.line!r}", "mend the pattern")
        elif form.id not in walked:
            rival = first or "an earlier form"
            mutual = any(form.id in others for _, others in taken.get(rival, ()))
            remedy = "make one of the two patterns narrower" if mutual else "make that pattern narrower"
            yield problem(f"{rival} takes its sample {sample.line!r}", remedy)
        elif wrong := _differs(read_alone(sample.line, forms), sample):
            yield problem(wrong, "mend the pattern, or the sample")
        if fitting and (slow := _slow_on(forms, form, sample, place)):
            yield problem(f"takes too long on {slow!r}...", "bound its repeats")


def _differs(line: Line, sample: Sample) -> str:
    """What a line says other than its sample, in words; empty where they agree."""
    told = Sample(sample.line, line.message, line.rank, line.node, line.clock, line.level, line.speaker, sample.file)
    wrong = [
        f"{field} {said!r} instead of {wanted!r}"
        for field, said, wanted in zip(Sample._fields, told, sample, strict=True)
        if said != wanted
    ]
    return f"{sample.line!r} gives {', '.join(wrong)}" if wrong else ""


def _slow_on(forms: Forms, form: Form, sample: Sample, place: int) -> str:
    """How a long line begins on which a form is slow each time: its sample as far as it fits, the last one to three
    characters repeated many times; empty where there is none."""
    match = forms.tried(form, sample.line, place)
    for end, width in product(range(place + 1, (match.end() if match else place) + 1), (1, 2, 3)):
        text = sample.line[:end] + sample.line[max(end - width, 0) : end] * (_LONG // width)
        if takes_too_long(partial(forms.tried, form, text, place)):
            return text[: end + 10]
    return ""
