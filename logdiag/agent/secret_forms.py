"""Finds secrets in log text: keys, tokens and passwords.

What `detect-secrets` knows is asked of it. Its other detectors are made for source code (quoted values, one a line);
the patterns here are for what logs add: prefixes it lacks, headers, environment dumps, command lines, URLs, key blocks.
None of them can run away: no pattern asks for anything behind an unbounded repeat.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from logdiag.errors import AgentError

__all__ = ["hide_secrets"]

# The detectors that look for a form, not for quotes; npm's needs quadratic time on a line of slashes.
_DETECTORS = (
    "Artifactory Credentials", "AWS Access Key", "Azure Storage Account access key", "Cloudant Credentials",
    "Discord Bot Token", "GitHub Token", "GitLab Token", "IBM Cloud IAM Key", "IBM COS HMAC Credentials",
    "Mailchimp Access Key", "OpenAI Token", "PyPI Token", "SendGrid API Key", "Slack Token", "SoftLayer Credentials",
    "Square OAuth Secret", "Stripe Access Key", "Telegram Bot Token", "Twilio API Key",
)  # fmt: skip
# Not inside a word, but behind an escaped line end or an encoded sign.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%3[DdAa])|(?<=%2[0Bb]))"
_TOKEN = re.compile(
    _START
    + r"(?:"
    + "|".join(
        (
            r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{20,}",  # Hugging Face
            r"wandb_v\d_\w{20,}|lsv2_(?:pt|sk)_\w{16,}",  # trackers
            r"gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl[a-z]{2,6}-[\w-]{16,}",
            r"xox[a-z]-[\w-]{10,}|xapp-[\w-]{20,}",  # Slack
            r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,}|GOOG1[A-Z0-9]{20,}",
            r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}|(?:IQoJb3JpZ2lu|F[wQ]oG)[\w+/=%]{30,}",
            r"LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{20,}",  # Alibaba, Tencent
            r"[\w~.-]{3}[78]Q~[\w~.-]{30,}",  # Azure
            r"eyJ[\w-]{16,}(?:\.[\w-]*){0,4}[\w+/=-]*",  # JWT, and JSON in base64
            r"(?:sk|pk|rk)[-_](?=[\w-]{0,60}\d)[\w-]{20,}|whsec_[\w+/=]{20,}|sq0[a-z]{3}-[\w-]{20,}",
            r"(?:nvapi|xai|pplx|tskey|pypi|ctx7sk)-[\w-]{20,}|(?:gsk|r8|jina|pcsk|rpa|npm|figd|ntn|tvly)_\w{20,}",
            r"dapi[0-9a-f]{32}(?:-\d)?|do[po]_v1_[0-9a-f]{40,}|dckr_[a-z]{3}_[\w-]{20,}|key-[0-9a-f]{32}",
            r"xkeysib-[\w-]{20,}|hv[sbr]\.[\w-]{20,}|gl(?:sa|c)_[\w=+/]{20,}|ATATT3[\w=-]{20,}|NRAK-[A-Z0-9]{20,}",
            r"shp[a-z]{2}_[0-9a-f]{32}|sntry[su]_[\w+/=-]{20,}|lin_api_\w{20,}|pul-[0-9a-f]{40}|PMAK-[\w-]{20,}",
            r"AGE-SECRET-KEY-1[A-Z0-9]{20,}|MUNGE:[\w+/=]{20,}|atlasv1\.[\w-]{20,}|\w{14}\.atlasv1\.[\w-]{20,}",
        )
    )
    + r")[\w+/=~-]*"
)

_KEY_MARK = re.compile(
    r"-{3,5} ?(?:BEGIN|(?P<end>END)) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{3,5}|PuTTY-User-Key-File-\d"
)
_KEY_LINE = re.compile(
    r"^(?:.*[^A-Za-z0-9+/=\U000f0000-\U0010ffff])?(?P<value>[A-Za-z0-9+/=\U000f0000-\U0010ffff]{4,100})[\s\"',\\|]{0,9}$"
)
_KEY_HEADER = re.compile(r"\b(?:Proc-Type|DEK-Info|Version|Comment|Encryption|Public-Lines|Private-Lines)\b")
_FULL_KEY_LINE = 40
_MOST_BETWEEN = 4
_LONGEST_NAME = 60

# What is said to be a secret may have any form; behind the other names only what looks like one is taken.
_STRONG = (
    r"pass(?:word|wd|phrase|code)|secret|api[_-]?keys?|webhook(?:[_-]?url)?|conn(?:ection)?[_-]?str(?:ing)?|"
    r"(?<![a-z])(?:pwd|(?:access|private|account|storage|signing|encryption|auth|license|ssh|master|subscription|client|"
    r"service|shared|db|database|function)[_-]?key|"
    r"(?:access|refresh|session|auth|bearer|api|hf|hub|github|gitlab|git|id|security|identity|private|personal|user|bot|"
    r"oauth|csrf|job|deploy|registry|vault|slack|wandb|comet|neptune|mlflow|tracking)[_-]?token|"
    r"(?:db|database|user|smtp|mail|ftp|ldap|redis|mysql|pg|postgres|root|admin)[_-]?pass)"
)
_WEAK = (
    r"(?<![a-z])(?:token|signature|sig|(?<=[_-])key|(?<=[_-])pass|auth|session(?:[_-]?id)?|sid|creds?|credentials?|"
    r"dsn|pat|otp|pin)"
)
_NAME = re.compile(
    rf"(?:(?P<strong>{_STRONG})|(?P<weak>{_WEAK}))(?:[_-]?(?:id|key|value|data|string|str|b64|base64|hash|\d{{1,3}}))*$"
)
_WORD = r"(?<![\w-])(?P<name>[\w-]+)"
# password=   "password": "   \"password\": \"   ['password'] =   password :=   <password>
# {"name": "PASSWORD", "value": "   - name: PASSWORD, and value: on the next line
_NAMED = re.compile(
    _WORD + r"(?:(?:\\*[\"'\])]){0,3}[ \t]*(?::=|=>|={1,3}|:|>|%3[Dd])[ \t]*"
    r"|(?:\\*[\"'])?,?[ \t]*\n?[ \t]*(?:\\*[\"'])?[Vv]alue(?:\\*[\"'])?[ \t]*[:=][ \t]*)"
)
# --password X   '--password', 'X'
_FLAG = re.compile(_WORD + r"(?:\\*[\"'])?(?:,[ \t]*|[ \t]+)(?!-)")
_STOP = r"[,;&)\]}]+(?:\s|$|\\*[\"']|[\w-]+\\*[\"']?[=:])"
_VALUE = re.compile(
    r"[brfu]{0,2}(?P<quote>\\*[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\n]){1,4000})"
    rf"|(?P<bare>(?:(?!{_STOP})[^\s\"'<]){{1,4000}})"
)
# Not tokens of a language: pad_token, eos_token_id, image_token.
_OF_LANGUAGE = re.compile(
    r"(?i)(?:bos|eos|pad|unk|mask|sep|cls|image|img|audio|video|special|start|stop|begin|end|next|last|first|"
    r"new|draft|max|min|num|per|prefix|suffix|middle|added|think|tool|vocab|barrier|cache|sort|partition|primary|"
    r"foreign|dict|state|param|store|rdzv|query|hot|public)[_-]?$"
)
_NO_SECRET = re.compile(
    r"(?i)(?:none|null|nil|true|false|yes|no|on|off|unset|empty|missing|undefined|invalid|required|n/?a|str|string|int|"
    r"optional\W.*|\*+|\.+|x{3,}|-+|redacted|hidden|masked)\W*|\$(?:[A-Z_({]).*|%[a-z(].*|\{.*|<.*|"
    r"(?:self|args|cfg|config|os|kwargs|settings|env|environ)(?:\.|\[).*|[\w.]+\(\)[\w.]*"
)
_PLAIN = re.compile(
    r"[-+\d.,:eE%_/]+|0x[0-9a-fA-F]+|(?:\.{0,2}|~)/.*|.*\.(?:py|json|ya?ml|txt|pem|crt|bin|pt|so|log|sh|toml|model)|"
    r"\d{4}-\d\d-\d\d.*|[vV]?\d+(?:\.\d+)+\S*"
)

_HEADER = re.compile(
    r"(?i)authorization(?:\\*[\"'\]])*\s*[:=]\s*(?:\\*[\"'])?"
    r"(?P<rest>(?:bearer|basic|token|digest|negotiate|apikey|key|aws4-hmac-sha256|sharedkey\w*)[ \t]+"
    r"[^\"'\n\\]{1,4000})"
)
_COOKIE = re.compile(
    r"(?i)(?<![\w])(?:set-)?cookie(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?P<rest>\w[^\"'\n\\=;]*=[^\"'\n\\]{4,4000})"
)
_BEARER = re.compile(r"(?i)(?<![A-Za-z0-9])bearer(?:[ \t]+|%20|\+)(?:\\*[\"'])?(?P<value>[\w.~+/=%-]{6,})")
_BASIC = re.compile(r"(?i)(?<![A-Za-z0-9])basic(?:[ \t]+|%20)(?:\\*[\"'])?(?P<value>[A-Za-z0-9+/]{6,}={0,2})")
_IN_URL = re.compile(r"://(?P<value>[^\s\"'<>/@:]{0,200}:[^\s\"'<>]{1,300}(?=@[\w\[])|[^\s\"'<>/]{1,300}(?=@[\w\[]))")
_IN_QUERY = re.compile(r"[?&;](?:amp;)?(?P<name>[\w.-]{1,60})=(?P<value>[^&\s\"'<>\\]{4,4000})")
_SIGNING = re.compile(
    r"(?i)(?:x-(?:amz|goog|oss|cos|ms)-(?:signature|credential|security-token)|sig|signature|awsaccesskeyid|googleaccessid|"
    r"ossaccesskeyid|q-signature|q-ak|key-pair-id|policy|key|code|state|.*(?:token|secret|password|passwd|api_?key|auth).*)"
)
_COMMAND = re.compile(
    r"(?:\b(?:sshpass|docker login|podman login|registry login|mysql|mysqldump|ldapsearch)\b[^\n]{0,120}? -[pw] ?"
    r"|\bcurl\b[^\n]{0,300}? (?:-u|--user|--proxy-user) ?|\bwandb login (?:--\S+ ){0,3}|\blogin \S{1,100} password "
    r"|(?i:identified by) |\becho (?=\S{6,200} *\| *(?:sudo|docker|kubectl)))(?:\\*[\"'])?"
    r"(?P<value>[^\s\"'<-][^\s\"']{3,200})"
)
_TRACKER = re.compile(
    r"(?i)(?:wandb|weights ?& ?biases|comet|neptune|clearml|swanlab)[^\n]{0,160}?(?<![\w/-])"
    r"(?P<value>[0-9a-f]{40}|[0-9a-z]{25})(?![\w-])"
)
_COMMIT = re.compile(r"(?i)(?:commit|sha|revision|rev|hash|checksum|digest|version|git)\W{0,3}\w{0,8}\W{0,3}$")
_NEAR_WORD = re.compile(
    r"(?i)(?:pass(?:word|phrase)|secret|token|api[ _-]?key|access[ _-]?key|credential|bearer)s?(?![A-Za-z])[^\n]{0,48}?"
    r"(?<![\w./<-])(?P<value>[A-Za-z0-9][\w+/=.~-]{15,400})"
)
# the password is s3cr3tP4ss   password of mallory was changed to x9   the token is abc123def
_SAID = re.compile(
    r"(?i)\b(?P<what>pass(?:word|wd|phrase|code)|pwd|secret|token|pin|credentials?|(?:api |access |secret )key)"
    r"(?: (?:for|of) \S{1,60})? (?:(?:(?:is|was) )?(?:set |changed |reset )?to|is|was|are|were)(?: now)?:? "
    r"(?:\\*[\"'`])?(?P<value>[^\s\"'`,;]{3,200})"
)
# What is said of passwords that are not told.
_NO_PASSWORD = re.compile(
    r"(?i)(?:not|missing|required|in?correct|wrong|in?valid|expired|too|empty|(?:un)?set|the|an?|in|on|at|by|only|being|stored|"
    r"used|needed|no|now|longer|also|ok|unknown|provided|given|protected|authentication|auth|login|default|disabled|"
    r"enabled|hidden|secret|checked|rejected|accepted|refused|denied|lost|gone|late|short|long|weak|same|different|it|"
    r"this|that|your|our|be|been|being|have|read|sent|written|from|with|to|for|of|and|or|what|who|changed|reset)\W*"
)
# ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA... mallory@bigbox
_PUBLIC_KEY = re.compile(
    r"\b(?:sk-)?(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w{1,20})(?:@openssh\.com)?[ \t]+"
    r"(?P<value>AAAA[\w+/=]{16,4000}(?:[ \t]+[\w.@-]{1,120})?)"
)
_LONG = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{32,400}={0,2}")

Hide = Callable[[str], str]


def hide_secrets(text: str, hide: Hide) -> str:
    """The text with every secret in it replaced by what `hide` gives for it; line ends stay where they are.

    Raises AgentError where the library that knows the common forms is missing.
    """
    text = _TOKEN.sub(lambda match: hide(match[0]), text)
    for value in sorted(_detected(text), key=len, reverse=True):
        text = re.sub(rf"[\w-]{{0,80}}{re.escape(value)}[\w~-]*", lambda match: hide(match[0]), text)
    text = _PUBLIC_KEY.sub(lambda match: _put(match, "value", hide), text)
    text = _without_key_blocks(text, hide)
    text = _HEADER.sub(lambda match: _put(match, "rest", hide), text)
    text = _COOKIE.sub(lambda match: _put(match, "rest", hide), text)
    text = _IN_URL.sub(lambda match: _in_url(match, hide), text)
    text = _IN_QUERY.sub(lambda match: _in_query(match, hide), text)
    text = _BEARER.sub(lambda match: _put(match, "value", hide, _may_be(match["value"])), text)
    text = _BASIC.sub(lambda match: _put(match, "value", hide, _is_user_and_password(match["value"])), text)
    text = _COMMAND.sub(lambda match: _put(match, "value", hide), text)
    text = _without_named(_NAMED, _without_named(_FLAG, text, hide), hide)
    text = _SAID.sub(lambda match: _put(match, "value", hide, _is_said(match)), text)
    text = _TRACKER.sub(lambda match: _of_tracker(match, hide), text)
    text = _NEAR_WORD.sub(lambda match: _put(match, "value", hide, _is_random(match["value"], 16)), text)
    return _LONG.sub(lambda match: hide(match[0]) if _is_random(match[0], 32) else match[0], text)


@cache
def _detectors() -> tuple[Any, ...]:
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    except ImportError as error:
        raise AgentError(
            "detect-secrets is missing, without which nothing is sent to a model; pip install 'logdiag[agent]'"
        ) from error
    known: dict[str, Any] = dict(get_mapping_from_secret_type_to_class())
    return tuple(known[name]() for name in _DETECTORS if name in known)


def _detected(text: str) -> set[str]:
    found = (value.strip(" \t\r\n\"':=") for detector in _detectors() for value in detector.analyze_string(text))
    # Every real key of these kinds has a digit; names of classes have none.
    return {value for value in found if len(value) >= 8 and any(sign.isdigit() for sign in value)}


def _put(match: re.Match[str], group: str, hide: Hide, wanted: bool = True) -> str:
    """A match with one of its groups hidden."""
    value = match[group]
    if not wanted or _is_hidden(value):
        return match[0]
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + hide(value) + match[0][end:]


def _is_hidden(value: str) -> bool:
    """Whether a value is a stand-in already: one sign of the last planes, which no log uses."""
    return len(value.rstrip("\\,;.)]}")) <= 1 and value[:1] >= "\U000f0000"


def _without_named(pattern: re.Pattern[str], text: str, hide: Hide) -> str:
    """The text without the values of names that say that they hold a secret."""
    parts, place = [], 0
    for match in pattern.finditer(text):
        strength = _strength(match["name"].lstrip("nrt") if text[match.start() - 1] == "\\" else match["name"])
        if not strength or match.start() < place or (pattern is _FLAG and not match["name"].startswith("-")):
            continue
        value = _VALUE.match(text, match.end())
        if value is not None and _is_value(value[value.lastgroup or 0], match["name"], strength):
            parts += [text[place : match.start()], match[0], _put(value, value.lastgroup or "", hide)]
            place = value.end()
    return "".join([*parts, text[place:]])


@lru_cache(maxsize=20_000)
def _strength(name: str) -> str:
    """`strong` for a name whose value is a secret, `weak` for one whose value may be, empty for all others."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[-_LONGEST_NAME:]).lower()
    match = _NAME.search(snake)
    if match is None or (match["weak"] and _OF_LANGUAGE.search(snake[: match.start()])):
        return ""
    return "strong" if match["strong"] else "weak"


def _is_value(value: str, name: str, strength: str) -> bool:
    # The working directory is no password, and no more is a name that is handed on under itself.
    if _NO_SECRET.fullmatch(value) or value == name or (name.lower() == "pwd" and value.startswith(("/", "~"))):
        return False
    return strength == "strong" or _may_be(value)


def _is_said(match: re.Match[str]) -> bool:
    """Whether a sentence tells a password, or a token by its looks."""
    value = match["value"].rstrip(".!?)")
    if not value or _NO_PASSWORD.fullmatch(value) or _NO_SECRET.fullmatch(value):
        return False
    return match["what"].lower().startswith(("pass", "pwd")) or _may_be(value)


def _in_url(match: re.Match[str], hide: Hide) -> str:
    value = match["value"]
    # ssh://git@host names everybody; //host:8080/a@b is a port and a path.
    return match[0] if value == "git" or re.match(r"[^:]*:\d{1,5}/", value) else _put(match, "value", hide)


def _in_query(match: re.Match[str], hide: Hide) -> str:
    wanted = bool(_SIGNING.fullmatch(match["name"])) or _is_random(match["value"], 20)
    return _put(match, "value", hide, wanted and not _NO_SECRET.fullmatch(match["value"]))


def _of_tracker(match: re.Match[str], hide: Hide) -> str:
    before = match.string[max(0, match.start("value") - 24) : match.start("value")]
    value = match["value"]
    return _put(match, "value", hide, not _COMMIT.search(before) and not value.isalpha() and not value.isdigit())


def _may_be(value: str) -> bool:
    """Whether a value looks like a secret where a name said that it could be one."""
    if _PLAIN.fullmatch(value) or _NO_SECRET.fullmatch(value):
        return False
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return (
        (len(value) >= 6 and letters and digits)
        or (len(value) >= 20 and value.isalnum())
        or _is_user_and_password(value)
    )


def _is_user_and_password(value: str) -> bool:
    """Whether base64 says `user:password`."""
    try:
        told = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False
    return ":" in told and told.isprintable()


def _is_random(value: str, least: int) -> bool:
    """Whether a word changes between small letters, capitals and digits as only a random one does; hexadecimal ones,
    at least 24 long, only with a name that said so (`least` below 32)."""
    if len(value) < least or value.startswith(("_Z", "0x", "/", "GPU-", "MIG-")) or _PLAIN.fullmatch(value):
        return False
    if least < 32 and re.fullmatch(r"[0-9a-f]{24,}|[0-9A-F]{24,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value):
        return not value.isdigit()
    kinds = ["d" if sign.isdigit() else "u" if sign.isupper() else "l" if sign.isalpha() else "-" for sign in value]
    changes = sum(one != other and "-" not in (one, other) for one, other in pairwise(kinds))
    signs = len(kinds) - kinds.count("-")
    few = 1 if least < 32 else 3
    return (
        kinds.count("d") >= few
        and kinds.count("l") >= few
        and kinds.count("u") >= few
        and changes >= (0.25 if least < 32 else 0.38) * signs
        and kinds.count("-") <= 0.15 * len(kinds)
    )


def _without_key_blocks(text: str, hide: Hide) -> str:
    """Private keys hidden between their marks, line by line, so that the lines keep their numbers."""
    if "PRIVATE KEY" not in text and "PuTTY-User-Key" not in text:
        return text
    lines = text.split("\n")
    inside = 0
    for at, line in enumerate(lines):
        marks = list(_KEY_MARK.finditer(line))
        if marks:
            if marks[0]["end"]:
                _hide_key_above(lines, at, hide)
            lines[at] = _without_marked(line, marks, bool(inside), hide)
            inside = 0 if marks[-1]["end"] else _MOST_BETWEEN
        elif inside:
            run = _KEY_LINE.search(line)
            # A key's last line is shorter than the others, and other processes may speak between its lines.
            full = run is not None and len(run["value"]) >= _FULL_KEY_LINE
            lines[at] = _put(run, "value", hide) if run is not None and (full or inside == _MOST_BETWEEN) else line
            inside = _MOST_BETWEEN if full or _KEY_HEADER.search(line) else inside - 1
    return "\n".join(lines)


def _hide_key_above(lines: list[str], at: int, hide: Hide) -> None:
    """Hides a key from its last line upwards: it may have begun before the text did."""
    for above in range(at - 1, -1, -1):
        run = _KEY_LINE.search(lines[above])
        if run is None or (above < at - 1 and len(run["value"]) < _FULL_KEY_LINE):
            return
        lines[above] = _put(run, "value", hide)


def _without_marked(line: str, marks: list[re.Match[str]], inside: bool, hide: Hide) -> str:
    """A line with marks of keys on it, without what stands between a key's begin and its end."""
    shown, place = "", 0
    for number, mark in enumerate(marks):
        between = line[place : mark.start()]
        within = inside if not number else not marks[number - 1]["end"]
        shown += (_key_text(between, hide) if within else between) + mark[0]
        place = mark.end()
    rest = line[place:]
    return shown + (rest if marks[-1]["end"] else _key_text(rest, hide))


def _key_text(text: str, hide: Hide) -> str:
    return re.sub(r"(?s)[A-Za-z0-9+/=\\].*[A-Za-z0-9+/=]", lambda match: hide(match[0]), text, count=1)
