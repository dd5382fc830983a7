"""Finds the host of the root in the lines of launchers, schedulers and shells."""

from __future__ import annotations

from collections.abc import Sequence

from logdiag.model import Line, with_nines
from logdiag.patterns import pattern_of

# gpu-07   ip-10-0-2-7.ec2.internal   10.0.2.7   (a plain word or a bare number is none, unless a launcher says so)
_HOST = r"(?P<node>(?=[\w.-]*[\d.-])(?!\d+(?:\.\d+)?(?![\w.-]))\w[\w.-]{1,119}(?<![.-]))"
_FORMS = tuple(
    pattern_of(form.replace("HOST", _HOST))
    for form in (
        # slurmstepd: error: *** JOB 4711 ON gpu-07 CANCELLED AT ...
        r"\*\*\* (?:JOB|STEP) \S{1,40} ON (?P<node>[\w.-]{1,120}) CANCELLED ",
        # srun: error: gpu-07: task 3: Exited with exit code 1
        r"\bsrun: error: (?P<node>[\w.-]{1,120}): tasks? \d",
        # mpirun noticed that process rank 3 with PID 812 on node gpu-07 exited on signal 9
        r" with PID \d{1,9} on node (?P<node>[\w.-]{1,120}) ",
        # [proxy:0:0@gpu-07] HYD_pmcd_pmip_control_cmd_cb   (not [mpiexec@head]: that runs where the job was started)
        r"^\[proxy:\d+:\d+@(?P<node>[\w.-]{1,120})\]",
        # MPICH ERROR [Rank 5] [job id 40.0] [Tue Dec 12 17:52:24 2025] [nid001097] - Abort(404347151)
        r"\] \[(?P<node>[\w.-]{1,120})\] - Abort\(",
        # [1726132598.976312] gpu-07:rank0.train: Failed to modify UD QP   (PSM3)   gpu-07:rank3: (PSM2)
        r"(?:^|\] )HOST:rank\d{1,6}(?:\.\S{1,80})?: ",
        # gpu-07 to: gpu-09 error polling LP CQ with status   (of the two the first speaks)
        r"(?:^|\bfrom )HOST to: \S{1,120}(?: |$)",
        # _pmiu_daemon(SIGCHLD): [NID 03834] [c7-1c2s14n2] [Sat Aug 18 03:48:09 2018]
        r"\[NID \d{1,9}\] \[HOST\] \[",
        # Job was executed on host(s) <16*gpu-07>, in queue <gpu>   (LSF)
        r"^Job was executed on host\(s\) <(?:\d{1,6}\*)?(?P<node>[\w.-]{1,120})>",
        # Error from slot1_2@gpu-07: Failed to execute ...   Error from starter on gpu-07.example.org:   (HTCondor)
        r"^\s*Error from (?:slot\w{1,20}@|starter on )(?P<node>[\w.-]{1,120}): ",
        # unable to run job, send to MOM 'gpu-07' failed
        r"\bto MOM '(?P<node>[\w.-]{1,120})'",
        # Message from syslogd@gpu-07 at Apr 22 16:14:35 ...
        r"^Message from syslogd@(?P<node>[\w.-]{1,120}) at ",
        # Successfully assigned train/trainer-0 to gpu-07
        r"\bSuccessfully assigned \S{1,200} to (?P<node>[\w.-]{1,120})",
        # Warning  Evicted  18m  kubelet, gpu-07  The node was low on resource   {kubelet gpu-07}
        r"\bkubelet(?:, |\s)HOST(?=[\s}])",
        # Node:   gpu-07/10.0.2.7   NodeName=gpu-07   hostname:  gpu-07   Local host: gpu-07   nodeName: gpu-07
        r"(?:^|[\s,{(\"])(?:Node|NodeName|nodeName|[Hh]ost(?:[Nn]ame)?|Local host|exec_host|BatchHost)\"?"
        r"\s{0,12}[:=]\s{0,24}\"?HOST(?=[\s/,;\")]|$)",
        # (ip=10.0.2.7)   Owner Ip address: 10.0.2.7   node_ip: 10.0.2.7   (Ray)
        r"(?:^\s*ip|\bnode_ip(?:_address)?|\bIp address)\s?[:=]\s?(?P<node>\d{1,3}(?:\.\d{1,3}){3})\b",
        # ... on worker-0, rank = 0 in MultinodeMemoryAllocation
        r"\bon HOST, rank = \d",
        # error reading from MOM on node gpu-07   the daemon on host gpu-07 failed
        r"\bon (?:the )?(?:node|host|machine):? HOST(?![\w/])",
    )
)
# root@gpu-07:~#   [ada@gpu-07 run]$   [ada@gpu-07] (41)$   (base) ada@gpu-07:~$   nid00094 ~/run$   (tried last:
# whoever looked at the log may have been elsewhere)
_PROMPT = pattern_of(
    r"^(?:\(\S{1,40}\) )?(?:\[?[a-z_][\w.-]{0,31}@(?P<node>[A-Za-z][\w.-]{0,80})"
    r"(?::|(?: [^\]\n]{1,80})?\])[^#$\n]{0,80}[#$]"
    r"|(?P<bare>[a-z][\w.-]*\d) [~/][^ ]{0,80}[#$])(?: |$)"
)


def host_in_lines(root: Line, lines: Sequence[Line]) -> str | None:
    """The host that the root's line names; else the only one that any line names, or that a shell's prompt shows; None
    for none or several."""
    if in_root := _hosts_in([root]):
        return in_root.pop() if len(in_root) == 1 else None
    in_lines = _hosts_in(lines) or {
        match["node"] or match["bare"] for line in lines if (match := _PROMPT.match(line.text))
    }
    return in_lines.pop() if len(in_lines) == 1 else None


def is_prompt(line: Line) -> bool:
    """Whether a line shows a shell's prompt."""
    return _PROMPT.match(line.text) is not None


def _hosts_in(lines: Sequence[Line]) -> set[str]:
    # No form asks for a certain digit: of lines that differ in digits only, one is enough to see whether any matches.
    text_by_shape = {with_nines(line.text): line.text for line in lines}
    with_host = {shape for shape, text in text_by_shape.items() if any(form.search(text) for form in _FORMS)}
    texts = (line.text for line in lines if with_nines(line.text) in with_host) if with_host else ()
    return {match["node"] for text in texts for form in _FORMS for match in form.finditer(text)}
