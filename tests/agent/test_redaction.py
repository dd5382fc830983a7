"""Redaction: no secret leaves, names and addresses leave as pseudonyms, and what diagnosis needs leaves as it is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdiag import diagnose
from logdiag.agent.consult import consult
from logdiag.agent.forms import Form, read_forms
from logdiag.agent.redaction import Redactor
from logdiag.rules import RuleBook
from tests.agent_helpers import SETTINGS, chat
from tests.chat_server import ChatServer, calls, says
from tests.helpers import LOGS, SAMPLES
from tests.planted import BARE, NAMED, planted_logs, traces_of

SHARDS = 4
LOGS_A_SHARD = 125
SECRETS_A_LOG = 20


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_planted_secret_is_left(shard: int) -> None:
    """Of 10,000 in 500 logs, of more than 30 kinds: no ten signs in a row; and every line is still a line."""
    assert SHARDS * LOGS_A_SHARD * SECRETS_A_LOG == 10_000
    assert len(BARE) + len(NAMED) > 30
    left = []
    for log in planted_logs(20_261_104 + shard, LOGS_A_SHARD, SECRETS_A_LOG):
        redactor = Redactor()
        hidden = redactor.hide(log.text)
        assert hidden.count("\n") == log.text.count("\n")
        assert redactor.manifest()["secrets"] > 0
        restored = redactor.restore(hidden)
        left += [
            (kind, value)
            for kind, value in log.secrets
            if any(trace in hidden or trace in restored for trace in traces_of(kind, value))
        ]
    assert left == []


@pytest.mark.parametrize("kind", [*BARE, *NAMED])
def test_each_kind_is_hidden_when_it_stands_alone(kind: str) -> None:
    """Line by line, as a tool hands them over, with nothing else in the text."""
    random = Random(kind)
    make, around = (BARE[kind], ("{}",)) if kind in BARE else NAMED[kind]
    for form in around:
        value = make(random)
        hidden = Redactor().hide(form.format(value))
        assert not any(trace in hidden for trace in traces_of(kind, value)), form


def test_no_planted_secret_is_in_a_request(book: RuleBook, tmp_path: Path) -> None:
    """Over real HTTP, to a model that reads the whole log with its tools and then answers."""
    reads = [calls("read_lines", source=1, first=first, last=first + 59) for first in range(1, 300, 60)]
    script = [*reads, calls("grep_log", pattern="."), says("that was all")]
    left = []
    for number, planted in enumerate(planted_logs(17, 8, SECRETS_A_LOG)):
        log = tmp_path / f"{number}.log"
        log.write_text(planted.text, encoding="utf-8")
        diagnosis = diagnose(log, rules=book, memory=False)
        with ChatServer(script) as server:
            done = consult(diagnosis, (log,), SETTINGS, book=book, model=chat(server))
        assert len(server.requests) > len(reads)
        sent = json.dumps([request.body for request in server.requests], ensure_ascii=False)
        told = f"{sent}\n{done.prompt}\n{done.notes}\n{done.trace}"
        left += [item for item in planted.secrets if any(trace in told for trace in traces_of(*item))]
    assert left == []


def test_a_secret_that_was_told_is_hidden_where_nothing_tells_it() -> None:
    """In the same text, before and after, and in every later text."""
    value = "".join(Random(7).choices("abcdefghkmnp23456789", k=14)) + "7q"
    redactor = Redactor()
    first = redactor.hide(f"using {value}\npassword={value}\nlogin of {value} failed")
    assert first == "using <secret-1>\npassword=<secret-1>\nlogin of <secret-1> failed"
    assert redactor.hide(f"again {value}!") == "again <secret-1>!"
    assert redactor.restore(first) == first


def test_a_key_is_hidden_though_others_speak_between_its_lines_or_its_head_is_cut_off() -> None:
    """Ranks share a log, and a window may begin in the middle."""
    body = ["".join(Random(at).choices("ABCDEFabcdef0123456789+/", k=64)) for at in range(4)] + ["Qm9vdA=="]
    head, end = "-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----"
    spoken = "[rank1]: step: 12 loss: 2.31"
    for lines in (
        [head, *body[:2], spoken, *body[2:], end],
        [head, *body, spoken, end],
        [*body[1:], end],
        [head, *body[:3]],
    ):
        hidden = Redactor().hide("\n".join([spoken, *lines, spoken]))
        assert not any(part in hidden for part in body)
        assert hidden.count("\n") == len(lines) + 1
        assert hidden.split("\n")[0] == hidden.split("\n")[-1] == spoken


# What is hidden, and what is left of the line.
NAMES = [
    (
        "node-004:118301:118301 [0] NCCL INFO Bootstrap: Using bond0:10.12.4.4<0>",
        "<host-1>:118301:118301 [0] NCCL INFO Bootstrap: Using bond0:<ip-1><0>",
    ),
    (
        "Nov  4 10:00:00 atlas kernel: NVRM: Xid (PCI:0000:3b:00): 79",
        "Nov  4 10:00:00 <host-1> kernel: NVRM: Xid (PCI:0000:3b:00): 79",
    ),
    (
        "2026-11-04T10:00:00.123+01:00 atlas slurmd[812]: error: x",
        "2026-11-04T10:00:00.123+01:00 <host-1> slurmd[812]: error: x",
    ),
    ("srun: error: cn17: task 3: Killed", "srun: error: <host-1>: task 3: Killed"),
    (
        "slurmstepd: error: *** JOB 4711 ON frontal CANCELLED AT 2026-11-04T10:00:00 ***",
        "slurmstepd: error: *** JOB 4711 ON <host-1> CANCELLED AT 2026-11-04T10:00:00 ***",
    ),
    ("SLURM_NODELIST=gpu-[003-010,12] MASTER_ADDR=gpu-003", "SLURM_NODELIST=<host-1> MASTER_ADDR=<host-2>"),
    ('{"hostname": "atlas-7", "rank": 3}', '{"hostname": "<host-1>", "rank": 3}'),
    ("torchrun --master_addr trainhead --master_port 29500", "torchrun --master_addr <host-1> --master_port 29500"),
    (
        "socket has failed to connect to [atlas7]:29500 (errno: 111)",
        "socket has failed to connect to [<host-1>]:29500 (errno: 111)",
    ),
    ("The server socket on (atlas-7, 29500) timed out", "The server socket on (<host-1>, 29500) timed out"),
    (
        "HTTPConnectionPool(host='tracker.lab.example', port=443): Max retries",
        "HTTPConnectionPool(host='<host-1>', port=443): Max retries",
    ),
    ("tcp://atlas:29500", "tcp://<host-1>:29500"),
    ("[node-17] starting", "[<host-1>] starting"),
    ("pod trainer-0.trainer.default.svc.cluster.local is gone", "pod <host-1> is gone"),
    ("ip-10-0-3-17.eu-west-1.compute.internal lost", "<host-1> lost"),
    (
        "x.blob.core.windows.net and my-runs.s3.eu-west-1.amazonaws.com",
        "<host-1>.blob.core.windows.net and <host-2>.s3.eu-west-1.amazonaws.com",
    ),
    ("ssh mira@atlas-7 and mail mira.lindt@lab.example", "ssh <user-1>@<host-1> and mail <email-1>"),
    ('File "/home/mira/run/train.py", line 88', 'File "/home/<user-1>/run/train.py", line 88'),
    (
        "/Users/mira/x /scratch/jonas/ckpt C:\\Users\\tove\\x ~bodil/y",
        "/Users/<user-1>/x /scratch/<user-2>/ckpt C:\\Users\\<user-3>\\x ~<user-4>/y",
    ),
    (
        "SLURM_JOB_USER=mira UserId=jonas(1001) uid=1002(tove)",
        "SLURM_JOB_USER=<user-1> UserId=<user-2>(1001) uid=1002(<user-3>)",
    ),
    (
        "connect 203.0.113.7:443 via fe80::a00:27ff:fe4e:66a1%eth0 [2001:db8::17]:29500",
        "connect <ip-3>:443 via <ip-1>%eth0 [<ip-2>]:29500",
    ),
    ("rules: ECCError on rank 3, node q7n3b8000", "rules: ECCError on rank 3, node <host-1>"),
    (
        "Bootstrap: tesla<38752> and std::array<4> and eth0:10.1.2.3<0>",
        "Bootstrap: <host-1><38752> and std::array<4> and eth0:<ip-1><0>",
    ),
    ("login as: mallory", "login as: <user-1>"),
    ("/fsx/erin/ckpt/a.pt /scratch/team9x/frank/run", "/fsx/<user-1>/ckpt/a.pt /scratch/<user-2>/<name-1>/run"),
    ("/mnt/lustre3/teams/visionaries/x/step_5.pt", "/mnt/lustre3/teams/<name-1>/x/step_5.pt"),
    ("https://wandb.ai/acme-secret/llama-7b/runs/x1", "https://wandb.ai/<name-1>/llama-7b/runs/x1"),
    (
        "s3://acme-secret/k and bucket 'acme-two' and s3://runs/a",
        "s3://<bucket-1>/k and bucket '<bucket-2>' and s3://runs/a",
    ),
    ("AccountName=acme;x project: merger9 team=vision", "AccountName=<name-1>;x project: <name-2> team=vision"),
    ("pod llm-train-heidi-worker-3 was evicted", "pod <pod-1> was evicted"),
    (
        "NVRM: GPU at PCI:0000:c3:00: GPU-6f1c2b8e-90a4-5d37-b0e2-3c41d7a95f18",
        "NVRM: GPU at PCI:0000:c3:00: <device-1>",
    ),
    ("Serial Number : 1654123012345", "Serial Number : <device-1>"),
    ("link/ether 52:54:00:ab:cd:ef brd ff:ff:ff:ff:ff:ff", "link/ether <mac-1> brd <mac-2>"),
]


@pytest.mark.parametrize(("line", "hidden"), NAMES)
def test_names_and_addresses_leave_as_pseudonyms_and_come_back(line: str, hidden: str) -> None:
    """Hosts, users, mail, network and hardware addresses, with nothing else changed."""
    redactor = Redactor()
    assert redactor.hide(line) == hidden
    assert redactor.restore(hidden) == line


FORMS = [
    (form, line) for forms in read_forms("identities.yaml").forms.values() for form in forms for line in form.lines
]


@pytest.mark.parametrize(("form", "line"), FORMS)
def test_each_form_hides_a_name_in_each_of_its_lines(form: Form, line: str) -> None:
    """The pattern itself finds it there, and it does not leave."""
    groups = [found for match in form.pattern.finditer(line) for found in match.groupdict().items()]
    names = [value for _, value in groups if value]
    assert names
    assert not [name for name in names if name in Redactor().hide(line)]


def test_a_host_is_hidden_everywhere_once_it_is_known() -> None:
    """Also as part of a file's name; other words that begin alike stay."""
    redactor = Redactor()
    text = "MASTER_ADDR=atlas-7\nwriting out_atlas-7.log and atlas-7/x\natlas-71 answers\natlas is a word"
    assert redactor.hide(text) == (
        "MASTER_ADDR=<host-1>\nwriting out_<host-1>.log and <host-1>/x\natlas-71 answers\natlas is a word"
    )
    assert redactor.hide("lost atlas-7") == "lost <host-1>"


def test_the_members_of_a_list_of_hosts_are_known_each() -> None:
    """Written out or as a range; those between the ends of a range too."""
    redactor = Redactor()
    redactor.hide("SLURM_NODELIST=gx-[003-005,12] MASTER_ADDR=tesla,curie,feynman")
    assert redactor.hide("gx-004 and curie left, gx-006 stays") == "<host-3> and <host-4> left, gx-006 stays"


def test_what_was_learnt_later_is_hidden_in_what_stood_before() -> None:
    """Fields teach names that no wording tells, in any case; common words of the trade are nobody's name."""
    redactor = Redactor()
    redactor.know("user", "alice")
    redactor.know("host", "bigbox")
    redactor.know_words("/runs/AcmeBank-merger/rank_3.log")
    text = "ALICE-llama on bigbox: acmebank-merger/rank_3.log lost; runs of the model"
    hidden = redactor.hide(text)
    assert hidden == "<user-1>-llama on <host-1>: <name-1>/rank_3.log lost; runs of the model"
    assert redactor.restore(hidden) == text


SAID = [
    "login as mallory password is s3cr3tP4ss",
    "the passphrase was changed to hunterhunter",
    "api key is a1b2c3d4e5f6",
]


@pytest.mark.parametrize("line", SAID)
def test_a_secret_told_in_a_sentence_is_hidden(line: str) -> None:
    """What stands behind "is" or "to"; a sentence about passwords is left as it is."""
    assert line.rpartition(" ")[2] not in Redactor().hide(line)
    assert Redactor().hide("password is incorrect") == "password is incorrect"


def test_a_public_key_is_hidden_with_its_comment() -> None:
    """It names a person and a machine."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJx8v2 mallory@bigbox"
    assert Redactor().hide(f"added {key}") == "added ssh-ed25519 <secret-1>"


# Lines whose every sign diagnosis may need.
NEEDED = [
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, An uncorrectable double bit error (DBE) has been detected",
    "nvidia-nvswitch0: SXid (PCI:0000:00:09.0): 20034, Fatal, Link 31 LTSSM Fault Up",
    "OSError: [Errno 28] No space left on device: '/checkpoints/step-500/model.safetensors'",
    '  File "/opt/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py", line 705, in run',
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED",
    "RuntimeError: CUDA error: device-side assert triggered at c10::cuda::impl (ProcessGroupNCCL.cpp:1234)",
    "[rank3]:[E1104 12:30:45.104213000 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout",
    "NCCL version 2.21.5+cuda12.4, cuDNN 9.1.0.70, driver version 535.104.5.1, libfoo==2.1.0.1",
    "misc/socket.cc:47 -> 3: Connection refused by 127.0.0.1:29500, listening on 0.0.0.0:8080 and [::]:29501",
    "exitcode: -9 (pid: 118303) of binary: /usr/bin/python3.10, signal 11 (SIGSEGV)",
    "commit 0f3c9d2b7a6e5d4c3b2a19081716151413121110 of branch main, version 3f2a1b0",
    "tokens: 4096, num_tokens=1024, pad_token_id: 0, eos_token='</s>', bos_token: <s>, tokens_per_second: 12345.6",
    "Added key: store_based_barrier_key:1 to store for rank: 0",
    "KeyError: 'caption'",
    "tokenizer: LlamaTokenizerFast, vocab_size: 32000, model: meta-llama/Llama-3.1-8B-Instruct",
    "botocore.exceptions.ClientError: An error occurred (403) when calling the PutObject operation: s3://runs/ckpt/a",
    "requests.exceptions.ConnectionError: https://huggingface.co/api/models and https://api.wandb.ai/graphql",
    "terminate called after throwing an instance of 'c10::DistBackendError'",
    "frame #4: _ZN3c104cuda20CUDACachingAllocator10raw_deleteEPv + 0x1f2 (0x7f3a12c0aa10 in /opt/lib/libc10_cuda.so)",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>(Params)",
    "ncclCommInitRank comm 0x55c81a3f1e0 rank 1 nranks 8 cudaDev 1 busId 43000 commId 0x7b1d93c02a66e41f",
    "mlx5_0:1/IB state DOWN, NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
    "[ 424507.112542] mce: [Hardware Error]: Machine check events logged, CPU 12: Bank 7: 8c00004000010090",
    "DUE TO TIME LIMIT: task 0.3, StepId=4711.0, 2026-11-04T12:30:45, 12:30:45:678, elapsed 1-02:03:04",
    "loss: 2.3104 lr: 3.0e-04 grad_norm: 1.27 mem: 71.3GiB 10.5 it/s (step 1200/500000)",
    "threading.local and skimage.io and google.cloud.storage and datasets.load are modules",
    "ValueError: password authentication is not possible; token is missing; secret not given",
    "PWD=/checkpoints/run-3 HOSTTYPE=x86_64 world_size=16 local_rank=3 node_rank=1",
    "NUMA node0 CPU(s): 0-31, gpu0 cuda:3 rank 12 worker 3 stage 2",
    "ImportError: libcudart.so.12: cannot open shared object file; nvcr.io/nvidia/pytorch:24.05-py3",
]


@pytest.mark.parametrize("line", NEEDED)
def test_what_diagnosis_needs_is_left(line: str) -> None:
    """Codes, addresses on the bus, errors, places in code, modules, versions, times, loopback."""
    assert Redactor().hide(line) == line


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_whole_logs_come_back(path: Path) -> None:
    """The sample logs hold no secret; hidden twice they are what they were hidden once, and restored they are
    themselves."""
    redactor = Redactor()
    text = path.read_text(encoding="utf-8", errors="replace")
    hidden = redactor.hide(text)
    assert redactor.manifest()["secrets"] == 0
    assert redactor.hide(hidden) == hidden
    assert redactor.restore(hidden) == text


def test_the_manifest_counts_each_once() -> None:
    """Different values of each kind, over all texts."""
    redactor = Redactor()
    for _ in range(2):
        redactor.hide("MASTER_ADDR=atlas-7 /home/mira/a /scratch/mira/b 203.0.113.7 mira@lab.example password=x1y2z3w4")
    expected = {"hosts": 1, "paths": 2, "users": 1, "addresses": 1, "emails": 1, "secrets": 1}
    assert {kind: count for kind, count in redactor.manifest().items() if count} == expected


def test_what_looks_like_a_pseudonym_is_no_way_in() -> None:
    """A log that writes `<host-1>` or the signs that are used inside gets itself back, not the host."""
    redactor = Redactor()
    text = "echo <host-1> <secret-1> \U000f0000\U000f0001\nMASTER_ADDR=atlas-7"
    hidden = redactor.hide(text)
    assert "atlas" not in hidden
    assert redactor.restore(hidden) == text
    assert redactor.restore("<host-2> <host-99>") == "<host-2> <host-99>"


@given(
    st.text(alphabet=st.sampled_from("ab1:.-_/@='\"<>[](){}\\ \n\tkeytokenpassword%&?+0fF\U000f0000é"), max_size=300)
)
def test_any_text_keeps_its_lines(text: str) -> None:
    """And hiding it twice is hiding it once."""
    redactor = Redactor()
    hidden = redactor.hide(text)
    assert hidden.count("\n") == text.count("\n")
    assert redactor.hide(hidden).count("\n") == text.count("\n")


HARD = [
    "a",
    "/",
    "a-",
    "a.",
    "a1-",
    "token ",
    "token='",
    "password=",
    "://a",
    "--a",
    "1:",
    "::",
    "node-",
    "node1,",
    "-----BEGIN PRIVATE KEY-----",
    "wandb ",
    "curl ",
    "a@",
    "value",
    "key: ",
    "socket (",
    "from host ",
    "cookie=",
    "/home/a",
    "abcdEF12",
    "\\",
    '"',
    " ",
    "basic ",
    "?a=aaaaa",
    "1.2.3.",
    "eyJ",
    "aws key ",
    "name: value: ",
]


def test_no_line_makes_it_slow() -> None:
    """100 kB of a log and of each awkward repetition: processor time, with room for a busy machine."""
    log = (LOGS / "demo.log").read_text(encoding="utf-8") * 3
    Redactor().hide("the library is loaded")
    slow = {}
    for text in [log[:100_000], *("".join([part * (8192 // len(part)), "\n"]) * 2 for part in HARD)]:
        began = time.thread_time()
        Redactor().hide(text)
        took = time.thread_time() - began
        if took > 1.5:
            slow[text[:20]] = took
    assert slow == {}
