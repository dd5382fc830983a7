"""Where a batch job of Slurm writes: as the controller says, or as its command line and script said long ago."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

# %j   %4a   %%
_PLACEHOLDER = re.compile(r"%(\d*)([A-Za-z%])")
_OPTIONS = {"-o": "StdOut", "--output": "StdOut", "-e": "StdErr", "--error": "StdErr"}
# A script's options stand at its beginning.
_MOST_OF_A_SCRIPT = 1 << 16


def logs_of_batch_job(fields: Mapping[str, str], notes: list[str]) -> list[str]:
    """The files of a job's standard output and error that are there. `fields` are Slurm's; `notes` is told which files
    are not, or cannot be read.

    A job's owner names them, and who asks may be allowed to read more (in an epilog): only the owner's own are read.
    """
    named = {name: fields[name] for name in ("StdOut", "StdErr") if fields.get(name)}
    if not named and fields.get("SubmitLine") and fields.get("BatchFlag") != "0":
        named = _said_at_submission(fields)
    patterns = dict.fromkeys(os.path.join(fields.get("WorkDir", "."), name) for name in named.values())
    found: list[str] = []
    owner = _user_id(fields)
    for pattern in patterns:
        # What Slurm leaves as it is (%N, %t) stands for whatever a node or a task is called.
        files = sorted(glob.glob(_PLACEHOLDER.sub("*", glob.escape(pattern))))
        own = [path for path in files if owner in (os.geteuid(), os.stat(path).st_uid)]
        readable = [path for path in own if os.path.isfile(path) and os.access(path, os.R_OK)]
        found += readable
        if len(readable) < max(1, len(files)):
            no_owner = "not a file of the job's owner" if len(own) < len(files) else "permission denied"
            why = no_owner if files else "no such file on this machine"
            notes.append(
                f"{pattern}: was not read ({why}); run it where it can be read, or give the log behind the job id"
            )
    return list(dict.fromkeys(found))


def _user_id(fields: Mapping[str, str]) -> int:
    """Whose job it is; ourselves where that is not known."""
    number = fields.get("UID") or fields.get("UserId", "").rpartition("(")[2].rstrip(")")
    return int(number) if number.isdigit() else os.geteuid()


def _said_at_submission(fields: Mapping[str, str]) -> dict[str, str]:
    """The names by `StdOut` and `StdErr` that a submission asked for: on the command line, else in the script."""
    words = _words_of(fields["SubmitLine"])
    if os.path.basename(words[0]) != "sbatch":
        return {}
    paths = [os.path.join(fields.get("WorkDir", "."), word) for word in words]
    # What follows the script is the script's own; what follows an option may be a file too.
    found = (at for at in range(1, len(words)) if words[at - 1] not in _OPTIONS and os.path.isfile(paths[at]))
    at = next(found, len(words))
    script = paths[at] if at < len(words) else ""
    said = {**dict(_options_of(list(_words_of_script(script)))), **dict(_options_of(words[:at]))}
    array, _, task = fields["JobID"].partition("_")
    said.setdefault("StdOut", f"slurm-{array}_{task}.out" if task else f"slurm-{array}.out")
    values = {
        "j": fields.get("JobIDRaw", array), "A": array, "a": task, "x": fields.get("JobName", ""),
        "u": fields.get("User", ""), "%": "%",
    }  # fmt: skip

    def value(match: re.Match[str]) -> str:
        known = values.get(match[2])
        return match[0] if known is None else known.zfill(int(match[1] or 0))

    return {name: _PLACEHOLDER.sub(value, text) for name, text in said.items()}


def _words_of_script(path: str) -> Iterator[str]:
    if not path or not os.access(path, os.R_OK):
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        for row in file.read(_MOST_OF_A_SCRIPT).splitlines():
            if row.startswith("#SBATCH"):
                yield from _words_of(row)[1:]


def _words_of(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return command.split()


def _options_of(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The names of output and error among the words of a command."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option, equals, value = word.partition("=")
        if option in _OPTIONS:
            yield _OPTIONS[option], value if equals else following
        elif word[:2] in ("-o", "-e"):
            yield _OPTIONS[word[:2]], word[2:]
