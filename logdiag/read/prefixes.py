"""What the head of a line says: when, how loud, and which rank or node speaks.

Launchers, loggers and containers put their own words before a message, often several in a row (`node-3: [rank5]:
2026-11-01 10:00:00,123 ERROR [trainer.py:33] boom`). `parse_line` walks over them one by one and remembers each place
where the message may begin, so that a rule anchored at the message's start fits whatever stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from logdiag.model import CommonPrefix, Line

__all__ = ["LEVELS", "parse_line"]

_CLOCK = r"(?P<hms>\d\d:\d\d:\d\d)(?:[.,:]\d{1,9})?"
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LEVEL = r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|SEVERE|CRITICAL|FATAL)"
_ANY_LEVEL = (
    "debug|info|notice|warning|warn|error|severe|critical|fatal|panic|emerg|alert|crit|err|verbose|success|"
    "trc|dbg|inf|wrn|ftl|pnc|vrb|fail"
)
_SHORT_LEVEL = "TRC|DBG|INF|WRN|ERR|FTL|PNC|VRB|CRIT|EMERG|ALERT|PANIC|VERBOSE|SUCCESS|FINE|FAIL"
_STAMP = r'(?:ts|time|t)="?(?:(?P<date>\d{4}-\d\d-\d\d)[T ](?P<hms>\d\d:\d\d:\d\d))?[\w.:+-]{0,40}"?'

_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"

# The characters that a prefix may begin with (trying all of them everywhere would cost most of the time), and the
# prefix itself; those with a time are tried first, the catch-all bracket last.
_PREFIXES = tuple(
    (characters, re.compile(pattern))
    for characters, pattern in (
        # May 15 09:14:36 node-7 kernel:   May 15 09:14:36 node-7 slurmd[3121]:
        (
            _UPPER,
            rf"(?P<mon>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_CLOCK} (?P<node>(?!\d{{4}}-\d\d-)[\w.-]+) "
            r"(?P<speaker>[\w./()-]+?)(?:\[\d+\])?: ?",
        ),
        # Mar 12 02:11:07.133 [loader] E:   Mar 12 02:11:07 ERROR
        (
            _UPPER,
            rf"(?P<mon>{'|'.join(_MONTH_NAMES)}) +(?P<day>\d{{1,2}}) {_CLOCK} (?=\[|[A-Z]{{4,8}}\b|[IWEFDC][ :])",
        ),
        # [Sun Feb 23 17:03:18 2025]   Sun Feb 23 17:03:18 2025:
        (
            _UPPER + "[",
            rf"\[?[A-Z][a-z]{{2}} (?P<mon>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_CLOCK} (?P<year>\d{{4}})[\]:]? ?",
        ),
        # [rank0]:[W415 13:56:39.596823099 ProcessGroupNCCL.cpp:4561]   [E ProcessGroupNCCL.cpp:523]
        (
            "[",
            r"\[(?P<letter>[IWEFD])(?:(?P<monthday>\d{3,4}) (?P<hms>\d\d:\d\d:\d\d)(?P<fraction>\.\d{1,9})?)? "
            r"(?:\d+ )?[\w./]+:\d+\] ?",
        ),
        # E0621 10:00:00.123456 1875515 cuda_dnn.cc:8310]   I20250415 13:32:59 2846128 dinov2 config.py:59]
        (
            "IWEFD",
            r"(?P<letter>[IWEFD])(?:(?P<monthday>\d{4}) (?P<hms>\d\d:\d\d:\d\d)(?P<fraction>\.\d{1,9})?|"
            r"(?:\d{8}|\d{4}) \d\d:\d\d:[\d.]+) +\d+ (?:[\w.-]+ )?[\w./-]+:\d+\] ?",
        ),
        # [W 2026-10-05 19:33:27,458]   [I 2026-10-05 19:33:27.458 ServerApp]   (Optuna, Jupyter)
        ("[", rf"\[(?P<letter>[IWEFDC]) (?P<date>\d{{4}}-\d\d-\d\d) {_CLOCK}(?: [\w.:-]{{1,60}})?\] ?"),
        # E, [2026-11-01T10:00:00.123456 #4711] ERROR -- loader: (Ruby)
        (
            "IWEFD",
            rf"(?P<letter>[IWEFD]), \[(?P<date>\d{{4}}-\d\d-\d\d)T{_CLOCK} #\d+\] +[A-Z]+ -- [\w.:-]{{0,60}}: ?",
        ),
        # [2026-10-05 19:33:27,458 W 91609 91609]
        ("[", rf"\[(?P<date>\d{{4}}-\d\d-\d\d) {_CLOCK} (?P<letter>[IWEFDC]) \d+ \d+\] ?"),
        # [2026-11-04 10:00:07 TP5]   [10:00:07 DP1 TP5 EP5]   [TP5 EP5] (SGLang)
        (
            "[",
            rf"\[(?:(?P<date>\d{{4}}-\d\d-\d\d) )?(?:{_CLOCK} )?(?:(?:DP|PP)\d{{1,4}} )?TP(?P<rank>\d{{1,5}})"
            r"(?: (?:EP|PP|DP)\d{1,5}){0,3}\] ?",
        ),
        # 2026-11-01 10:00:00,123   [2026-11-01T10:00:00.123Z]   2026/11/01 10:00:00   2026-11-01:10:00:00 (lm-eval)
        (
            "[(" + _DIGITS,
            rf"[\[(]?(?P<date>\d{{4}}[-/]\d\d[-/]\d\d)[T _:-]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?[\])]?"
            r"(?: ?[:|-](?= ))? ?",
        ),
        # 11-01 10:00:00   [11/01/26 10:00:00]   01/10/2026 10:00:00 -   [10:00:00]   10:00:00.123
        ("[" + _DIGITS, rf"\[?(?:\d\d[-/]\d\d(?:[-/]\d{{2,4}})?[T ,]{{1,2}})?{_CLOCK}\]?(?: ?[:|-](?= ))? ?"),
        # 10:00AM ERR (zerolog)
        (_DIGITS, r"(?<![^\n])\d{1,2}:\d\d[AP]M (?=[A-Z]{3} )"),
        #  2f4 | 02/02/2026 | 10:11:12 UTC |   (the event log of a machine's board, by ipmitool)
        (
            " " + _DIGITS + _LOWER,
            rf"(?<![^\n]) *[0-9a-f]{{1,4}} \| (?P<us>\d\d/\d\d/\d{{4}}) \| {_CLOCK}(?: [A-Z]{{3,4}})? \| ",
        ),
        # [ 1000.123456]
        ("[", r"\[ *\d+\.\d{3,9}\] ?"),
        # [rank5]:   [Rank 5]   [default5]:   [rank: 5]   rank5:   Rank 5:
        ("[", r"\[ ?(?:[Rr]ank|default|RANK|local_rank|trainer)[ :=_-]{0,2}(?P<rank>\d{1,6})(?:/\d+)?\]:? ?"),
        ("rR", r"(?:[Rr]ank|RANK)[ _]?(?P<rank>\d{1,6}) ?[:|] ?"),
        # [trainer.util:158, rank=6]
        ("[", r"\[[\w.:/-]{1,80}, rank[=:] ?(?P<rank>\d{1,6})\]:? ?"),
        # [PG ID 0 PG GUID 0(default_pg) Rank 5]   [PG 0 Rank 7]
        ("[", r"\[PG [^\]]{0,80}?Rank (?P<rank>\d{1,6})\] ?"),
        # [1,5]<stderr>:   [5]<stdout>:
        ("[", r"\[(?:\d+,)?(?P<rank>\d{1,6})\](?:\[\w+\])?<std(?:out|err)>: ?"),
        # [3:gpu-a07]   [0@dgx01]
        ("[", r"\[(?P<rank>\d{1,5})[:@](?P<node>[A-Za-z][\w.-]{1,80})\] ?"),
        # [pod/trainer-0/pytorch]
        ("[", r"\[pod/(?P<speaker>[\w.-]+/[\w.-]+)\] ?"),
        # (RayTrainWorker pid=60157, ip=10.0.0.10)   (Worker_TP3 pid=134157)   (raylet)   (raylet, ip=10.0.0.3)
        (
            "(",
            r"\((?P<speaker>[A-Za-z_][\w.:/ -]{0,60}?)(?:,? rank=(?P<rank>\d{1,9}))?(?:,? pid=\d+)?"
            r"(?:,? ip=(?P<node>[\w.:-]+))?\)(?=\s|$|:) ?:? ?",
        ),
        # trainer-1  | (docker compose)
        (_LOWER, r"(?P<speaker>[a-z][\w.-]*-\d+) +\| "),
        # node-2:5776:5902 [0] transport/net_ib.cc:1296 NCCL WARN (which is how NCCL says that it failed)
        (
            _UPPER + _LOWER,
            r"(?P<node>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\] (?:[\w./]+:\d+ )?(?:NCCL|RCCL) (?:WARN|(?P<level>INFO)) ?",
        ),
        # /container_e12_1700000000000_0001_01_000002: (YARN)
        ("/c", r"(?P<speaker>/?container_\w+): "),
        # The kernel's `INFO: task python:31 blocked for more than 120 seconds` is no level.
        # ERROR 03-08 21:20:42 [engine.py:33]   ERROR:root:   [ERROR]   ERROR -   <ERROR>   error:
        (
            "[<(" + _UPPER,
            r"(?!INFO: (?:task|rcu))"
            rf"[\[<(]?{_LEVEL} ?[\]>)]?(?:(?= \d\d-\d\d )| *[:|-](?=\s|[A-Za-z_])|(?=[\s\[])|(?<=\]))"
            r"(?:[a-zA-Z_][\w.]*:(?! ))? ?",
        ),
        # [error]   [ERR]   <warn>   [info    ]
        ("[<(", rf"[\[<(](?P<short>{_ANY_LEVEL}|{_ANY_LEVEL.upper()}) *[\])>]:? ?"),
        # 10:00:00 ERR boom   2026-11-01T10:00:00Z WRN boom   (Serilog's, zerolog's and others' three or four letters)
        (_UPPER, rf"(?<=[ \t])(?P<short>{_SHORT_LEVEL})(?=[\s\[\]:|])[\]:|]? ?"),
        # ERRO[0012] boom (logrus)
        ("IWEFDPT", r"(?P<short>INFO|WARN|ERRO|FATA|PANI|DEBU|TRAC)\[\d{4,10}\] ?"),
        # 2026-11-01T10:00:00.123Z\terror\tloader/shard.go:33\tboom   10:00:00 error: boom
        (
            "tdinwefcp",
            r"(?<=[ \t])(?P<short>debug|info|notice|warn|warning|error|err|fatal|critical|crit|panic)"
            r"(?=\t| {2,}|:\s| \[):? ?",
        ),
        # fail: Loader.Shard[0] (.NET)
        ("ciwdtf", r"(?<![^\n])(?P<short>fail|crit|warn|info|dbug|trce): (?=[\w.]+\[\d+\])"),
        #   12:33:11.230  55/64 E op     op 52830 (a rank of so many, before a level)
        (_DIGITS, r"(?<=[ \t])(?P<rank>\d{1,5})/\d{1,6} +(?=[IWEFDC] |[A-Z]{3,8} )"),
        # ERROR c.o.palisade.Main - boom   ERROR com.acme.Loader : boom   (Java's loggers behind a level)
        (
            _LOWER + _UPPER,
            r"(?<=[ \t])[A-Za-z_$][\w$]*(?:\.[\w$]+)+ +[-:] +(?=\S)",
        ),
        # INFO 4711 --- [main] (Spring)
        (_DIGITS, r"(?<=[ \t])\d{1,7} --- (?=\[)"),
        # [2026-11-01T10:00:00Z ERROR loader::shard] boom (Rust's env_logger)
        (_LOWER, r"(?<=[A-Z] )[a-z_]\w*(?:::\w+)*\] "),
        # ERROR loader::shard: boom   ERROR run{id=3}: loader::shard: boom   INFO main ThreadId(01)   (Rust)
        (
            _LOWER + _UPPER + "_",
            r"(?<=[ \t])(?:[a-z_]\w*(?:::\w+)+: |[a-z_]\w*\{[^{}\n]{0,200}\}: ?|ThreadId\(\d+\) )",
        ),
        # ts=1795357317.163 lvl=error rank=1 event="..."   time="2026-11-01T10:00:00Z" level=error msg="..." (logfmt)
        (
            "tl",
            rf"(?<![^\n])(?:{_STAMP} +)?(?:level|lvl)=(?P<short>[a-z]{{3,8}})(?: +rank=(?P<rank>\d{{1,6}})\b)? +"
            r"(?:(?:msg|message|event)=\"?)?",
        ),
        # 12:33:11.230 E op     op 52830 EXPIRED (columns)
        ("IWEFDC", r"(?<=[ \t])(?P<letter>[IWEFDC]) (?=[a-z_][\w.-]{0,40} {2,}\S)"),
        # E external/xla/cuda_fft.cc:477]   I 01-10 10:11:00   E 11/22 14:14:12 MainProcess]
        ("IWEFDC", r"(?P<letter>[IWEFDC]) (?=[\w./-]+:\d+\]|\d\d[-/]\d\d |\d\d:\d\d:\d\d)"),
        # 13:34:32.511 [0] W ranker> ...   10:00:00 E trainer: ...
        ("IWEFDC", r"(?<=[\d\])|Z] )(?P<letter>[IWEFDC]) (?=[a-z_][\w.-]{0,40}(?:>|:|\[| \|) )"),
        # trainer.py:33:   launch.py:319 --   cuda_fft.cc:477]   __main__:main:33 -
        (
            _UPPER + _LOWER + _DIGITS + "_/.",
            r"(?:[\w./-]+\.(?:py|cc|cpp|h|cu|go|rs)(?::\w+)?|[a-z_][\w.]*:\w+):\d+(?:\] ?| ?-{1,2} |: ?|\t)",
        ),
        # torch.distributed.elastic.multiprocessing.api:   root - (before a level)   __main__ - (behind one)
        (
            _UPPER + _LOWER + _DIGITS + "_",
            r"[a-z_]\w*(?:\.[a-z_]\w*)+(?<!error)(?<!timeout)(?<!exit): ?|[\w.]+ - (?=[A-Z]{4,8} )|"
            r"(?<= - )(?:__main__|root|[a-z_]\w*(?:\.[a-z_]\w*)+) - ",
        ),
        ("kuds", r"(?:kern|user|daemon|syslog): (?:emerg|alert|crit|err|warning|notice|info|debug): ?"),
        # W-9000-resnet_1.0-stdout MODEL_LOG - (TorchServe, which logs all that a model prints as information)
        ("W", r"(?P<speaker>W-\d+-[\w.+-]{1,120}-std(?:out|err)) (?P<relay>MODEL_LOG) - "),
        # task 3: cp: ... (a job script that labels its tasks)
        (_LOWER, r"(?<![^\n])task (?P<rank>\d{1,5}): "),
        # \u2502 No such option: --batchsize (Possible options: --batch-size) \u2502   (a box of rich's)
        ("\u2502", r"(?<![^\n])\u2502 (?=[A-Z])"),
        # E       AssertionError: ...   (pytest)
        ("E", r"(?<![^\n])E {3,7}(?=[A-Za-z_])"),
        # t=114.6 | stderr | ...   stderr | ...   stderr: ... (recorders of both outputs)
        ("ts", r"(?<![^\n])(?:t=[\d.]{1,20} \| )?(?P<speaker>stdout|stderr)(?: ?\||:) ?"),
        # 2|trainer  | (pm2)
        (_DIGITS, r"(?<![^\n])\d{1,3}\|(?P<speaker>[\w.-]{1,60}) *\| "),
        # pretrain/0 [default3]: (torchx)
        (
            _LOWER + _UPPER,
            r"(?<![^\n])(?P<speaker>[A-Za-z_][\w.-]*/\d+) (?=\[|[IWEF]\d{4} |\d{4}-\d\d-\d\d|Traceback )",
        ),
        #  33%|###4      | 575/1725 [3:03:39<6:06:20, 19.11s/it[rank1]: (a bar is no line of its own)
        (
            " " + _DIGITS + _LOWER + _UPPER,
            r"(?<![^\n])[^|\n]{0,60}?\d{1,3}%\|[^|\n]{0,300}\|[^|\[\n]{0,40}\[[^\]\n]{3,80}?(?:it/s|s/it)[^\[\]\n]{0,80}\]?"
            r"(?=\[(?:rank|default)\d|Traceback )",
        ),
        # 5: (srun --label, only at the very start)      node-3: (pdsh, DeepSpeed, jsrun)
        (_DIGITS, r"(?<![^\n])(?P<rank>\d{1,5}): "),
        (
            _LOWER,
            r"(?<![^\n])(?!python\d|cuda:)"
            r"(?P<node>[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*[-.]?\d[a-z0-9.-]*(?<!\.py)(?<!\.sh)): ",
        ),
        # [launch.py:319:sigkill_handler]   [c10d]   [2]:
        ("[", r"\[(?P<bracket>[^\[\]]{1,80})\]:? ?(?:- )?"),
        # : [rank18]: ... (a launcher's label that is empty)
        (":", r"(?<![^\n]): (?=\[)"),
        # 2026-11-01 10:00:00,123 aiohttp.server ERROR   10:00:00,123 4711 INFO   10:00:00 trainer: ERROR:
        (
            _LOWER + _UPPER + _DIGITS + "_",
            r"(?<=[\d\])Z] )(?:[A-Za-z_][\w.-]{0,60}|\d{1,7})(?:\[\d+\])?:? {1,12}"
            r"(?=(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)(?::|\s))",
        ),
        # 2026-11-01 10:00:00.429 node-2/3  step 43: ...   (host and rank, but not `shard-2/8 is read`)
        (
            "nhcis",
            r"(?<=[\d\]Z] )(?P<node>(?:node|host|nid|compute|cn|ip|server)[\w.-]{0,60}\d)/(?P<rank>\d{1,5}):? +",
        ),
        # 14:21:23 | r0 | 28 | ERROR | ...   (columns between bars)
        ("rR", r"(?<=\| )(?:[rR]|[rR]ank|RANK)[ =:]?(?P<rank>\d{1,5}) +(?=\| )"),
        (_LOWER + _UPPER + _DIGITS, r"(?<=\| )[\w.:=/-]{1,40} +(?=\| )"),
        # 2026-11-01 10:00:00,123,0,trainer,INFO: ...   (columns between commas)
        (",", rf"(?<=\d),(?:[\w.-]{{1,60}},){{0,3}}(?={_LEVEL.replace('?P<level>', '?:')}: )"),
        # - | : left between two prefixes
        ("-|:", r"(?<=[\] ])[-|:] "),
    )
)
_PREFIXES_OF = {
    character: tuple(prefix for characters, prefix in _PREFIXES if character in characters)
    for character in {character for characters, _ in _PREFIXES for character in characters}
}
_LETTERS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL", "D": "DEBUG", "C": "CRITICAL"}
LEVELS = {
    **_LETTERS,
    **{name: name for name in ("TRACE", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "FATAL")},
    "WARN": "WARNING",
    "ERR": "ERROR",
    "CRIT": "CRITICAL",
    "DPANIC": "FATAL",
    "PANIC": "FATAL",
    "EMERG": "FATAL",
    "ALERT": "FATAL",
    "SEVERE": "ERROR",
    "FAIL": "ERROR",
    "SUCCESS": "INFO",
    "VERBOSE": "DEBUG",
    "FINE": "DEBUG",
    # Serilog, zerolog, logrus, .NET
    "TRC": "TRACE",
    "DBG": "DEBUG",
    "INF": "INFO",
    "WRN": "WARNING",
    "FTL": "FATAL",
    "PNC": "FATAL",
    "VRB": "DEBUG",
    "TRAC": "TRACE",
    "DEBU": "DEBUG",
    "ERRO": "ERROR",
    "FATA": "FATAL",
    "PANI": "FATAL",
    "TRCE": "TRACE",
    "DBUG": "DEBUG",
}
"""What loggers call their levels, by the names that `Line.level` has."""
_PARALLEL_RANK = re.compile(
    r"(?:Worker|TP|worker|rank|Rank|process|Process|EngineCore)[_ -]?(?:DP0_)?(?:TP|DP|PP)?[_-]?(\d{1,5})(?=\b|_)"
)
# {"time": "2026-11-04 10:00:00", "level": "WARNING", "rank": 3, "message": "..."}
_JSON_LEVEL = re.compile(r'"(?:level|levelname|severity|sev|lvl)": ?"([A-Za-z]{3,8})"')
_JSON_RANK = re.compile(r'"(?:rank|global_rank|process_index|replica)": ?(\d{1,6})\b')
_JSON_TIME = re.compile(
    r'"(?:time|timestamp|@timestamp|asctime|datetime|ts|t)": ?'
    r'"(?P<clock>(?P<date>\d{4}-\d\d-\d\d)[T ](?P<hms>\d\d:\d\d:\d\d))'
)
_JSON_MESSAGE = re.compile(r'"(?:message|msg)": ?"')
# {"level": "critical", "exception": "Traceback (most recent call last):\n  File ...\nKeyError: 'a'\n"}
_ESCAPED_HEADER = r"Traceback (most recent call last):\n"
_ESCAPED_EXCEPTION = re.compile(r"\\n((?:[A-Za-z_]\w*\.)*[A-Z]\w*: )")
# ts=2026-11-01T10:00:00Z level=error caller=loader.go:33 msg="shard lost" worker=3 err="the file is gone"
_LOGFMT_LEVEL = re.compile(r"(?:^| )(?:level|lvl|severity)=\"?[A-Za-z]")
_PAIR = re.compile(r'(?<![^\s])([A-Za-z_@][\w.@-]{0,40})=("(?:[^"\\]|\\.)*"?|[^\s"]*)')
_PAIRED_TIME = re.compile(r"(?P<clock>(?P<date>\d{4}-\d\d-\d\d)[T ](?P<hms>\d\d:\d\d:\d\d))")
_LEVEL_KEYS = ("level", "lvl", "severity")
_RANK_KEYS = ("rank", "global_rank", "process_index", "worker", "worker_id", "replica", "seat")
_TIME_KEYS = ("ts", "time", "timestamp", "t")
# The last of them is the message.
_TEXT_KEYS = ("text", "detail", "reason", "cause", "exception", "err", "error", "event", "message", "msg")
_MOST_PAIRS = 40
_LONGEST_RANK = 6  # digits
# cannot save; cause: OSError: [Errno 28] No space left on device (as records in JSON are read)
_FIELD = re.compile(r"; [A-Za-z_][\w.@-]{0,30}: ")
_MOST_FIELDS = 4
_BLANK = re.compile(r"[ \t]+")
_MOST_PREFIXES = 10


def parse_line(
    text: str,
    source: str = "",
    number: int = 0,
    *,
    stream: int = 0,
    position: int = 0,
    prefix: CommonPrefix | None = None,
) -> Line:
    """Reads the prefixes of a line, colours already removed, into a `Line`. `prefix` is what stands before every line
    of the stream, where something does."""
    said = _Said()
    recorded = prefix.pattern.match(text) if prefix else None
    for match in _prefixes_of(text, recorded, prefix.label if prefix else None):
        of_recorder = recorded is not None and match.end() <= recorded.end()
        said.take(text, match, prefix.relays if prefix and of_recorder else None)
    place = said.starts[-1]
    if text.startswith("{", place):
        _take_record(said, text, place)
    pairs = _pairs_of(text, said.starts) if _LOGFMT_LEVEL.search(text) else {}
    if pairs:
        _take_pairs(said, pairs)
    elif "; " in text:
        fields = [match.end() for match in islice(_FIELD.finditer(text, place), _MOST_FIELDS)]
        said.starts[-1:] = [*fields, place]
    return Line(
        source=source,
        number=number,
        text=text,
        rank=said.rank,
        node=said.node,
        time=said.time,
        clock=said.clock,
        level=LEVELS.get(said.level, said.level) if said.level else None,
        speaker="/".join(said.speakers),
        starts=(*said.starts, *_starts_in_record(text, place, said.level)),
        stream=stream,
        position=position,
    )


@dataclass(slots=True)
class _Said:
    """What the prefixes read so far say."""

    starts: list[int] = field(default_factory=lambda: [0])
    rank: int | None = None
    of_job: bool = False
    node: str | None = None
    level: str | None = None
    clock: str | None = None
    time: float | None = None
    speakers: list[str] = field(default_factory=list)

    def take(self, text: str, match: re.Match[str], relays: str | None) -> None:
        """Adds a prefix; a level that its recorder `relays` tells nothing."""
        said = match.groupdict()
        self.starts.append(match.end())
        # [rank17]:[E ProcessGroupNCCL.cpp:523] [Rank 2]   the first counts over the job, the second within a group
        if said.get("rank") and not (self.of_job and match[0].startswith(("[Rank", "[PG"))):
            self.rank, self.of_job = int(said["rank"]), match[0].startswith("[rank")
        self.node = said.get("node") or self.node
        short = said.get("letter") or said.get("short") or ""
        named = said.get("level") or ""
        loudness = LEVELS.get(named, named) or LEVELS.get(short.upper(), self.level)
        self.level = None if said.get("relay") or (relays and relays == loudness) else loudness
        if said.get("speaker"):
            self.speakers.append(said["speaker"])
            if self.rank is None and (numbered := _PARALLEL_RANK.search(said["speaker"])):
                self.rank = int(numbered[1])
        if said.get("hms") and self.time is None:
            first = next(name for name in ("date", "us", "mon", "monthday", "hms") if said.get(name))
            self.clock = text[match.start(first) : match.end("hms")]
            self.time = _seconds(said)


def _take_record(said: _Said, text: str, place: int) -> None:
    """What a record in JSON adds."""
    told_level = _said_in_json(_JSON_LEVEL, text, place) or ""
    said.level = said.level or LEVELS.get(told_level, told_level) or None
    told = _said_in_json(_JSON_RANK, text, place)
    if said.time is None and (dated := _JSON_TIME.search(text, place)):
        said.time, said.clock = _seconds(dated.groupdict()), dated["clock"]
    said.rank = int(told) if said.rank is None and told else said.rank


def _take_pairs(said: _Said, pairs: dict[str, re.Match[str]]) -> None:
    """What `key=value` pairs add."""
    said.level = said.level or LEVELS.get(_value(pairs, *_LEVEL_KEYS).upper())
    told = _value(pairs, *_RANK_KEYS)
    if said.rank is None and told.isdecimal() and len(told) <= _LONGEST_RANK:
        said.rank = int(told)
    if said.time is None and (dated := _PAIRED_TIME.match(_value(pairs, *_TIME_KEYS))):
        said.time, said.clock = _seconds(dated.groupdict()), dated["clock"]
    for key in _TEXT_KEYS:
        if key in pairs:
            said.starts.append(pairs[key].start(2) + pairs[key][2].startswith('"'))


def _pairs_of(text: str, starts: list[int]) -> dict[str, re.Match[str]]:
    """The `key=value` pairs of a line that begins with one, or goes on with one behind a prefix; the first of equal
    keys."""
    pairs: dict[str, re.Match[str]] = {}
    if any(_PAIR.match(text, start) for start in starts):
        for match in islice(_PAIR.finditer(text), _MOST_PAIRS):
            pairs.setdefault(match[1].lower(), match)
    return pairs


def _value(pairs: dict[str, re.Match[str]], *keys: str) -> str:
    return next((pairs[key][2].strip('"') for key in keys if key in pairs), "")


def _said_in_json(pattern: re.Pattern[str], text: str, place: int) -> str | None:
    match = pattern.search(text, place)
    return match[1].upper() if match else None


def _starts_in_record(text: str, place: int, level: str | None) -> Iterator[int]:
    """Where the message of a logger's record in JSON begins, and the exception of a traceback in it."""
    # Torch's error files have such a field too, with a whole traceback, and no level.
    if level and text.startswith("{", place) and (message := _JSON_MESSAGE.search(text, place)):
        yield message.end()
    if _ESCAPED_HEADER in text and (raised := _ESCAPED_EXCEPTION.search(text, text.index(_ESCAPED_HEADER))):
        yield raised.start(1)


def _prefixes_of(text: str, recorded: re.Match[str] | None, label: re.Pattern[str] | None) -> Iterator[re.Match[str]]:
    """The prefixes of a line, one behind the other; where none is known, what the stream's recorder wrote is one, and
    anywhere its label of a rank, once."""
    place = 0
    for _ in range(_MOST_PREFIXES):
        blank = _BLANK.match(text, place) if place else None
        begin = blank.end() if blank else place
        match = (label.match(text, begin) if label else None) or _next_prefix(text, begin)
        label = None if match and match.re is label else label
        if match is None and not text.startswith('{"', place):  # a record in JSON is read as one
            match, recorded = recorded, None
        if match is None or match.end() <= place:
            return
        place = match.end()
        yield match


def _next_prefix(text: str, place: int) -> re.Match[str] | None:
    for prefix in _PREFIXES_OF.get(text[place : place + 1], ()):
        match = prefix.match(text, place)
        if match and match.end() > place:
            return match
    return None


def _seconds(said: dict[str, str | None]) -> float | None:
    """Seconds since the epoch where a date with its year is printed. Without a year as of 1972 for torch's C++, and of
    1976 for syslog: their clocks may be those of different time zones. None for a time of day alone."""
    if said.get("date"):
        year, month, day = (int(part) for part in (said["date"] or "").replace("/", "-").split("-"))
    elif said.get("us"):
        month, day, year = (int(part) for part in (said["us"] or "").split("/"))
    elif monthday := said.get("monthday"):
        year, month, day = 1972, int(monthday[:-2]), int(monthday[-2:])
    elif said.get("year"):
        year, month, day = int(said["year"] or 0), _MONTHS.get(said["mon"] or "", 0), int(said["day"] or 0)
    elif said.get("mon"):
        year, month, day = 1976, _MONTHS.get(said["mon"] or "", 0), int(said["day"] or 0)
    else:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1970 or not 1 <= month <= 12 or not 1 <= day <= _DAYS_IN_MONTH[month - 1] + (leap and month == 2):
        return None
    hours, minutes, seconds = (int(part) for part in (said["hms"] or "0:0:0").split(":"))
    # Days of the Gregorian calendar before the date, counted from a March so that leap days come last.
    years, months = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + day - 1 - 719_468
    return days * 86_400 + hours * 3600 + minutes * 60 + seconds + float(said.get("fraction") or 0)
