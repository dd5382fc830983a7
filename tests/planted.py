"""Secrets of many kinds, made up when a test runs, and the ways in which logs come to hold them."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tests.helpers import SAMPLES

__all__ = ["BARE", "NAMED", "Planted", "planted_logs", "traces_of"]

_ALNUM = string.ascii_letters + string.digits
_URL_SAFE = _ALNUM + "_-"
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits
Maker = Callable[[Random], str]


def _some(letters: str, count: int, head: str = "", tail: str = "") -> Maker:
    """Random ones of these letters, the first of them a letter and the last a digit, as real keys nearly always mix."""
    digits = [sign for sign in letters if sign.isdigit()]
    alphas = [sign for sign in letters if sign.isalpha()]

    def make(random: Random) -> str:
        middle = "".join(random.choices(letters, k=count - 4))
        return head + "".join(random.choices(alphas, k=2)) + middle + "".join(random.choices(digits, k=2)) + tail

    return make


def _jwt(random: Random) -> str:
    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    subject = "".join(random.choices(_ALNUM, k=20))
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': subject})}.{_some(_URL_SAFE, 43)(random)}"


def _neptune(random: Random) -> str:
    said = {"api_address": "https://app.example.org", "api_key": _some(_HEX, 32)(random)}
    return base64.b64encode(json.dumps(said).encode()).decode()


def _password(random: Random) -> str:
    middle = "".join(random.choices(_ALNUM + "!$%*+-.^_~@#", k=random.randint(6, 18)))
    return random.choice(string.ascii_letters) + middle + random.choice(string.digits) + random.choice(_ALNUM)


def _basic(random: Random) -> str:
    return base64.b64encode(f"svc-{random.randint(1, 99)}:{_some(_ALNUM, 14)(random)}".encode()).decode()


def _key_body(random: Random) -> str:
    return "".join(random.choices(_ALNUM + "+/", k=64 * 6 + random.randint(6, 40)))


BARE: dict[str, Maker] = {
    "aws key id": _some(_UPPER, 16, "AK" + "IA"),
    "aws session key id": _some(_UPPER, 16, "AS" + "IA"),
    "aws session token": _some(_ALNUM + "+/", 260, "IQoJ" + "b3JpZ2lu"),
    "hugging face": _some(_ALNUM, 34, "hf" + "_"),
    "hugging face organisation": _some(_ALNUM, 34, "api_" + "org_"),
    "github": _some(_ALNUM, 36, "gh" + "p_"),
    "github app": _some(_ALNUM, 36, "gh" + "s_"),
    "github fine-grained": _some(_ALNUM, 82, "github" + "_pat_"),
    "gitlab": _some(_URL_SAFE, 20, "gl" + "pat-"),
    "gitlab runner": _some(_URL_SAFE, 20, "gl" + "rt-"),
    "slack": _some(_ALNUM, 24, "xo" + "xb-202611041234-"),
    "slack hook": _some(_ALNUM, 24, "https://hooks.slack" + ".com/services/T0AB12CD3/B0AB12CD4/"),
    "json web token": _jwt,
    "google key": _some(_URL_SAFE, 35, "AI" + "za"),
    "google access token": _some(_URL_SAFE, 60, "ya" + "29."),
    "google client secret": _some(_URL_SAFE, 28, "GOC" + "SPX-"),
    "azure client secret": _some(_ALNUM, 31, "aB" + "38Q~"),
    "openai": _some(_ALNUM, 20, "s" + "k-", "T3Blbk" + "FJ" + "a1B2c3D4e5F6g7H8i9J0"),
    "openai project": _some(_URL_SAFE, 90, "s" + "k-proj-"),
    "anthropic": _some(_URL_SAFE, 90, "s" + "k-ant-api03-"),
    "nvidia": _some(_URL_SAFE, 64, "nv" + "api-"),
    "weights and biases, new": _some(_ALNUM, 60, "wandb" + "_v1_"),
    "neptune": _neptune,
    "langsmith": _some(_HEX, 32, "ls" + "v2_pt_", "_0a1b2c3d4e"),
    "npm": _some(_ALNUM, 36, "np" + "m_"),
    "pypi": _some(_URL_SAFE, 90, "pypi-" + "AgEIcHlwaS5vcmc"),
    "docker hub": _some(_URL_SAFE, 27, "dckr" + "_pat_"),
    "databricks": _some(_HEX, 32, "da" + "pi"),
    "digital ocean": _some(_HEX, 64, "do" + "p_v1_"),
    "sendgrid": lambda random: "S" + "G." + _some(_URL_SAFE, 22)(random) + "." + _some(_URL_SAFE, 43)(random),
    "stripe": _some(_ALNUM, 24, "sk_" + "live_"),
    "telegram": _some(_URL_SAFE, 35, "8123456789" + ":"),
    "vault": _some(_URL_SAFE, 90, "hv" + "s."),
    "grafana": _some(_ALNUM, 32, "gl" + "sa_", "_0a1b2c3d"),
    "replicate": _some(_ALNUM, 37, "r" + "8_"),
    "groq": _some(_ALNUM, 52, "gs" + "k_"),
    "munge": _some(_ALNUM + "+/", 120, "MUNGE" + ":", ":"),
    "alibaba": _some(_ALNUM, 20, "LT" + "AI"),
    "tailscale": _some(_ALNUM, 30, "ts" + "key-auth-"),
    "age": _some(_UPPER, 58, "AGE-" + "SECRET-KEY-1"),
}
"""Secrets that are known by their own form, wherever they stand."""

NAMED: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "aws secret key": (
        _some(_ALNUM + "+/", 40),
        ("AWS_SECRET_ACCESS_KEY={}", "aws_secret_access_key = {}", "'SecretAccessKey': '{}'", "s3 secret: {}"),
    ),
    "weights and biases": (
        _some(_HEX, 40),
        (
            "WANDB_API_KEY={}", "wandb login {}", "wandb: Appending key for api.wandb.ai to netrc: {}",
            "wandb.login(key='{}')", "machine api.wandb.ai login user password {}",
        ),
    ),
    "comet": (_some(_ALNUM, 25), ("COMET_API_KEY: {}", "comet_ml.init(api_key='{}')", "'comet_api_key': '{}',")),
    "mlflow": (_password, ("MLFLOW_TRACKING_PASSWORD={}", "export MLFLOW_TRACKING_TOKEN='{}'")),
    "password": (
        _password,
        (
            "password={}", "PASSWORD: {}", "--password {}", "--db-password={}", '"password": "{}"', "'passwd': '{}'",
            '{{\\"password\\": \\"{}\\"}}', "password = '{}'", "Namespace(user='x', password='{}', lr=0.1)",
            "<password>{}</password>", "export PGPASSWORD={}", "sshpass -p {} ssh host", "redis_password: {}",
            '{{"name": "REDIS_PASSWORD", "value": "{}"}}', "curl -u admin:{} https://x.example.org/a",
            "dbPassword => '{}'", "identified by '{}'", "config['password'] = '{}'", "DB_PASS={}",
        ),
    ),
    "token": (
        _some(_ALNUM, 32),
        (
            "token={}", "TOKEN: {}", "--token {}", "'--hub-token', '{}'", '"access_token": "{}"', "auth_token={}",
            "X-Auth-Token: {}", "the token {} was refused", "PRIVATE-TOKEN: {}", "refreshToken: '{}'",
            "- name: HUB_TOKEN value: {}", "https://x.example.org/api?access_token={}&page=2", "sessionToken={}",
        ),
    ),
    "hexadecimal key": (
        _some(_HEX, 32),
        ("X-Api-Key: {}", "api_key={}", "apiKey: '{}'", "API key {} is not valid", "DD_API_KEY={}", "license_key: {}"),
    ),
    "azure storage key": (
        _some(_ALNUM + "+/", 86, "", "=="),
        (
            "DefaultEndpointsProtocol=https;AccountName=runs;AccountKey={};EndpointSuffix=core.windows.net",
            "AZURE_STORAGE_KEY={}", "account_key='{}'",
        ),
    ),
    "bearer header": (
        _some(_URL_SAFE, 40),
        (
            "Authorization: Bearer {}", "'Authorization': 'Bearer {}'",
            "curl -H 'authorization: bearer {}' https://a.example.org",
        ),
    ),
    "basic header": (
        _basic,
        ("Authorization: Basic {}", "{{'Proxy-Authorization': 'Basic {}'}}",
         '{{"auths": {{"r.example.org": {{"auth": "{}"}}}}}}'),
    ),
    "credentials in a url": (
        _some(_ALNUM, 18),
        (
            "postgresql://runner:{}@db.example.org:5432/runs", "https://oauth2:{}@git.example.org/a/b.git",
            "redis://:{}@cache-1:6379/0", "cloning https://{}@git.example.org/a/b", "amqp://guest:{}@10.0.0.9:5672/",
        ),
    ),
    "signed url": (
        _some(_HEX, 64),
        (
            "GET https://b.s3.amazonaws.com/k?X-Amz-Expires=600&X-Amz-Signature={} 403",
            "https://storage.googleapis.com/b/k?Expires=1&Signature={}&x=1",
            "https://acc.blob.core.windows.net/c/k?sv=2024&sp=r&sig={}",
        ),
    ),
    "cookie": (_some(_ALNUM, 32), ("Cookie: session={}; theme=dark", "'Set-Cookie': 'sid={}; Path=/'")),
    "private key": (
        _key_body,
        ('"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"',
         "-----BEGIN RSA PRIVATE KEY-----{}"),
    ),
}  # fmt: skip
"""Secrets that only what stands around them tells, and what may stand there."""

_AROUND_BARE = (
    "{}", "export X={}", "loaded {} from the environment", "['train.py', '--key', '{}']",
    "HTTPError: 401 for token {}.",
    '{{"key": "{}", "n": 3}}', "Namespace(hub='{}', lr=0.1)", "auth: {}", "using ({})", "a: 1\\nb: {}\\nc: 2",
    "requests.get('https://x.example.org/v1', headers={{'X-Key': '{}'}})", "https://x.example.org/a?k={}&v=1",
    "Invalid user token: {} (Request ID: Root=1-65a)", "+ TOKEN={} python train.py", "| key | {} |", "wrote {}, done",
)  # fmt: skip
_BEFORE = (
    "", "[rank3]: ", "2026-11-04 10:00:00,123 ERROR [hub.py:33] ", "Nov  4 10:00:00 node-17 slurmd[3121]: ", "s1:412| ",
    "node-4:812:901 [0] NCCL INFO ", "(RayTrainWorker pid=60157, ip=10.0.0.10) ", "+ ",
    '{"level": "INFO", "message": "',
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planted:
    """A log with the secrets that it holds, by kind."""

    text: str
    secrets: tuple[tuple[str, str], ...]


def planted_logs(seed: int, logs: int, each: int) -> Iterator[Planted]:
    """So many logs, made from lines of the sample logs, with so many secrets planted in each."""
    random = Random(seed)
    samples = [path.read_text(encoding="utf-8", errors="replace").splitlines() for path in SAMPLES]
    kinds = [*BARE, *NAMED]
    for _ in range(logs):
        lines = samples[random.randrange(len(samples))]
        start = random.randrange(max(1, len(lines) - 24))
        rows = [line[:400] for line in lines[start : start + 24]]
        secrets = []
        for _ in range(each):
            kind = random.choice(kinds)
            make, around = (BARE[kind], _AROUND_BARE) if kind in BARE else NAMED[kind]
            value = make(random)
            row = random.choice(_BEFORE) + random.choice(around).format(value)
            if kind == "private key" and random.random() < 0.5:
                row = _wrapped(random, value)
            rows.insert(random.randrange(len(rows) + 1), row)
            secrets.append((kind, value))
        yield Planted("\n".join(rows) + "\n", tuple(secrets))


def traces_of(kind: str, value: str) -> list[str]:
    """The pieces of a secret of which none may be left: ten signs in a row of what was random in it."""
    body = {
        "json web token": ".".join(value.split(".")[1:])[12:],
        "neptune": value[-24:],
        "openai": value[3:23],
        "slack hook": value[-20:],
        "langsmith": value[8:40],
    }.get(kind, value)
    body = body[12:] if len(body) > 40 and kind in BARE else body
    return [body[at : at + 10] for at in range(max(1, len(body) - 9))]


def _wrapped(random: Random, body: str) -> str:
    """A private key as it stands in a file, each line behind the same words."""
    rows = ["-----BEGIN OPENSSH PRIVATE KEY-----", *(body[at : at + 64] for at in range(0, len(body), 64))]
    before = random.choice(("", "[rank0]: ", "s1:7| ", "    "))
    return "\n".join(before + row for row in [*rows, "-----END OPENSSH PRIVATE KEY-----"])
