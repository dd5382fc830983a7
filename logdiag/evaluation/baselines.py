"""What the baselines would have answered, judged like logdiag: each is what people do today without it.

A baseline names a reason and, where it looks at lines, the line; the action is the default of the reason. None of
them knows how sure it is, so what is measured by confidence is not measured of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from logdiag.evaluation.cases import Case
from logdiag.evaluation.logs import RawLine, last_lines, lines_with
from logdiag.evaluation.scoring import Answer
from logdiag.model import Action, Reason
from logdiag.rules import RuleBook

__all__ = ["BASELINES", "available", "guess", "reason_of_class"]

_TAXONOMY = {reason.value: reason for reason in Reason if reason is not Reason.NONE}

# Exception classes whose name is not a reason's own. A class that is nowhere is Others.
_CLASSES = {
    Reason.ARGUMENT_ERROR: "ArgumentTypeError UsageError BadParameter NoSuchOption ConfigAttributeError ConfigKeyError"
    " ConfigCompositionException MissingMandatoryValue OverrideParseException",
    Reason.CONNECTION_ERROR: "BrokenPipeError ConnectionAbortedError ConnectionRefusedError ConnectionResetError"
    " ConnectTimeout ReadTimeout ReadTimeoutError TimeoutError MaxRetryError NewConnectionError HTTPError"
    " HfHubHTTPError LocalEntryNotFoundError OfflineModeIsEnabled URLError RemoteDisconnected ProtocolError SSLError"
    " DistNetworkError DistStoreError RendezvousConnectionError RendezvousTimeoutError CommError",
    Reason.CUDA_ERROR: "AcceleratorError CUDARuntimeError CudaError CudaAPIError",
    Reason.DATASET_LOADING_ERROR: "DatasetGenerationError DatasetNotFoundError DataFilesNotFoundError ArrowInvalid"
    " UnidentifiedImageError BadZipFile ParserError",
    Reason.IMPORT_ERROR: "ModuleNotFoundError",
    Reason.MODEL_LOADING_ERROR: "SafetensorError HeaderTooLarge UnpicklingError HFValidationError"
    " RepositoryNotFoundError GatedRepoError EntryNotFoundError RevisionNotFoundError CheckpointException",
    Reason.NAME_ERROR: "UnboundLocalError",
    Reason.NCCL_REMOTE_ERROR: "DistBackendError NCCLError",
    Reason.NETWORK_ERROR: "gaierror NameResolutionError",
    Reason.OS_ERROR: "IOError IsADirectoryError NotADirectoryError FileExistsError BlockingIOError InterruptedError",
    Reason.OUT_OF_MEMORY_ERROR: "MemoryError CudaOutOfMemoryError ResourceExhaustedError",
    Reason.S3_STORAGE_ERROR: "ClientError NoCredentialsError NoSuchKey NoSuchBucket EndpointConnectionError"
    " PartialCredentialsError TokenRetrievalError S3UploadFailedError",
    Reason.SYNTAX_ERROR: "IndentationError TabError JSONDecodeError ScannerError YAMLError TOMLDecodeError",
}
_REASON_OF_CLASS = {name: reason for reason, names in _CLASSES.items() for name in names.split()} | _TAXONOMY

# What a shell reports of a job: 128 + signal, or the status itself; Slurm and Python give a signal as a negative.
_EXIT_CODES = {
    0: Reason.NONE,
    2: Reason.ARGUMENT_ERROR,  # what argparse and most commands end with
    126: Reason.PERMISSION_ERROR,
    127: Reason.FILE_NOT_FOUND_ERROR,
    134: Reason.RUNTIME_ERROR,  # SIGABRT: a native crash
    135: Reason.DATALOADER_KILLED,  # SIGBUS: shared memory ran out
    136: Reason.RUNTIME_ERROR,  # SIGFPE
    137: Reason.OUT_OF_MEMORY_ERROR,  # SIGKILL: the usual killer is the kernel's
    139: Reason.RUNTIME_ERROR,  # SIGSEGV
}

# [rank3]: torch.OutOfMemoryError: CUDA out of memory   ValueError   (worker pid=7) requests.exceptions.HTTPError: 503
_EXCEPTION = re.compile(
    r"(?:^|[\s\])|])((?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Invalid|NotFound)|gaierror))"
    r"(?=:\s|:?\s*$)"
)
_MENTIONS_EXCEPTION = (b"Error", b"Exception", b"Interrupt", b"Timeout", b"Invalid", b"NotFound", b"gaierror")

_GREP = re.compile(
    r"(?i)\b(?:errors?|exceptions?|traceback|fail(?:ed|ure|s)?|fatal|killed|abort(?:ed)?|panic|timed? ?out|oom|"
    r"segmentation fault|core dumped|denied|refused|cannot|xid)\b|(?-i:\w(?:Error|Exception)\b)"
)
# Every line that the above finds holds one of these; they are looked for first, because that is fast.
_GREP_WORDS = (
    *(b"error", b"exception", b"traceback", b"fail", b"fatal", b"killed", b"abort", b"panic", b"time", b"oom"),
    *(b"segmentation fault", b"core dumped", b"denied", b"refused", b"cannot", b"xid"),
)
# First match wins, on the line that grep found.
_KEYWORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"dataloader worker", Reason.DATALOADER_KILLED),
        (r"out of memory|\boom\b|oom.kill|cannot allocate memory|bad_alloc", Reason.OUT_OF_MEMORY_ERROR),
        (r"\becc\b|xid.*\b(?:48|64|94|95)\b", Reason.ECC_ERROR),
        (r"nvlink|nvswitch|fabric.?manager|sxid|xid.*\b(?:74|14[4-9]|150)\b", Reason.NVLINK_ERROR),
        (r"(?:nccl|watchdog|collective).*time.?(?:d )?out|time.?(?:d )?out.*nccl", Reason.NCCL_TIMEOUT_ERROR),
        (r"ibv_|net/ib|infiniband|mlx5|link (?:is )?down|no route to host|name or service|name resolution",
         Reason.NETWORK_ERROR),
        (r"nccl", Reason.NCCL_REMOTE_ERROR),
        (r"\bs3\b|botocore|boto3|bucket|\bgcs\b|accessdenied|nosuchkey", Reason.S3_STORAGE_ERROR),
        (r"node.?fail|preempt|evict|node .*(?:down|not responding)|kernel panic|heartbeat", Reason.NODE_FAILURE),
        (r"cuda|cublas|cudnn|\bxid\b|\bgpu\b", Reason.CUDA_ERROR),
        (r"no space left|input/output error|too many open files|read-only file|stale|address already in use",
         Reason.OS_ERROR),
        (r"no such file", Reason.FILE_NOT_FOUND_ERROR),
        (r"permission denied", Reason.PERMISSION_ERROR),
        (r"no module named|cannot import|undefined symbol", Reason.IMPORT_ERROR),
        (r"connection|timed? ?out|refused|reset by peer|unreachable|rendezvous|tcpstore", Reason.CONNECTION_ERROR),
        (r"state_dict|checkpoint|tokenizer|safetensors", Reason.MODEL_LOADING_ERROR),
        (r"dataset", Reason.DATASET_LOADING_ERROR),
        (r"unrecognized arguments|invalid choice|usage:", Reason.ARGUMENT_ERROR),
        (r"non-zero exit status", Reason.CALLED_PROCESS_ERROR),
    )
)  # fmt: skip

# The labels of gpualert's classifier, read as generously as their words allow. A bare traceback names no cause.
_GPUALERT = {
    "GPU out-of-memory (CUDA OOM)": Reason.OUT_OF_MEMORY_ERROR,
    "NCCL communication error": Reason.NCCL_REMOTE_ERROR,
    "CUDA runtime error": Reason.CUDA_ERROR,
    "System out-of-memory (RAM)": Reason.OUT_OF_MEMORY_ERROR,
    "Segmentation fault": Reason.RUNTIME_ERROR,
    "File not found": Reason.FILE_NOT_FOUND_ERROR,
    "Permission denied": Reason.PERMISSION_ERROR,
    "Missing Python module": Reason.IMPORT_ERROR,
    "Division by zero": Reason.ZERO_DIVISION_ERROR,
    "Tensor device mismatch": Reason.RUNTIME_ERROR,
    "NaN detected in loss": Reason.OTHERS,
    "Process killed by OS (OOM)": Reason.OUT_OF_MEMORY_ERROR,
    "Assertion failed": Reason.ASSERTION_ERROR,
    "Python RuntimeError": Reason.RUNTIME_ERROR,
    "Python exception (traceback)": Reason.OTHERS,
}
# gpualert classifies the last 50 lines of standard output and of standard error; a case holds both as one.
_GPUALERT_LINES = 100


@dataclass(frozen=True, slots=True)
class _Guess:
    reason: Reason
    line: RawLine | None = None


def available(names: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The baselines that can run here, and a note for each that cannot."""
    wanted = names or tuple(BASELINES)
    if "gpualert" in wanted and find_spec("gpualert") is None:
        note = "the baseline gpualert is left out: the package is not installed; pip install gpualert adds it"
        return tuple(name for name in wanted if name != "gpualert"), (note,)
    return wanted, ()


def guess(name: str, case: Case, book: RuleBook) -> Answer:
    """The answer of one baseline."""
    made = BASELINES[name](case)
    entry = book.reasons.get(made.reason)
    return Answer(
        reason=made.reason,
        action=Action(entry.action) if entry else Action.NONE,
        confidence=None,
        decided_by=name,
        root=made.line if made.reason is not Reason.NONE else None,
        names_lines=name != "gpualert",
        names_ranks=False,
    )


def reason_of_class(name: str) -> Reason:
    """The reason that an exception class stands for by its name alone."""
    return _REASON_OF_CLASS.get(name.rsplit(".", 1)[-1], Reason.OTHERS)


def _exit_code_or_last_line(case: Case) -> _Guess:
    """The job's exit code where it tells more than "failed"; else the class that the last line names."""
    last = next(iter(last_lines(case.pieces(), 1)), None)
    code = case.exit_code
    if code is not None:
        known = _EXIT_CODES.get(128 - code if code < 0 else code)
        if known is not None:
            return _Guess(known, last)
    named = _EXCEPTION.search(last[2]) if last else None
    if named:
        return _Guess(reason_of_class(named[1]), last)
    return _Guess(Reason.OTHERS, last) if code else _Guess(Reason.NONE)


def _last_exception(case: Case) -> _Guess:
    """The class of the last exception that the log prints."""
    last = None
    for line in lines_with(case.pieces(), _MENTIONS_EXCEPTION):
        if named := _EXCEPTION.search(line[2][:2000]):
            last = _Guess(reason_of_class(named[1]), line)
    return last or _Guess(Reason.NONE)


def _keyword_grep(case: Case) -> _Guess:
    """The first line that `grep -i -m1 error` and its kind find, read by keyword."""
    for line in lines_with(case.pieces(), _GREP_WORDS, fold=True):
        text = line[2][:10_000]
        if _GREP.search(text):
            named = _EXCEPTION.search(text[:2000])
            by_class = reason_of_class(named[1]) if named else Reason.OTHERS
            by_word = next((reason for pattern, reason in _KEYWORDS if pattern.search(text)), by_class)
            return _Guess(by_word, line)
    return _Guess(Reason.NONE)


def _gpualert(case: Case) -> _Guess:
    """The gpualert package's classifier, on what that package shows it. It names no line."""
    if case.exit_code == 0:
        return _Guess(Reason.NONE)  # it looks only at jobs that failed
    tail = "\n".join(text for _, _, text in last_lines(case.pieces(), _GPUALERT_LINES))
    classify = import_module("gpualert.parse_errors").parse_errors
    label = classify("", tail, case.exit_code or 0).split("\n", 1)[0]
    return _Guess(_GPUALERT.get(label, Reason.OTHERS) if label else Reason.NONE)


BASELINES: dict[str, Callable[[Case], _Guess]] = {
    "exit code / last line": _exit_code_or_last_line,
    "last exception": _last_exception,
    "keyword grep": _keyword_grep,
    "gpualert": _gpualert,
}
