"""What the parts of tracebacks look like: Python's own, notebooks', groups of exceptions, rich's boxes, and what stands
around them."""

from __future__ import annotations

from logdiag.patterns import pattern_of

HEADER = pattern_of(r"Traceback \(most recent call last\)")
ESCAPED = pattern_of(r"Traceback \(most recent call last\):?\\n")
RELAYED_HEADER = pattern_of(r"Original Traceback|Error: Traceback|Exception: Traceback|RemoteTraceback")
FRAME = pattern_of(r'^(?P<indent>[\s|>]*)File "[^"]*", line \d+')
_FRAME_OF_NATIVE_CODE = (
    # python(PyEval_EvalCode+0x9f) [0x55fc]   [ 3] /lib64/libc.so.6(+0x3d900)[0x7f00]   (glibc's)
    r"(?:\[?[\d ]{1,3}\]? +)?\S{1,200}\((?:.{1,300})?\+0x[0-9a-f]+\) ?\[0x[0-9a-f]+\]|"
    # libc.so.6   000015493FE1D900  Unknown   Unknown  Unknown   (Intel's Fortran, and its heading)
    r"\S{1,200} +[0-9A-F]{16} +\S.{0,200} (?:Unknown|\d{1,7}) +\S+$|Image +PC +Routine +Line +Source|"
    # 1: 0xb7a940 node::Abort()   12: core::ops::call_once   6: log/log.go:259:log.If()   (of Node.js, Rust, MinIO)
    r"\d{1,3}: +(?:0x[0-9a-f]{6,16} (?:\[|- |\S+\()|<?\w+(?:::[\w<>$]+){2,20}$|\S{1,200}\.go:\d+:\S+\)$)|"
    # /src/mill/main.go:12 +0x1d   [3] solve(x) @ Mill mill.jl:12   stp$step_@step.F90:261   (of Go, Julia, Cray's ATP)
    r"\S{1,200}\.go:\d+ \+0x[0-9a-f]+$|\[\d{1,3}\] .{1,200} (?:@|at) .{0,100}\.jl:\d+|"
    r"[\w$.]{2,120}@(?:[\w.-]{1,120}\.\w{1,4}:\d+|0x[0-9a-f]+)$|"
    # ? do_syscall_64+0x5b/0x80 [ext4]   (the kernel's)
    r"(?:\[<[0-9a-f]{8,16}>\] )?(?:\? )?[\w.]{2,120}\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\w+\])?$"
)
NATIVE_FRAME = pattern_of(rf"^\s*(?:{_FRAME_OF_NATIVE_CODE})")
# File "net.py", line 3   at Mill.Check.Equal(Int64 a) in /src/Check.cs:line 20   at java.lang.Thread.run(...)
FRAME_OF_ANY = pattern_of(rf"^[\s|>]*(?:File \"[^\"]*\", line \d|at [\w.$<>`]+\(|{_FRAME_OF_NATIVE_CODE})")
# + mkdir /data   ++ stage.sh[38]ROWS=12   (a shell's trace of the commands that it runs, by `set -x`)
OF_A_SHELL = pattern_of(r"^\+{1,9} \S")
# === queuectl log -g tasks (utc) ===   ---- stderr of worker 3 ----   ## run 2 ##   (a title of what follows; but
# === JOB FAILED: disk is full === may be all that a program says)
TITLE = pattern_of(
    r"^\s*(?P<ruler>={3,}|-{3,}|#{2,}) ?"
    r"(?!.*\b(?i:errors?|fatal|fail\w*|abort\w*|crash\w*|panic\w*|lost|killed|out of)\b)\S.*\S ?(?P=ruler)\s*$"
)
# KeyError                                  Traceback (most recent call last)   (a notebook's)
NOTEBOOK_HEADER = pattern_of(r"^(?P<name>[A-Z]\w*) {2,}Traceback \(most recent call last\)\s*$")
# Cell In[7], line 5   File ~/net.py:12, in fit(x)   /opt/net.py in fit(x)   ---> 12 loss = f(x)   [... skipping ...]
OF_A_NOTEBOOK = pattern_of(
    r"^(?:\s*(?:-+> ?)?\d+(?:\s|$)|(?:File|Cell|Input In) ?\S|<[\w -]+>|[~/\w][^\s:]* in [\w<]|[A-Z]:\\|\s*\(?\.\.\.|"
    r"\[\.\.\. skipping|\s*$)"
)
#     | KeyError: 'a'   (what stands before each line of a group of exceptions)
GROUP = pattern_of(r"^(?: +\|)+ ?|^ +\+ (?=Exception Group)")
#   +-+---------------- 1 ----------------   (and above the first of its exceptions)
FIRST_OF_A_GROUP = pattern_of(r"^ *\+(?:-\+)?-+ 1 -+$")
BOX = pattern_of(r"^\s*[\u2502\u256d\u2570|+]")
CARETS = pattern_of(r"^[\s|]*[\^~]+[\s^~]*$")
REPEATED = pattern_of(r"\[Previous line repeated \d+ more times?\]")
CAUSE = pattern_of(r"The above exception was the direct cause of the following exception")
CONTEXT = pattern_of(r"During handling of the above exception, another exception occurred")
# ValueError: boom   torch.cuda.OutOfMemoryError: ...
# ray.exceptions.RayTaskError(KeyError): ...   AssertionError   socket.timeout: ...   but not the level of `ERROR: ...`
FINAL = pattern_of(
    r"^(?P<name>(?!(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b)(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|\w*(?:error|timeout|Error|Exception)))"
    r"(?:\([\w., ]*\))?(?P<rest>: ?.*|\s*)$"
)
# AttributeErrorAttributeError: : no attribute ... (two processes wrote at once)
DOUBLED = pattern_of(r"^(?P<name>(?:\w+\.)*[A-Za-z]\w*?(?:Error|Exception))(?P=name)+[: ]*(?P<rest>.*)$")
CLASS_NAME = pattern_of(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|Failed|Killed|Abort(?:ed)?|Warning|error)$"
)
# /opt/conda/lib/python3.11/site-packages/tools/typing.py:68: UserWarning: no such library (Python's warnings module)
WARNED = pattern_of(r"\.py:\d+: [A-Z]\w{0,60}Warning: ")
# raise ReadError("unexpected end of data")
RAISE = pattern_of(r"raise (?P<name>[A-Za-z_][\w.]*)\((?:f?(?P<quote>[\"'])(?P<text>[^\"'{]*))?")
# File "train.py", line 12, in <module>   File "<frozen runpy>", line 198, in _run_module_as_main
OUTERMOST = pattern_of(r"<module>|<frozen |\bin _?bootstrap|_bootstrap\b|\bin _wrap\b")
# Process Process-1:   Process ForkServerPoolWorker-3:   (multiprocessing, above the traceback of a child that ended)
OF_A_PROCESS = pattern_of(r"^Process [A-Z][\w-]{0,60}:\s*$")
IN_THREAD = pattern_of(r"Exception in thread")
# Original exception was:   (below the traceback of what was to print it: `Error in sys.excepthook:`)
ORIGINAL = pattern_of(r"^Original exception was:\s*$")
# `logger.exception` prints such a record and the traceback below it; after a FATAL one, of native code, nothing comes.
LEVELS_OF_TROUBLE = frozenset({"WARNING", "ERROR", "CRITICAL"})
# [rank3]: Traceback (most recent call last):   which is what torch prints when nothing caught it
UNCAUGHT = pattern_of(r"\[rank\d+\]: Traceback")
# [W1122 14:21:53.068801861 socket.cpp:207] [c10d] ...   (which prints no traceback of Python's)
OF_NATIVE_CODE = pattern_of(r"\.(?:cpp|cc|cu|h|go|rs):\d+\]")
