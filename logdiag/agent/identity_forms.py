"""Finds who and where in log text: e-mail addresses, user names, host names, network and hardware addresses.

A host or a user has no form of its own: it is known by what stands around it, and once known it is hidden wherever it
stands alone. What diagnosis needs stays: PCI addresses, module and library paths, file:line, ports, versions, times.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import resources

__all__ = ["KINDS", "hide_identities", "hide_names", "is_common", "learnable", "members_of", "names_in"]

KINDS = ("host", "user", "ip", "mac", "email", "name", "pod", "bucket", "device")
"""What is hidden under a pseudonym that is mapped back, beside secrets."""

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?){0,8}"
_HOSTS = rf"{_HOST}(?:[\w.-]{{0,20}}\[[\d,-]{{1,200}}\][\w.-]{{0,60}}|(?:,{_HOST}){{1,2000}})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_HOST_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        # node-004:118301:118301 [0] NCCL INFO
        rf"(?<![\w.:/-])(?P<host>{_HOST}):\d{{1,8}}:\d{{1,8}} \[-?\d{{1,3}}\] ",
        # May 15 09:14:36 node-7 kernel:   2026-05-15T09:14:36.1+02:00 node-7 slurmd[3121]:
        rf"\b{_MONTH} {{1,2}}\d{{1,2}} \d\d:\d\d:\d\d (?P<host>{_HOST}) [\w./()@-]{{1,60}}(?:\[\d+\])?:",
        rf"\b\d{{4}}-\d\d-\d\dT[\d:.,]{{8,18}}(?:Z|[+-]\d\d:?\d\d)? (?P<host>{_HOST}) [\w./()@-]{{1,60}}(?:\[\d+\])?: ",
        # srun: error: node-17: task 3   ON node-004 CANCELLED   slurmstepd-node17:   Node node-3 is down
        rf"\b(?:srun|sbatch|slurmstepd|slurmd|mpirun|pdsh|prted|orted): (?:error: )?(?P<host>{_HOST}): ",
        rf" ON (?P<host>{_HOSTS}) (?:CANCELLED|FAILED|KILLED)",
        # hostname=x   "host": "x"   MASTER_ADDR=x   --master_addr x   host='x', port   nodelist=node-[003-010]
        r"(?i)(?<![A-Za-z])(?:(?:node|host)(?:[_-]?(?:name|list))?s?|nodeaddr|master[_-]?addr(?:ess)?|(?:main|head)[_-]?"
        r"(?:node|process[_-]?ip)|batchhost|rdzv[_-]?endpoint|(?:rdzv|dist|init)[_-]?(?:host|method))"
        rf"(?:\\*[\"'])?[ \t]*(?:[=:]|(?<=addr) |(?<=address) |(?<=endpoint) |(?<=list) )[ \t]*(?:\\*[\"'])?(?:tcp://)?"
        rf"(?P<host>{_HOSTS})(?![\w(])",
        # [node-17]:29500   connect to [node-17, 29500]   (node-17, 29500)
        rf"\[(?P<host>{_HOST})\]:\d{{2,5}}\b",
        r"(?:[Cc]onnect\w*|[Ll]isten\w*|[Bb]ind|[Ss]ocket|[Ss]tore|[Ss]erver|[Aa]ddress)[^\n\[(]{0,80}"
        rf"[\[(](?:\\*[\"'])?(?P<host>{_HOST})(?:\\*[\"'])?, ?\d{{2,5}}[\])]",
        # https://x/   tcp://x:29500   not the bucket of s3://x
        rf"\b(?:https?|tcp|grpcs?|wss?|ssh|git|rediss?|postgres(?:ql)?(?:\+\w+)?|mysql(?:\+\w+)?|mongodb(?:\+srv)?|amqps?|"
        rf"ldaps?|ftp|nfs|rpc|ucx|gloo|ray|etcd|mlflow|kafka|smb|hdfs)://(?:[^\s/@\"']{{1,80}}@)?(?P<host>{_HOST})"
        r"(?=[:/?#\s\"')\],;>]|$)",
        # node-17:29500
        r"(?<![\w./-])(?P<host>[a-z][a-z0-9]{0,20}-[a-z0-9-]{0,30}\d[a-z0-9-]{0,20}(?:\.[a-z0-9-]{1,40}){0,6})"
        r":\d{4,5}(?![\w:.])",
        # on host x   connect to host x   Could not resolve host: x   from node x
        rf"\b(?:on|to|from|at|of|resolve|by|with|lost|remote|unknown|compute|peer)(?: the)? "
        rf"(?:host|node|server|machine)s?:? (?:\\*[\"'])?(?P<host>(?=[\w-]*[a-z])(?=[\w.-]*[\d.-]){_HOSTS})(?![\w(])",
        # rank 3, node q7n3b8000   host cn4a
        rf"\b(?:[Nn]ode|[Hh]ost|[Mm]achine):? (?P<host>(?=[\w-]*[a-z])(?=[\w.-]*\d)(?!v?\d+\b){_HOST})(?![\w(=])",
        # tesla<38752>   (a host and the port that NCCL listens at)
        rf"(?<![\w.:<])(?P<host>(?=[\w.-]*[a-z]){_HOST})<\d{{4,5}}>",
        # What clusters call their machines: node-17, dgx-h100-03, nid001234, ip-10-0-1-2
        r"(?i)(?<![\w.-])(?<!numa )(?<!numa_)(?P<host>(?:[a-z]+-)?(?:gpu-?)?"
        r"(?:node|host|dgx|hgx|nid|compute|cnode|rack)-?(?:[a-z]{1,8}\d{0,4}-)?[a-z]{0,3}\d[a-z0-9-]*(?:\.[a-z0-9-]+)*|ip(?:-\d{1,3}){4}(?:\.[a-z0-9-]+)*)(?![\w(=])",
    )
)
# node-17: at the start of lines, as pdsh writes it. A setting looks the same, but what follows it is one value.
_SPEAKER = re.compile(r"(?m)^(?P<head>(?:s\d+:\d+ ?\| )?)(?P<host>[a-z][a-z0-9.-]{0,61}\d[a-z0-9-]*): (?=[A-Za-z\[/])")
_FEWEST_SPOKEN = 3
_NO_SPEAKER = re.compile(
    r"python|cuda|rank|gpu\d{0,2}$|layer|epoch|step|iter|stage|worker|default|lib|.*\.(?:py|sh|so)\b"
)
_NAMED = re.compile(
    r"(?<![\w.@/-])(?P<host>(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?\.){1,8}"
    r"(?:com|org|net|edu|gov|mil|info|biz|io|ai|dev|cloud|app|tech|xyz|local|localdomain|internal|lan|corp|intra|intranet|"
    r"home|cluster|private|hpc|svc|test|example|invalid|eu|de|uk|us|fr|ch|at|nl|be|se|no|fi|dk|pl|cz|it|es|jp|cn|kr|tw|"
    r"sg|au|nz|ca|br|ru|il|sa|ae))(?![\w-]|\.\w|\()"
)
# Names of modules and methods end like that too: threading.local, skimage.io, google.cloud.
_MODULE_LIKE = frozenset(
    {
        "local",
        "io",
        "ai",
        "dev",
        "cloud",
        "app",
        "test",
        "home",
        "private",
        "net",
        "com",
        "at",
        "be",
        "it",
        "no",
        "se",
        "us",
        "fi",
    }
)
_PUBLIC = re.compile(
    r"(?i)(?P<inner>.*?)(?P<public>(?:(?:^|(?<=\.))(?:s3|s3-[a-z0-9-]+|sts|ec2|ecr|dkr|blob|dfs|queue|table|file|core|storage|"
    r"api|[a-z]{2}(?:-[a-z]+){1,2}-\d|dualstack|oss-[a-z0-9-]+|cdn-lfs[\w-]*|cas-bridge|www|pypi|files|raw|download|"
    r"registry-1|auth|docs|developer|transfer|cos)\.)*(?:^|(?<=\.))(?:"
    r"amazonaws\.com(?:\.cn)?|googleapis\.com|google\.com|windows\.net|azure\.com|azurecr\.io|microsoft\.com|aliyuncs\.com|"
    r"myqcloud\.com|cloudflarestorage\.com|huggingface\.co|hf\.co|github\.com|githubusercontent\.com|gitlab\.com|"
    r"pytorch\.org|pypi\.org|pythonhosted\.org|python\.org|nvidia\.com|tensorflow\.org|wandb\.ai|comet\.com|neptune\.ai|"
    r"openai\.com|anthropic\.com|docker\.com|docker\.io|ghcr\.io|quay\.io|nvcr\.io|gcr\.io|conda\.io|anaconda\.com|"
    r"anaconda\.org|ubuntu\.com|debian\.org|kernel\.org|wikipedia\.org|stackoverflow\.com|readthedocs\.io|ray\.io|"
    r"modelscope\.cn|k8s\.io|kubernetes\.io|apache\.org|slurm\.schedmd\.com|pydantic\.dev|langchain\.com|gnu\.org|"
    r"numpy\.org|scipy\.org|scikit-learn\.org|lightning\.ai|deepspeed\.ai|json\.org|w3\.org|ietf\.org|googlesource\.com))"
)
_LOCAL = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "cluster.local", "svc.cluster.local"})

_EMAIL = re.compile(
    r"(?<![\w.+/-])(?P<email>[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,18})(?![\w-])"
)
_AT_HOST = re.compile(rf"(?<![\w.+-])(?P<user>[a-z_][\w.-]{{0,31}})@(?P<host>{_HOST})(?![\w@])")

_IN_PATH = re.compile(
    r"(?P<folder>/(?:home|Users|users|usr/people|u|scratch|fsx|nethome|homes|homedirs?|user|nfs_home|work/users)/"
    r"|[A-Za-z]:\\{1,2}Users\\{1,2})"
    r"(?P<user>[A-Za-z][A-Za-z0-9_.-]{1,31}(?<![.-]))"
)
# /fsx/erin/ckpt   /scratch/proj42/frank/run   /mnt/lustre/teams/vision/x: people and projects come first there
_SHARED_PATH = re.compile(
    r"(?<![\w.])(?P<root>(?:/(?:mnt|data|nfs|gpfs|lustre|vast|weka|beegfs|efs|fsx|scratch|work|project|projects|runs|"
    r"storage|shared|archive|groups?|teams?|customers?|clients?|tenants?|accounts?|workspaces?|store|proj|p)\d{0,3})+/)"
    r"(?P<folders>(?:[^/\s\"'<>|:,;()\[\]{}=]{1,64}/){1,3})"
)
_USER_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![\w/~])~(?P<user>[a-z][\w-]{1,31})(?=/)",
        r"(?i)(?<![A-Za-z])(?:user(?:_?name)?|login|logname|job_?owner|submitted[_ ]by|run_as|sudo_user)"
        r"(?:\\*[\"'])?[ \t]*[=:][ \t]*(?:\\*[\"'])?(?P<user>[A-Za-z][\w.-]{1,31}(?<![.-]))(?![\w(./:-])",
        r"(?i)(?<![A-Za-z])user(?:id)?=(?P<user>[A-Za-z][\w.-]{1,31})\(\d+\)|\b[ug]id=\d+\((?P<user2>[A-Za-z][\w.-]{1,31})\)",
        r"\b(?:opened|closed) for user (?P<user>[a-z][\w.-]{1,31})"
        r"|\b(?:password|publickey) for (?:invalid user )?(?P<user2>[a-z][\w.-]{1,31})",
        r"(?i)\blog(?:ged |ging )?[io]n as:? (?P<user>[a-z][\w.-]{1,31}(?<![.-]))|\b(?:by|for|to|of|as|from) user "
        r"[\"']?(?P<user2>[a-z][\w.-]{1,31}(?<![.-]))",
        r"(?i)authentication failed for user [\"']?(?P<user>[a-z][\w.-]{1,31})"
        r"|(?:sbatch|srun|squeue|su)\b[^\n]{0,60} (?:-u|--user(?:name)?|-l)[ =](?P<user2>[a-z][\w.-]{1,31})",
        r"(?m)[d-][rwxsStT-]{9}[.+@]? +\d+ (?P<user>[a-z][\w.-]{1,31}) +(?P<user2>[a-z][\w.-]{1,31}) +\d",
    )
)

_OTHER_FORMS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        # s3://acme-secret-bucket/x   bucket='acme-runs'   BucketName: acme-runs
        ("bucket", r"\b(?:s3[an]?|gs|gcs|oss|cosn?|obs|tos|r2|b2|swift|az|abfss?|wasbs?)://(?P<bucket>[\w.-]{2,63}\w)"),
        (
            "bucket",
            r"(?i)\bbucket(?:[_-]?name)?(?:\\*[\"'])?(?:[ \t]*[:=][ \t]*(?:\\*[\"'])?|[ \t]+[\"'`])"
            r"(?P<bucket>[a-z0-9][\w.-]{1,61}\w)",
        ),
        # https://wandb.ai/acme-team/llama/runs/x1
        (
            "name",
            r"(?i)(?<![\w.-])(?:www\.)?(?:wandb\.ai|comet\.com|app\.neptune\.ai|app\.clear\.ml|swanlab\.cn)/(?:o/)?@?"
            r"(?P<name>[\w.-]{2,80})(?:/(?P<name2>[\w.-]{2,80}))?",
        ),
        # AccountName=acme   --account=proj42   "project": "merger"   SLURM_JOB_ACCOUNT=x   customer: y
        (
            "name",
            r"(?i)(?<![a-z])(?:account|project|customer|tenant|organi[sz]ation|entity|team|namespace|billing[_-]?code)"
            r"(?:[_-]?(?:name|id))?(?:\\*[\"'])?[ \t]*[=:][ \t]*(?:\\*[\"'])?(?P<name>[a-z][\w.-]{1,80}(?<![.-]))"
            r"(?![\w(.:])",
        ),
        # pod llm-train-heidi-worker-3   pod="team-a/llm-train-heidi-worker-3"   pods "llm-train-heidi-worker-3"
        (
            "pod",
            r"(?i)\bpods?(?:[_-]?name)?(?:\\*[\"'])?(?:[ \t]*[:=/][ \t]*|[ \t]+)(?:\\*[\"'])?"
            r"(?:(?P<pod2>[a-z0-9][a-z0-9.-]{1,62})/)?(?P<pod>(?=[a-z0-9.]*-)[a-z0-9][a-z0-9.-]{1,80}[a-z0-9])",
        ),
        # GPU-6f1c2b8e-90a4-5d37-b0e2-3c41d7a95f18   Serial Number : 1654123012345
        ("device", r"\b(?P<device>(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"),
        (
            "device",
            r"(?i)\bserial(?:[ _-]?(?:number|num|no))?\.?(?:\\*[\"'])?[ \t]*[:=#]?[ \t]*(?:\\*[\"'])?"
            r"(?P<device>(?=[a-z-]*\d)[a-z0-9][a-z0-9-]{5,40})",
        ),
    )
)

_IPV4 = re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w+]|\.\d|-\w)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{3,39}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])")
_MAC = re.compile(r"(?i)(?<![\w:-])[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5,19}|(?:-[0-9a-f]{2}){5})(?![\w:-])")
_VERSION_BEFORE = re.compile(
    r"(?i)(?:version|driver|release|nccl|cuda|cudnn|cublas|toolkit|build|firmware|runtime|torch|python|pip|package|lib\w*|"
    r"ver|v|rev|[=<>~!]=|@)[\s:=v'\"(,-]*$"
)
_KEPT_ADDRESSES = re.compile(r"127\.|0\.0\.0\.0$|255\.|::1?$")

# Names that are words: what hides them hides the log. Generic accounts are nobody's name. One list a file, for people.
_WORDS = frozenset(sys.stdlib_module_names).union(
    resources.files(__package__).joinpath("common_words.txt").read_text(encoding="utf-8").split()
)

Hide = Callable[[str, str], str]


def hide_identities(text: str, hide: Hide) -> str:
    """The text with hosts, users, e-mail and other addresses replaced by what `hide(kind, value)` gives for each.

    `kind` is one of KINDS, or `path` (the folder of a user with the name).
    """
    text = _EMAIL.sub(lambda match: match[0] if match[0].startswith("git@") else hide("email", match[0]), text)
    text = _MAC.sub(lambda match: hide("mac", match[0]), text)
    text = _IPV6.sub(lambda match: _ipv6(match[0], hide), text)
    text = _IPV4.sub(lambda match: _ipv4(match, hide), text)
    text = _AT_HOST.sub(lambda match: _at_host(match, hide), text)
    text = _IN_PATH.sub(lambda match: _in_path(match, hide), text)
    text = _SHARED_PATH.sub(lambda match: _in_shared_path(match, hide), text)
    for pattern in _USER_FORMS:
        text = pattern.sub(lambda match: _groups(match, "user", hide), text)
    text = _without_speakers(text, hide)
    for pattern in _HOST_FORMS:
        text = pattern.sub(lambda match: _groups(match, "host", hide), text)
    text = _NAMED.sub(lambda match: _named(match[0], hide), text)
    for kind, pattern in _OTHER_FORMS:
        text = pattern.sub(lambda match, kind=kind: _groups(match, kind, hide), text)  # type: ignore[misc]
    return text


_WORD = re.compile(r"[^\W_]+(?:[._-]+[^\W_]+)*")
_PIECE = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_MOST_PIECES = 12
_MOST_MEMBERS = 2000
# gpu-[003-010,12]
_RANGE = re.compile(r"(?P<head>[\w.-]*)\[(?P<numbers>[\d,-]+)\](?P<tail>[\w.-]*)")


def hide_names(text: str, names: Mapping[str, str], hide: Hide) -> str:
    """The text with each of `names` (in small letters, with its kind) hidden wherever it stands between other signs
    than letters and digits."""
    if not names:
        return text
    first = {found[0] for name in names if (found := _PIECE.match(name))}
    return _WORD.sub(lambda match: _word(match[0], names, first, hide), text)


def learnable(name: str) -> bool:
    """Whether a name that was found once may be taken for itself wherever it stands."""
    return len(name) >= 3 and name.lower() not in _WORDS and not name.isdigit()


def is_common(word: str) -> bool:
    """Whether a word of a path or of a job's metadata is nobody's name: all its parts are common in training jobs."""
    return all(len(part) < 3 or part in _WORDS for part in _LETTERS.findall(word.lower()))


def names_in(text: str) -> Iterator[str]:
    """The words of a path or of a job's metadata that could be names, a file's with and without its ending."""
    for match in _WORD.finditer(text):
        yield match[0]
        stem, dot, _ = match[0].rpartition(".")
        if dot:
            yield stem


def members_of(hosts: str) -> list[str]:
    """The hosts of a list: of `a,b` both, of `gpu-[003-005,9]` all four; empty for a single one."""
    if (found := _RANGE.fullmatch(hosts)) is None:
        return hosts.split(",")[:_MOST_MEMBERS] if "," in hosts else []
    members: list[str] = []
    for part in found["numbers"].split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and (high or low).isdigit():
            last = min(int(high or low), int(low) + _MOST_MEMBERS)
            members += [f"{found['head']}{at:0{len(low)}d}{found['tail']}" for at in range(int(low), last + 1)]
    return members[:_MOST_MEMBERS]


def _word(word: str, names: Mapping[str, str], first: set[str], hide: Hide) -> str:
    low = word.lower()
    if low in names:
        return hide(names[low], word)
    if len(low) != len(word):
        return word  # a letter whose small form is two
    pieces = list(_PIECE.finditer(low))
    for at, piece in enumerate(pieces):
        if piece[0] not in first:
            continue
        for last in reversed(pieces[at : at + _MOST_PIECES]):
            start, end = piece.start(), last.end()
            if (kind := names.get(low[start:end])) is not None:
                rest = _WORD.sub(lambda match: _word(match[0], names, first, hide), word[end:])
                return word[:start] + hide(kind, word[start:end]) + rest
    return word


def _without_speakers(text: str, hide: Hide) -> str:
    """The text without the names that several different lines begin with."""
    said: dict[str, set[str]] = {}
    for match in _SPEAKER.finditer(text):
        said.setdefault(match["host"], set()).add(text[match.end() : match.end() + 40])
    hosts = {name for name, rests in said.items() if len(rests) >= _FEWEST_SPOKEN and not _NO_SPEAKER.match(name)}

    def shown(match: re.Match[str]) -> str:
        name = match["host"]
        return f"{match['head']}{_named(name, hide)}: " if name in hosts and _is_name("host", name) else match[0]

    return _SPEAKER.sub(shown, text) if hosts else text


def _groups(match: re.Match[str], kind: str, hide: Hide) -> str:
    """A match with its groups of one kind hidden."""
    text, place = "", match.start()
    groups = match.groupdict()
    for group in sorted({kind, f"{kind}2"} & groups.keys(), key=match.start):
        value = groups[group]
        if not value or not _is_name(kind, value):
            continue
        text += match.string[place : match.start(group)] + (
            _named(value, hide) if kind == "host" else hide(kind, value)
        )
        place = match.end(group)
    return text + match.string[place : match.end()]


def _is_name(kind: str, value: str) -> bool:
    low = value.lower()
    if (
        low in _WORDS
        or low in _LOCAL
        or (low.isdigit() and kind != "device")
        or re.fullmatch(r"(?:default|rank|gpu)\d{1,2}", low)
        or value[0] >= "\U000f0000"
    ):
        return False
    if kind in ("bucket", "name", "pod"):
        return not is_common(value)
    return kind != "host" or any(map(str.isalpha, value))


def _named(value: str, hide: Hide) -> str:
    """A host name hidden, apart from the part that says which public service it belongs to."""
    low = value.lower()
    if low in _LOCAL or low in _WORDS:
        return value
    public = _PUBLIC.fullmatch(value)
    if public is not None:
        inner = public["inner"].rstrip(".")
        return f"{hide('host', inner)}.{public['public']}" if inner and inner.lower() not in _WORDS else value
    labels = low.split(".")
    if len(labels) == 2 and labels[-1] in _MODULE_LIKE and not re.search(r"[\d-]", labels[0]):
        return value
    return hide("host", value)


def _at_host(match: re.Match[str], hide: Hide) -> str:
    user, host = match["user"], match["host"]
    if user == "git" or not re.search(r"[a-z]", host) or re.fullmatch(r"[A-Z_]+[\d._]*|\d.*", host):
        return match[0]
    shown = user if user.lower() in _WORDS else hide("user", user)
    return f"{shown}@{_named(host, hide)}"


def _in_path(match: re.Match[str], hide: Hide) -> str:
    user = match["user"]
    if user.lower() in _WORDS:
        return match[0]
    hide("path", match[0])
    return match["folder"] + hide("user", user)


def _in_shared_path(match: re.Match[str], hide: Hide) -> str:
    folders = match["folders"].split("/")[:-1]
    shown = (name if is_common(name) or name[0] >= "\U000f0000" else hide("name", name) for name in folders)
    return match["root"] + "".join(f"{name}/" for name in shown)


def _ipv4(match: re.Match[str], hide: Hide) -> str:
    before = match.string[max(0, match.start() - 24) : match.start()]
    if _KEPT_ADDRESSES.match(match[0]) or _VERSION_BEFORE.search(before):
        return match[0]
    return hide("ip", match[0])


def _ipv6(value: str, hide: Hide) -> str:
    if value.count(":") < 2 or _KEPT_ADDRESSES.match(value):
        return value
    try:
        ipaddress.IPv6Address(value)
    except ValueError:
        return value
    return hide("ip", value)
