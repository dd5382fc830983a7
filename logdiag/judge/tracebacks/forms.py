"""What the parts of tracebacks look like: Python's own, notebooks', groups of exceptions, rich's boxes, and what stands
around them."""

from __future__ import annotations

import re

HEADER = re.compile(r"Traceback \(most recent call last\)")
ESCAPED = re.compile(r"Traceback \(most recent call last\):?\\n")
RELAYED_HEADER = re.compile(r"Original Traceback|Error: Traceback|Exception: Traceback|RemoteTraceback")
FRAME = re.compile(r'^(?P<indent>[\s|>]*)File "[^"]*", line \d+')
# KeyError                                  Traceback (most recent call last)   (a notebook's)
NOTEBOOK_HEADER = re.compile(r"^(?P<name>[A-Z]\w*) {2,}Traceback \(most recent call last\)\s*$")
# Cell In[7], line 5   File ~/net.py:12, in fit(x)   /opt/net.py in fit(x)   ---> 12 loss = f(x)   [... skipping ...]
OF_A_NOTEBOOK = re.compile(
    r"^(?:\s*(?:-+> ?)?\d+(?:\s|$)|(?:File|Cell|Input In) ?\S|<[\w -]+>|[~/\w][^\s:]* in [\w<]|[A-Z]:\\|\s*\(?\.\.\.|"
    r"\[\.\.\. skipping|\s*$)"
)
#     | KeyError: 'a'   (what stands before each line of a group of exceptions)
GROUP = re.compile(r"^(?: +\|)+ ?|^ +\+ (?=Exception Group)")
#   +-+---------------- 1 ----------------   (and above the first of its exceptions)
FIRST_OF_A_GROUP = re.compile(r"^ *\+(?:-\+)?-+ 1 -+$")
BOX = re.compile(r"^\s*[\u2502\u256d\u2570|+]")
CARETS = re.compile(r"^[\s|]*[\^~]+[\s^~]*$")
REPEATED = re.compile(r"\[Previous line repeated \d+ more times?\]")
CAUSE = re.compile(r"The above exception was the direct cause of the following exception")
CONTEXT = re.compile(r"During handling of the above exception, another exception occurred")
# ValueError: boom   torch.cuda.OutOfMemoryError: ...
# ray.exceptions.RayTaskError(KeyError): ...   AssertionError   socket.timeout: ...   but not the level of `ERROR: ...`
FINAL = re.compile(
    r"^(?P<name>(?!(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b)(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|\w*(?:error|timeout|Error|Exception)))"
    r"(?:\([\w., ]*\))?(?P<rest>: ?.*|\s*)$"
)
# AttributeErrorAttributeError: : no attribute ... (two processes wrote at once)
DOUBLED = re.compile(r"^(?P<name>(?:\w+\.)*[A-Za-z]\w*?(?:Error|Exception))(?P=name)+[: ]*(?P<rest>.*)$")
CLASS_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|Failed|Killed|Abort(?:ed)?|Warning|error)$"
)
# /opt/conda/lib/python3.11/site-packages/tools/typing.py:68: UserWarning: no such library (Python's warnings module)
WARNED = re.compile(r"\.py:\d+: [A-Z]\w{0,60}Warning: ")
# raise ReadError("unexpected end of data")
RAISE = re.compile(r"raise (?P<name>[A-Za-z_][\w.]*)\((?:f?(?P<quote>[\"'])(?P<text>[^\"'{]*))?")
IN_THREAD = re.compile(r"Exception in thread")
# `logger.exception` prints such a record and the traceback below it; after a FATAL one, of native code, nothing comes.
LEVELS_OF_TROUBLE = frozenset({"WARNING", "ERROR", "CRITICAL"})
# [rank3]: Traceback (most recent call last):   which is what torch prints when nothing caught it
UNCAUGHT = re.compile(r"\[rank\d+\]: Traceback")
# [W1122 14:21:53.068801861 socket.cpp:207] [c10d] ...   (which prints no traceback of Python's)
OF_NATIVE_CODE = re.compile(r"\.(?:cpp|cc|cu|h|go|rs):\d+\]")
