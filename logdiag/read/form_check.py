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

# A pattern that is slow on a sample in which a part is repeated to so many characters may hang on a log.
_LONG = 4000


def check(forms: Forms) -> list[Problem]:
    """All problems of forms that were loaded with their proof, by file and line."""
    rivals_of = {form.id: [rivals(forms, form, sample) for sample in form.samples] for form in forms.forms}
    problems = [problem for form in forms.forms for problem in _check_form(forms, form, rivals_of)]
    for sample in forms.keys.samples:
        if difference := _difference(read_alone(sample.line, forms), sample):
            problems.append(problem_at(sample.file, "keys", sample.line, difference, "mend the keys, or the sample"))
    return sorted(problems, key=lambda problem: (problem.file, problem.line))


def read_alone(text: str, forms: Forms) -> Line:
    """A line as it is read if it is the only one of its log."""
    return parse_line(plain_line(text, forms), forms=forms)


def plain_line(text: str, forms: Forms) -> str:
    """The plain line that a record in JSON or another envelope becomes; any other line as it is."""
    data = text.encode(errors="replace")
    envelope = recognise([data], forms)
    unwrapped = next(envelope.unwrap([(1, data)]), None) if envelope else None
    return unwrapped[1].decode(errors="replace") if unwrapped else text


def _check_form(forms: Forms, form: Form, rivals_of: dict[str, list[tuple[int, tuple[str, ...]]]]) -> Iterator[Problem]:
    for sample, (offset, fitting) in zip(form.samples, rivals_of[form.id], strict=True):
        applied = [head.id for head, _ in heads_of(sample.line, forms) if head]
        problem = partial(problem_at, form.file, form.id, sample.line)
        first = next((name for name in fitting if name in applied), None)
        if not fitting:
            yield problem(f"does not fit its sample {sample.line!r}", "mend the pattern")
        elif form.id not in applied:
            rival = first or "an earlier form"
            mutual = any(form.id in names for _, names in rivals_of.get(rival, ()))
            remedy = "make one of the two patterns narrower" if mutual else "make that pattern narrower"
            yield problem(f"{rival} takes its sample {sample.line!r}", remedy)
        elif difference := _difference(read_alone(sample.line, forms), sample):
            yield problem(difference, "mend the pattern, or the sample")
        if fitting and (slow := _slow_on(forms, form, sample, offset)):
            yield problem(f"takes too long on {slow!r}...", "bound its repeats")


def _difference(line: Line, sample: Sample) -> str:
    """In which fields a line was read differently than its sample says, in words; empty where they agree."""
    read = Sample(sample.line, line.message, line.rank, line.node, line.clock, line.level, line.speaker, sample.file)
    differences = [
        f"{field} {value!r} instead of {wanted!r}"
        for field, value, wanted in zip(Sample._fields, read, sample, strict=True)
        if value != wanted
    ]
    return f"{sample.line!r} gives {', '.join(differences)}" if differences else ""


def _slow_on(forms: Forms, form: Form, sample: Sample, offset: int) -> str:
    """The beginning of a long line on which a form is slow each time; empty where there is none. The lines tried are
    the sample as far as the form fits it, with its last one to three characters repeated many times."""
    match = forms.matcher(form)(sample.line, offset)
    for end, width in product(range(offset + 1, (match.end() if match else offset) + 1), (1, 2, 3)):
        text = sample.line[:end] + sample.line[max(end - width, 0) : end] * (_LONG // width)
        if takes_too_long(partial(forms.matcher(form), text, offset)):
            return text[: end + 10]
    return ""
