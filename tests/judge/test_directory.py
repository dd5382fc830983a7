"""What a log lists tells which process, unit or place a rank is, and on which host."""

from __future__ import annotations

import pytest

from logdiag.judge.ranks.directory import Directory, directory_of
from logdiag.judge.ranks.entries import blocks_of
from logdiag.judge.ranks.hosts import with_names
from logdiag.judge.ranks.readings import book_of, readings_of
from logdiag.judge.ranks.witnesses import Root, first_to_fail
from logdiag.judge.ranks.words import rows_of
from logdiag.model import Line
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from tests.helpers import diagnosed

_PIDS = [4311, 5127, 6202, 7419]
_LIKELY = 0.4


def _lines(*texts: str) -> list[Line]:
    return [parse_line(text, "job.log", at + 1, position=at) for at, text in enumerate(texts)]


def _listed(*texts: str) -> Directory:
    rows = rows_of(_lines(*texts))
    return directory_of(rows, rows)


def _rank(*texts: str) -> int | None:
    """Of which rank the last line is, by all lines; None where another answer is nearly as likely."""
    rows = rows_of(_lines(*texts))
    told = first_to_fail(book_of(rows, rows), Root(rows[-1], waited=False, machine=False))
    return told[0] if told and told[1] > _LIKELY else None


def _speaking(listing: list[str], speaking: str) -> list[str]:
    """A listing of four processes, two on each of the hosts elm-7 and oak-3, which all speak three times later."""
    texts = [speaking.format(pid=pid, unit=f"t-{pid:04x}", seat=rank % 2, host=("elm-7", "oak-3")[rank // 2])
             for _ in range(3) for rank, pid in enumerate(_PIDS)]  # fmt: skip
    return [*listing, *(f"{text}loss 2.{at}" for at, text in enumerate(texts))]


@pytest.mark.parametrize(
    "row",
    [
        "rank {rank} host {host} pid {pid} chip {seat}",
        'lvl=info msg="task started" task={rank} node={host} pid={pid} slot={seat}',
        "2026-11-01 10:00:0{rank} started pid {pid} as rank {rank} at {host}",
        "launch:  [ {rank}] {host}/{seat} pid {pid}",
        "{host} trainer[{pid}]: worker {rank} up, group 2",
        "slot {rank}  {host}  pid {pid}",
    ],
)
def test_a_row_a_rank_tells_its_process_and_its_host(row: str) -> None:
    """Whatever stands between, and whichever column counts the ranks."""
    rows = [row.format(rank=rank, pid=pid, seat=rank % 2, host=("elm-7", "oak-3")[rank // 2])
            for rank, pid in enumerate(_PIDS)]  # fmt: skip
    log = _speaking(rows, "10:05:00 [{pid}] train: ")
    assert _rank(*log, "10:06:00 [6202] store: bucket is locked") == 2
    assert dict(_listed(*log).hosts) == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}


def test_fractions_of_seconds_and_process_ids_count_no_ranks() -> None:
    """A learner each 100 ms, and processes far apart."""
    rows = [f"04:26:16.{at}00 [loom-{at}] INFO ready, part {at}/4" for at in range(4)]
    rows += [f"04:26:17.000 [loom-{at % 4}] INFO round {at}" for at in range(12)]
    assert _rank(*rows, "04:26:18.200 [loom-3] no such table") == 3
    rows = [f"strand {at} > laid on elm-{at // 2} process {pid * 9}, {at % 2} heddles" for at, pid in enumerate(_PIDS)]
    assert _listed(*rows).hosts == {0: "elm-0", 1: "elm-0", 2: "elm-1", 3: "elm-1"}


def test_a_table_is_read_by_its_header() -> None:
    """Where several columns count, the header tells which counts ranks."""
    rows = ["chip  rank  machine", "  0     0   elm-7", "  1     2   oak-3", "  2     3   oak-3", "  3     1   elm-7"]
    assert _listed(*rows).hosts == {0: "elm-7", 2: "oak-3", 3: "oak-3", 1: "elm-7"}


def test_what_says_rank_counts_before_what_is_longer() -> None:
    """Two learners are ranks, and nine actors are not."""
    rows = [f"up: learner-{at} rank={at} vm=trn-{at + 11}.fra gpu=0" for at in range(2)]
    rows += [f"up: actor-{at:02d} vm=sim-{at + 40} cores=8" for at in range(9)]
    assert _listed(*rows).hosts[1] == "trn-12"


def test_a_host_is_no_rank_where_others_may_run_on_it() -> None:
    """Of ranks 0 and 4 alone it is not known who else is there."""
    rows = [
        "rank 0 at elm-7",
        "rank 4 at oak-3",
        *(f"{host} watch: pulse {at}" for at in range(3) for host in ("elm-7", "oak-3")),
    ]
    assert _rank(*rows, "oak-3 watch: no pulse") is None


def test_what_all_ranks_say_alike_is_a_host_only_behind_a_word_for_one() -> None:
    """A setting may look like a name."""
    assert _listed(*(f"worker {at} uses math tf-32" for at in range(4))).hosts == {}
    assert _listed(*(f"worker {at} up on elm-32" for at in range(4))).hosts[3] == "elm-32"


def test_one_line_may_list_all() -> None:
    """`ranks: 0=t-10d7@elm-7 ...` names the unit and the host of each."""
    items = " ".join(f"{at}=t-{pid:04x}@{('elm-7', 'oak-3')[at // 2]}" for at, pid in enumerate(_PIDS))
    log = _speaking([f"ranks: {items}"], "[{unit}] [mem] ")
    assert _rank(*log, "[t-1cfb] [plan] cannot resolve it") == 3
    assert _listed(*log).hosts[3] == "oak-3"


@pytest.mark.parametrize(
    "rows",
    [
        ["map 0..1=elm-7", "map 2..3=oak-3"],
        ["start:   elm-7  procs 0 -  1   rack A", "start:   oak-3  procs 2 -  3   rack B"],
        ["start: node elm-7: PEs 0,1", "start: node oak-3: PEs 2,3"],
        ["members: 0,1 at elm-7; 2,3 at oak-3"],
        ["10:00:00 four of them (elm-7=0-1, oak-3=2-3)"],
        ["seen a-0 (elm-7, peers 0-1), a-1 (oak-3, peers 2-3)"],
        ["INFO c.s.Sluice - lanes 0-1 on elm-7, lanes 2-3 on oak-3"],
        ["boats:", "  elm-7: {first: 0, last: 1}", "  oak-3: {first: 2, last: 3}"],
        ["crew: host=elm-7 boats=0,1 pids=4311,5127 host=oak-3 boats=2,3 pids=6202,7419"],
        ['crew: [{"host": "elm-7", "boats": [0, 1]}, {"host": "oak-3", "boats": [2, 3]}]'],
        ["boats 0..=1 -> elm-7, one winch each", "boats 2..=3 -> oak-3, one winch each"],
        ["boats 0\u20131 on elm-7", "boats 2\u20133 on oak-3"],
        ["(crew ((elm-7 (boats (0 1))) (oak-3 (boats (2 3)))))"],
        [
            "boat  machine  bus address   pid",
            *(f"{at}  {'elm-7' if at < 2 else 'oak-3'}  0000:{at}b:00  {pid}" for at, pid in enumerate(_PIDS)),
        ],
    ],
)
def test_a_range_of_ranks_names_their_host(rows: list[str]) -> None:
    """Neighbours on one host, and the next host goes on where the last one ended."""
    assert _listed(*rows).hosts == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}


def test_ranges_that_leave_some_out_are_no_ranks() -> None:
    """Bytes, lines and pages are read in ranges too."""
    assert _listed("read 0..1 of elm-7", "read 5..9 of oak-3").hosts == {}


def test_a_row_lists_what_each_of_several_ranks_has() -> None:
    """`workers 4..5 pids 431,512`: the second process is that of worker 5, and slot 1 of its tray is its."""
    bind = "gang: bind {host} <-> {tray} slots 0-1: workers {low}..{high} pids {one},{other}"
    rows = [
        bind.format(host="elm-7", tray="tray-51", low=0, high=1, one=4311, other=5127),
        bind.format(host="oak-3", tray="tray-69", low=2, high=3, one=6202, other=7419),
    ]
    log = [*rows, *(f"10:00:0{at} train {pid} - step {at}" for at in range(3) for pid in _PIDS)]
    assert _rank(*log, "10:00:09 train 7419 - seal mismatch") == 3


def test_a_table_names_the_column_of_hosts() -> None:
    """Pods have names like hosts'."""
    rows = ["rank  pod    machine", "0     kl-w-2  gx-853", "1     kl-w-0  gx-928", "2     kl-w-1  gx-785"]
    assert _listed(*rows).hosts == {0: "gx-853", 1: "gx-928", 2: "gx-785"}


def test_a_header_may_be_set_like_its_rows() -> None:
    """It has as many words between blanks as they have; plain words that neighbours share are their hosts."""
    rows = [f"  {rank:02d}  {('oakham', 'elmton')[rank // 2]}  {rank % 2}  {pid}" for rank, pid in enumerate(_PIDS)]
    listed = _listed("  boat  quay  winch  pid", *rows, *(f"10:00:0{at} step {at}" for at in range(5)))
    assert listed.hosts == {0: "oakham", 1: "oakham", 2: "elmton", 3: "elmton"}


def test_hosts_stand_below_the_headings_of_processes() -> None:
    """Each heading names one process, whatever rulers stand beside it."""
    rows = [f"---- boat {rank} ----\n  at   : {('elm-7', 'oak-3')[rank // 2]}\n  pid  : {pid}"
            for rank, pid in enumerate(_PIDS)]  # fmt: skip
    assert _listed(*"\n".join(rows).splitlines()).hosts == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}


def test_the_whole_listing_has_the_hosts_and_not_a_part_of_it() -> None:
    """Hosts of one name make a listing of their own, of the first four only."""
    hosts = ("ELM1", "ELM2", "OAKHAM1", "OAKHAM2")
    listed = _listed(*(f"BOAT {rank:02d} LIES AT {hosts[rank // 2]}, WINCH {rank % 2}" for rank in range(8)))
    assert listed.hosts == {rank: hosts[rank // 2] for rank in range(8)}


def test_a_report_of_erlang_names_the_process_above_the_words() -> None:
    """The head has a clock of its own, the second line the process, the third the words."""
    head, at = "=INFO REPORT==== 11-Nov-2026::10:00:0{at}.123456 ===", ("boat0@elm-7", "boat1@elm-7", "boat2@oak-3")
    rows = [line for at_, name in enumerate(at) for line in (head.format(at=at_), f"    node: {name}", "    up")]
    told = ["=ERROR REPORT==== 11-Nov-2026::10:01:00.123456 ===", "    node: boat2@oak-3", "    winch is lost"]
    assert _rank(*rows, *told) == 2


def test_rows_of_another_role_count_no_ranks() -> None:
    """Trainers t0 to t3 are ranks; two feeders, listed among them, are others."""
    rows = [f"== {name} -> cv-{at + 8:02d} pid {900 + at}" for at, name in enumerate(["f0", "f1", "t0", "t1", "t2"])]
    spoken = [f"{name}#0 up{at} loss 2.{at}" for at in range(3) for name in ("f0", "f1", "t0", "t1", "t2")]
    log = [*rows, *spoken]
    assert _rank(*log, "t2#9 up41 batch is torn") == 2


@pytest.mark.parametrize(
    "line",
    [
        "48452.7|oak-3  |1|WARN |pcie |width x0, all ones",
        "oak-3 [02:20:03][gpu 1] dbe",
        "oak-3.1| E1112 no such mesh",
    ],
)
def test_a_host_and_the_place_on_it_name_a_rank(line: str) -> None:
    """The second of that host, whoever says so."""
    rows = [f"rank {rank} = {('elm-7', 'oak-3')[rank // 2]}/{rank % 2} ep {rank % 2}" for rank in range(4)]
    assert _rank(*rows, line) == 3


@pytest.mark.parametrize(
    "rows",
    [
        [f"step {at} loss {2.5 - at / 10} ms {310 + at}" for at in range(6)],
        [f"epoch {at} done in {31 + at}.{at} s, saved at run-{at}/last" for at in range(6)],
        [f"chunk {at} of 6 read from elm-{at}" for at in range(6)],
        ["worker 3 ended with status 1", "worker 1 ended with status 143"],
    ],
)
def test_what_counts_no_ranks_lists_none(rows: list[str]) -> None:
    """Steps, epochs and chunks are numbered too, and a summary tells no process."""
    log = [*rows, *("10:00:00 [4311] train: it goes on" for _ in range(4))]
    assert _listed(*log).hosts == {}
    assert _rank(*log, "KeyError: 'weft'") is None


def test_the_listing_is_found_where_its_rows_are_not_kept(book: RuleBook) -> None:
    """Of rows that are all alike few are worth reading; the rank and the node of the failure are told all the same."""
    listing = [f"launch: rank {rank} = pid {3000 + 7 * rank} at gpu-{rank // 8:02d}" for rank in range(64)]
    steps = [
        f"{clock:6d} [{3000 + 7 * rank}] step {clock // 64} loss 2.1" for clock in range(640) for rank in [clock % 64]
    ]
    failure = [f"   641 [{3000 + 7 * 37}] KeyError: 'weft'"]
    answer = diagnosed(book, *listing, *steps, *failure)
    assert answer.root_cause is not None
    assert (answer.root_cause.rank, answer.root_cause.node) == (37, "gpu-04")


_NAMED = ["ash", "birch", "cedar", "douglas"]


@pytest.mark.parametrize(
    "listing",
    [
        [
            f"planter: bed {at} is {name.title()}, rooted at {('elm-7', 'oak-3')[at // 2]}"
            for at, name in enumerate(_NAMED)
        ],
        [f"go {name} no {at} at {('elm-7', 'oak-3')[at // 2]} tray {at % 2}" for at, name in enumerate(_NAMED)],
        ["row elm-7: Ash (0), Birch (1)", "row oak-3: Cedar (2), Douglas (3)"],
    ],
)
def test_plain_words_are_names_of_ranks(listing: list[str]) -> None:
    """Rows that differ in plain words, and names with their numbers in brackets."""
    named = [word for word in " ".join(listing).replace(",", "").split() if word.lower() in _NAMED]
    log = [*listing, *(f"{name}> leg {leg} done" for leg in range(3) for name in named)]
    assert _rank(*log, f"{named[2]}> no column 'weft', told to {named[0]}") == 2
    assert dict(_listed(*log).hosts) == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}


def test_as_many_names_behind_a_range_are_those_of_its_ranks() -> None:
    """In whatever order the rows come; pairs in brackets are names too."""
    rows = ["seats 2-3 oak-3: loom-0 loom-1", "seats 0-1 elm-7: warp-0 warp-1"]
    rows += [f"[{name}] pick {pick}" for pick in range(3) for name in ("warp-0", "warp-1", "loom-0", "loom-1")]
    log = [*rows]
    assert _rank(*log, "[loom-1] no such table") == 3
    assert _listed(*log).hosts[3] == "oak-3"
    rows = ["elm-7 seats=0..1 tiles=(0,0) (0,1)", "oak-3 seats=2..3 tiles=(1,0) (1,1)"]
    rows += [f"tile{{at=({at // 2},{at % 2})}}: pick {pick}" for pick in range(3) for at in range(4)]
    assert _rank(*rows, "tile{at=(1,0)}: no such table") == 2


def test_a_range_of_lettered_numbers_names_ranks() -> None:
    """Few lines may name one of them."""
    rows = ["cards g0..g3 are in nest elm-7", "cards g4..g7 are in nest oak-3"]
    assert _rank(*rows, "weave: g5 brings 5120x10") == 5


def test_a_number_at_a_host_is_that_of_a_rank_there() -> None:
    """Counted anew on each host."""
    listing = ['Shed "fe-mill" takes lanes 0 through 1', 'Shed "fe-vat" takes lanes 2 through 3']
    speaking = [f"<{host}/{at}> Lane open" for host in ("fe-mill", "fe-vat") for at in range(2)]
    assert _rank(*listing, *speaking, "<fe-vat/1> no space left") == 3


def test_the_process_that_starts_others_counts_too() -> None:
    """Julia's first worker is number 2."""
    rows = [f"  worker {at + 2} = slab {at}  elm-7  gpu {at}" for at in range(4)]
    assert _rank(*rows, "From worker 4: piece 2 is torn") == 2


def test_a_word_that_others_print_too_is_nobodys_name() -> None:
    """Two lines next to each other by chance, one of each process, list nobody's levels."""
    pairs = [
        f"10:00:{at:02d} | {'WARN' if at % 3 else 'NOTE'} | W{at % 2:02d} | pool holds {at * 311} pages"
        for at in range(40)
    ]
    assert not {"warn", "note"} & set(_listed(*pairs).names)


def test_a_measure_is_nobodys_name() -> None:
    rows = [f"tile {at} bound after 0.{at * 83 + 101}s" for at in range(4)]
    assert not any("." in name for name in _listed(*rows).names)


def test_a_range_that_each_process_has_counts_no_ranks() -> None:
    """Of several on a host each has lines of its own: those count, and not what they were given."""
    rows = [f"limb {at} is pid {pid} on elm-{at // 2}, yards {at * 32}..{at * 32 + 31}" for at, pid in enumerate(_PIDS)]
    assert _listed(*rows).hosts == {0: "elm-0", 1: "elm-0", 2: "elm-1", 3: "elm-1"}


def test_a_date_before_the_clock_counts_nothing() -> None:
    """It looks like a range of numbers."""
    rows = [
        f"elm-3 I 04-09 10:00:00.10{lane} hut.cc:58] lane {lane} = elm-{lane // 2} chip{lane % 2}" for lane in range(4)
    ]
    listing = _listed(*rows).listing
    assert listing is not None
    assert (listing.noun, listing.numbers) == ("lane", (0, 1, 2, 3))


def test_a_header_may_begin_with_what_its_rows_begin_with() -> None:
    rows = [f"[ 0.{rank}] 5626 info mill_run: roster:   {rank}  {81533 + rank} oak-9   {rank}" for rank in range(4)]
    listed = _listed("[ 0.0] 5626 info mill_run: roster: shard, pid, host, chip", *rows)
    assert listed.hosts == dict.fromkeys(range(4), "oak-9")


def test_what_each_host_has_is_told_by_the_host_of_the_line() -> None:
    """Also where another listing counts it without a host."""
    lanes = [f"hut: lane {lane} = elm-{lane // 2} chip{lane % 2} pid {4000 + lane}" for lane in range(4)]
    calls = [f"elm-0 weave: chip{chip} here" for chip in range(2)]
    assert _rank(*lanes, *calls, "elm-1 weave: chip0: cannot open the plug-in") == 2


@pytest.mark.parametrize("row", ["hub: lane {lane} -> {host}/{seat}", "hub: lane {lane} = {host} slot {seat}"])
def test_a_number_right_behind_a_host_is_the_place_that_is_listed_there(row: str) -> None:
    """In whatever order the places were given, and whatever the listing calls them."""
    places = [("oak-3", 1), ("elm-7", 1), ("oak-3", 0), ("elm-7", 0)]
    lanes = [row.format(lane=lane, host=host, seat=seat) for lane, (host, seat) in enumerate(places)]
    assert _rank(*lanes, *(f"{host}/{seat} is up" for host, seat in places), "oak-3/0 cannot map its part") == 2


def test_two_words_that_a_sign_joins_are_the_name_of_a_process() -> None:
    """Where each alone is that of several, as an address and its port are."""
    ports = [("10.4.2.11", 7100), ("10.4.2.13", 7100), ("10.4.2.11", 7101), ("10.4.2.13", 7101)]
    lanes = [f"hub: lane {lane} {address}:{port} elm-{lane % 2}" for lane, (address, port) in enumerate(ports)]
    calls = [f"{address}:{port} forge: its part is mapped" for address, port in ports]
    assert _rank(*lanes, *calls, "10.4.2.13:7101 forge: cannot open the plug-in") == 3


def test_the_beginning_of_a_word_names_a_process() -> None:
    """Behind it stands which of its threads speaks."""
    lanes = [f"hub: lane {lane} = {('elm-7', 'oak-3')[lane // 2]} dev{lane % 2}" for lane in range(4)]
    calls = [f"{host} dev{dev}-main: loading" for host in ("elm-7", "oak-3") for dev in range(2)]
    assert _rank(*lanes, *calls, "oak-3 dev0-read: cannot open the plug-in") == 2


@pytest.mark.parametrize(
    "rows",
    [
        ["03 Mar 11:20:01  Boats 0 and 1 lie at elm-7  (Quay)", "03 Mar 11:20:01  Boats 2 and 3 lie at oak-3  (Quay)"],
        ["crew: B0 B1 -> elm-7   B2 B3 -> oak-3"],
        ["{host} mole elm-7 (10.4.0.7, dev eth2): boats 0-1", "{host} mole oak-3 (10.4.0.8, dev eth2): boats 2-3"],
        ["quay h1@elm-7 has boat 0 <81.4.0> boat 1 <81.9.0>", "quay h2@oak-3 has boat 2 <82.4.0> boat 3 <82.7.0>"],
    ],
)
def test_numbers_in_a_row_stand_for_the_ranks_of_a_host(rows: list[str]) -> None:
    """Joined by a word, by blanks before an arrow, behind remarks, and one after the other with what each has."""
    assert _listed(*rows).hosts == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}


def test_what_ranges_have_in_common_may_be_said_of_the_first_alone() -> None:
    hosts = _listed("looms 0 to 3 sit on elm-7, 4 to 7 on oak-3").hosts
    assert hosts == {loom: ("elm-7", "oak-3")[loom // 4] for loom in range(8)}


def test_a_unit_is_no_noun_of_the_next_number() -> None:
    """In `600 s, 5 of 6 in` no process s5 is meant, though its own lines call it so; behind `s` alone it is."""
    listed = [f"boat|I|muster|s{at} is on elm-{at // 3} with pid {4000 + at}" for at in range(6)]
    rows = rows_of(_lines(*listed, "s1|E|gather|given up after 600 s, 5 of 6 in", "s1|E|gather|it is short of s 5"))
    directory = directory_of(rows, rows)
    unit, noun = (row.words.index("5") for row in rows[-2:])
    assert directory.rank_at(rows[-2], unit) is None
    assert directory.rank_at(rows[-1], noun) == 5


def test_a_machine_may_be_called_a_box() -> None:
    """One that all processes share needs a word that calls it a machine."""
    assert set(_listed(*(f"loom={at} box=gx-21 card={at}" for at in range(4))).hosts.values()) == {"gx-21"}


def test_hosts_that_stand_in_a_row_are_no_range_of_ranks() -> None:
    """Behind them stands no sign that they have something."""
    assert _listed("4 boats on elm7 elm8").hosts == {0: "elm7", 1: "elm7", 2: "elm8", 3: "elm8"}


def test_what_an_item_has_may_stand_around_its_number() -> None:
    """Each boat's process stands behind its number, and its word before it."""
    rows = [f"roster: {host}  boat {rank} = {_PIDS[rank]} @17:00  boat {rank + 1} = {_PIDS[rank + 1]} @31:00"
            for rank, host in ((0, "elm-7"), (2, "oak-3"))]  # fmt: skip
    log = _speaking(rows, "10:05:00 <{pid}> sea: ")
    assert _rank(*log, "10:06:00 <6202> sea: the chart is torn") == 2


def test_of_two_columns_of_hosts_the_one_that_processes_share_is_right() -> None:
    """The other has the name of each process."""
    rows = [f"INFO berth {at}  exec-{pid:x}  quay-{'ab'[at % 2]}" for at, pid in enumerate(_PIDS)]
    assert _listed(*rows).hosts == {0: "quay-a", 1: "quay-b", 2: "quay-a", 3: "quay-b"}


def test_hundreds_of_numbers_that_one_process_has_are_no_ranks() -> None:
    """They are pages of data."""
    rows = [f"10:00:00 | D0{rank} | INFO | pages {rank * 512}..{rank * 512 + 511} opened" for rank in range(4)]
    assert {listing.noun for listing in _listed(*rows).listings} == {"d"}


@pytest.mark.parametrize(("line", "a_name"), [("oak-3/1 sail torn", True), ("oak-3 lost slot 1 of its sail", False)])
def test_a_number_joined_to_its_host_is_a_name_of_the_process(line: str, a_name: bool) -> None:
    """Elsewhere in the line it may be that of another thing there."""
    crew = [f"boat {boat} host {('elm-7', 'oak-3')[boat // 2]} slot {boat % 2}" for boat in range(4)]
    rows = rows_of(_lines(*crew, line))
    listed = [reading for reading in readings_of(rows[-1], book_of(rows, rows)) if reading.means == "listed"]
    assert [(reading.rank, not reading.features["named on its host"]) for reading in listed] == [(3, a_name)]


def test_a_remark_behind_ranges_of_ranks_may_hold_another_range() -> None:
    """It tells of what each host has."""
    listed = _listed("boats 0-1 on elm-7, 2-3 on oak-3, 4-5 on fir-2; winches are numbered 0-1 on each")
    assert listed.hosts == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3", 4: "fir-2", 5: "fir-2"}


def test_a_table_may_be_announced_with_its_header() -> None:
    """A column of machines holds machines, also those that plain words name."""
    rows = [f"   {at + 1}  {'ABCD'[at]}  <0.{pid}.0>  {('garnet', 'opal')[at // 2]}" for at, pid in enumerate(_PIDS)]
    listed = _listed("10:00:00 quay: the crew (number, boat, process, machine)", *rows)
    assert listed.hosts == {1: "garnet", 2: "garnet", 3: "opal", 4: "opal"}


def test_a_record_of_another_speaker_is_no_header() -> None:
    """`tide` is not what the boats are called."""
    rows = ["10:00:00 INFO sea::crew harbour tide", *(f"10:00:0{at} INFO quay::boat boat {at}" for at in range(4))]
    assert {listing.noun for listing in _listed(*rows).listings} == {"boat"}


def test_two_columns_of_numbers_in_a_table_are_no_items() -> None:
    """In each row the second is by one greater than the first."""
    rows = [f"  {at}  {('elm-7', 'oak-3')[at // 2]}  {pid}  {at % 2}  {at % 2 + 1}" for at, pid in enumerate(_PIDS)]
    listed = _listed("boat host pid winch sail", *rows)
    assert listed.hosts == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}


def test_two_settings_that_count_up_are_no_items() -> None:
    """In one row the second number is by one greater than the first; it is a row of the listing all the same."""
    rows = [
        f'&BOAT NO={at}, HOST="elm-t3-{at // 2}", SEAT={at % 2}, LAMP={(2, 5, 1, 7)[at]} /' for at in range(len(_PIDS))
    ]
    assert _listed("HARBOUR OPEN", *rows).hosts == {at: f"elm-t3-{at // 2}" for at in range(len(_PIDS))}


def test_devices_are_no_hosts() -> None:
    """Though their names look like those of hosts, and stand behind a word that precedes hosts."""
    rows = [f"boat {at} has its chart on nvme{at // 2}n1, pid {pid}" for at, pid in enumerate(_PIDS)]
    assert _listed(*rows).hosts == {}
    assert _listed(*(row.replace("nvme", "elm-") for row in rows)).hosts.keys() == {0, 1, 2, 3}


def test_what_each_rank_of_a_range_has_is_its_name() -> None:
    """As many process ids stand beside the ranks of each host."""
    listed = _listed("crew: host=elm-7 boats=0,1 pids=4311,5127 host=oak-3 boats=2,3 pids=6202,7419")
    assert [listed.names[str(pid)].rank for pid in _PIDS] == [0, 1, 2, 3]


def test_a_range_of_hosts_may_carry_as_many_ranks_each() -> None:
    """How many all are is told too."""
    listed = _listed("10:00:00 the line opens with 8 boats; quays elm01..elm04 carry 2 boats each, in order")
    assert [listed.hosts[rank] for rank in (0, 1, 2, 7)] == ["elm01", "elm01", "elm02", "elm04"]
    assert listed.sure > _listed("10:00:00 the line opens with 8 boats; quays elm01..elm04, in order").sure


def test_a_clock_of_two_numbers_names_nobody() -> None:
    """A date and a time of day, joined by a dash."""
    rows = [f"260304-01120{at}.200~n~sea~boat{at % 4}~ knot {at}" for at in range(8)]
    assert not any(name.startswith("260304") for name in _listed(*rows).names)


_HOST_OF = {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3"}


def test_what_each_process_has_in_its_environment_tells_its_host() -> None:
    """Blocks of lines alike are one record each, in any order; a lone block or lines that all speak are none."""
    block = "--- environment of process {pid}\nLOOM_JOB=wool\nLOOM_BOAT={rank}\nLOOM_HOST={host}\nLOOM_WINCH={seat}"
    texts = [block.format(pid=_PIDS[rank], rank=rank, host=_HOST_OF[rank], seat=rank % 2) for rank in (2, 0, 3, 1)]
    assert _listed(*"\n".join(texts).splitlines()).hosts == _HOST_OF
    assert not _listed(*texts[0].splitlines()).hosts


def test_the_objects_of_a_json_text_tell_which_ranks_a_host_has() -> None:
    """They stand over several lines."""
    text = """{
  "quays": [
    {
      "quay": "elm-7",
      "boats": [0, 1]
    },
    {
      "quay": "oak-3",
      "boats": [2, 3]
    }
  ]
}"""
    assert _listed(*text.splitlines(), *(f"boat {rank} is up" for rank in range(4))).hosts == _HOST_OF


def test_lines_that_begin_alike_are_no_block() -> None:
    """A block's lines have names of their own; where one word begins all, each line is a record."""
    alike = [line for at in range(4) for line in (f"loom weft {at} is wound", f"loom pick={at} (of 9)")]
    named = [line for at in range(4) for line in (f"boat {at} is wound", f"at=elm-{at} (of 9)")]
    assert [len(list(blocks_of(rows_of(_lines(*lines))))) for lines in (alike, named)] == [0, 4]


def test_a_matrix_has_the_ranks_of_each_host_in_its_row() -> None:
    """Each number stands there once; the columns may have a header."""
    boats = [f"10:00:0{rank} boat={rank} up" for rank in range(8)]
    listed = _listed("          t0 t1 t2 t3", "  elm-nord 0 2 4 6", "  elm-west 1 3 5 7", *boats)
    assert listed.hosts == {rank: ("elm-nord", "elm-west")[rank % 2] for rank in range(8)}


def test_hosts_may_say_how_many_they_start() -> None:
    """Ranks are dealt out in the order of these lines, which stand next to each other; processes are no hosts."""
    boats = [f"boat {rank} is up" for rank in range(6)]
    listed = _listed("elm-7: agent up, starting 2 boats", "oak-3: agent up, starting 4 boats", *boats)
    assert listed.hosts == {0: "elm-7", 1: "elm-7"} | dict.fromkeys(range(2, 6), "oak-3")
    assert not _listed(*boats, "boat1 draws 2 m of 9", "boat3 draws 4 m of 9").hosts


@pytest.mark.parametrize("row", ["harbour: quays in order: oak-3, elm-7", "harbour: 0: oak-3, 1: elm-7"])
def test_hosts_that_start_some_are_taken_in_the_order_of_a_row_that_names_them(row: str) -> None:
    """Each comes up when it comes up; the row may stand above or below."""
    starting = ["elm-7: agent up, starting 2 boats", "oak-3: agent up, starting 4 boats"]
    boats = [f"boat {rank} is up" for rank in range(6)]
    for rows in ([row, *starting], [*starting, row]):
        assert _listed(*rows, *boats).hosts == dict.fromkeys(range(4), "oak-3") | {4: "elm-7", 5: "elm-7"}


def test_hosts_in_a_tree_may_have_different_numbers_of_processes() -> None:
    """Each several, next to each other, and they look like hosts."""
    tree = [
        "|-- elm-7",
        "|   |-- boat 00",
        "|   `-- boat 01",
        "`-- oak-3",
        *(f"    |-- boat 0{at}" for at in (2, 3, 4)),
    ]
    boats = [f"boat 0{at} is up" for at in range(5)]
    assert _listed("organ", *tree, *boats).hosts == {0: "elm-7", 1: "elm-7", 2: "oak-3", 3: "oak-3", 4: "oak-3"}


def test_no_number_of_a_progress_bar_may_be_a_rank() -> None:
    """It counts steps, whatever else stands on the line."""
    rows = rows_of(_lines(*(f"  2%|#  | {at}/11206 [13:41:09<566:22:59, 186.36s/it]" for at in range(9))))
    assert not any(number == 7 for row in rows for _, _, number in book_of(rows, rows).numbers[row.at])


def test_rows_of_numbers_with_commas_or_in_turn_are_ranks() -> None:
    """Several hosts have every second or third boat."""
    listed = _listed("elm-7 carries boats 0, 1, 2 and 3", "oak-3 carries boats 4, 5, 6 and 7")
    assert listed.hosts == {boat: ("elm-7", "oak-3")[boat // 4] for boat in range(8)}
    listed = _listed("elm-7 has boats [0, 2, 4]", "oak-3 has boats [1, 3, 5]")
    assert listed.hosts == {boat: ("elm-7", "oak-3")[boat % 2] for boat in range(6)}


def test_numbers_in_a_row_that_no_comma_joins_are_no_range() -> None:
    """What stands before them is no noun of theirs."""
    assert rows_of(_lines("elm-7 is not heard any more (4 5 6 7 unheard)"))[0].words[-5:] == [*"4567", "unheard"]


def test_a_host_with_two_numbers_is_no_range() -> None:
    """Its numbers have leading zeros, unlike those of a range."""
    rows = [f"    elm{2}-04{host}   boats {host * 4:4}-{host * 4 + 3}   winches 0-3" for host in range(2)]
    assert _listed(*rows).hosts == {boat: f"elm2-04{boat // 4}" for boat in range(8)}


def test_a_listing_of_hosts_counts_behind_any_number_of_others() -> None:
    """Each line that all processes print looks like a listing."""
    steps = [f"10:00:0{at} rank={boat} {word} ready" for word in "abcdefghij" for at, boat in enumerate((3, 0, 2, 1))]
    placed = [f"10:00:00 pod tm-{boat} bound to elm-{boat + 11}" for boat in range(4)]
    assert _listed(*placed, *steps).hosts == {boat: f"elm-{boat + 11}" for boat in range(4)}


_LOOMS = [f"10:00:0{at} loom {at % 8}: pass {at // 8}" for at in range(24)]
_UNEVEN = ["mira"] * 3 + ["vega"] * 5


@pytest.mark.parametrize(
    ("rows", "hosts"),
    [
        (["roster mira*3 vega*5"], _UNEVEN),
        (["looms on: mira x3, vega x5"], _UNEVEN),
        (["looms on elm-7:3,oak-3:5"], ["elm-7"] * 3 + ["oak-3"] * 5),
        (['Site {of = "mira", looms = [0,2..6]}', 'Site {of = "vega", looms = [1,3..7]}'], ["mira", "vega"] * 4),
        (["mira: 0, 2, ..., 6", "vega: 1, 3, ..., 7"], ["mira", "vega"] * 4),
        (["(crew ((at mira) (looms (0 3 5)))", "      ((at vega) (looms (1 2 4 6 7))))"], list("mvvmvmvv")),
        (["looms: mira  0-3", "       vega  4-7"], ["mira"] * 4 + ["vega"] * 4),
        (
            ["seats: loom-0 loom-1 on kl-a, loom-2 loom-3 on kl-b, loom-4 loom-5 on kl-c, loom-6 loom-7 on kl-d"],
            ["kl-a", "kl-a", "kl-b", "kl-b", "kl-c", "kl-c", "kl-d", "kl-d"],
        ),
        (
            ["loom  site  bay"] + [f"{at}  {'mira' if at < 4 else 'vega'}  bay{at % 4}" for at in range(8)],
            list("mmmmvvvv"),
        ),
    ],
)
def test_hosts_of_plain_words_are_found_in_rosters_and_sets(rows: list[str], hosts: list[str]) -> None:
    """Multiplied names, numbers at one distance, sets in brackets, and a table whose bays count anew on each host."""
    found = _listed(*rows, *_LOOMS).hosts
    assert [found.get(at, "")[: len(host)] for at, host in enumerate(hosts)] == hosts


def test_what_each_process_has_or_is_called_is_no_host() -> None:
    """A process says its own ports; shelves are passed from loom to loom."""
    assert not _listed(*(f"loom {at}: up links=hx0,hx1 feeders=4" for at in range(8)), *_LOOMS).hosts
    assert not _listed("bash-4.4$ tail weave.o88120.3", "gcc-13.2 for mesh-21.5").hosts
    rows = [f"loom {at} in hall {'mira' if at < 4 else 'vega'}" for at in range(8)]
    rows += [f"loom-0{at * 3 % 8} shelf {at} filled" for at in range(30)]
    assert _listed(*rows).hosts[5] == "vega"


@pytest.mark.parametrize(
    ("book", "host"),
    [
        ("book: mira is 10.4.2.31, vega is 10.4.2.12", "vega"),
        ("elm-7 (10.4.2.31) oak-3 (10.4.2.12)", "oak-3"),
        ("hall book: 10.4.2.31 is mira, 10.4.2.12 is vega", None),
        ("route from 10.4.2.31 to 10.4.2.12", None),
        ("mount 10.4.2.31@net-1:10.4.2.12@net-1", None),
    ],
)
def test_an_address_is_known_by_its_name(book: str, host: str | None) -> None:
    """Processes answer at addresses, and another line names these."""
    read = rows_of(_lines(book, *(f"loom {at} answers at 10.4.2.{31 if at < 4 else 12}:770{at}" for at in range(8))))
    rows = with_names(read, read)
    assert directory_of(rows, rows).hosts.get(5) == host


def test_blocks_of_labels_place_processes_whatever_their_last_words_are() -> None:
    """Reports behind each other, whose last line has other words in each, and in which only some processes are."""
    started = [f"10:00:0{unit} unit {unit} INFO start" for unit in range(8)]
    reports = [
        line
        for number, (unit, host, words) in enumerate(
            [
                (5, "elm-7", "stopped by the dispatcher"),
                (2, "oak-3", "no list"),
                (6, "elm-7", "it is not there any more"),
            ]
        )
        for line in (f"[{number + 1}]", f"  Process : unit {unit} of 8", f"  Machine : {host}", f"  Message : {words}")
    ]
    hosts = _listed(*started, "==== reports ====", *reports).hosts
    assert {unit: hosts.get(unit) for unit in (2, 5, 6)} == {2: "oak-3", 5: "elm-7", 6: "elm-7"}


def test_a_host_above_its_numbers_is_read_where_each_block_begins_with_another() -> None:
    """The host's own name is the first word of its block; the address above the numbers is no heading of theirs."""
    blocks = [
        line
        for at, host in enumerate(("elm-07", "oak-03", "fir-11"))
        for line in (
            host,
            f"  address: 10.61.4.{20 + at}",
            f"  parts: {3 * at} {3 * at + 1} {3 * at + 2}",
            "  boards: 2",
        )
    ]
    hosts = _listed("== members ==", *blocks).hosts
    assert hosts == {part: ("elm-07", "oak-03", "fir-11")[part // 3] for part in range(9)}


def test_blocks_of_which_only_some_have_a_number_on_their_lines_place_processes() -> None:
    """What a steward writes has other words in the lines of its blocks than what the cells write."""
    writers = [("steward", "12 cells"), *((f"warden of elm-{at}", "all in order") for at in range(2))]
    writers += [(f"cell {at}, pid {4100 + at}", f"took card {at % 2} on elm-{at // 2}") for at in (2, 0, 3, 1)]
    records = [
        line
        for at, (writer, words) in enumerate(writers)
        for line in (f"Record: {at}", "  Clock: 22:40:01", f"  Writer: {writer}", f"  Text: {words}")
    ]
    assert _listed(*records).hosts == {cell: f"elm-{cell // 2}" for cell in range(4)}


def test_the_number_with_which_lines_begin_counts_before_that_of_a_device() -> None:
    """`c2 boot: device 1` is of c2, as the lines that begin with c2 are."""
    rows = [f"c{rank} N boot: heap 24g, device {rank - 1}" for rank in (2, 3, 5, 1, 4, 6)]
    rows += [f"c{1 + at % 6} N plan: {at * 7} routes" for at in range(18)]
    assert _rank(*rows, "c5 W lic: the pool is empty") == 5


def test_a_line_that_is_set_in_belongs_to_the_heading_above_it() -> None:
    """Though the heading has no clock that is known."""
    rows = [
        line
        for rank in (0, 3, 1, 2, 2, 0, 1, 3)
        for line in (f"== t+{rank} bed {rank} (elm-7)", "   petals    8 of 8", "   stems     28 of 28")
    ]
    assert _rank(*rows, "== t+9 bed 2 (elm-7)", "   vowed     the sum is 1", "   found     1.04") == 2


def test_ranks_may_be_dealt_out_in_turn() -> None:
    """Where the line that names the hosts in their order, or the next one, says so."""
    seats = [f"10:00:0{seat} | slot {seat} | boot | ready, arena 60009 MiB" for seat in range(8)]
    order = "driver | launch | machines, in order: elm-4, elm-1, elm-7, elm-3"
    dealt = "driver | launch | 8 slots are dealt one at a time round that list"
    assert _listed(order, dealt, *seats).hosts[5] == "elm-1"
    assert _listed(order, *seats).hosts.get(5) != "elm-1"


def test_a_listing_of_all_counts_before_one_of_some_that_is_called_so() -> None:
    """Lines that tell of a few ranks list no job."""
    listing = _listed(
        "8 oars", *(f"rank {rank} busy" for rank in (3, 4, 5)), *(f"oar={oar}" for oar in range(8))
    ).listing
    assert listing is not None
    assert (listing.noun, listing.numbers) == ("oar", tuple(range(8)))


def test_the_number_of_a_data_loading_worker_is_no_rank() -> None:
    """PyTorch names the loader's own worker, which every process has."""
    report = [
        "torch.multiprocessing.spawn.ProcessRaisedException:",
        "-- Process 1 terminated with the following error:",
    ]
    assert _rank(*report, "raise exception", "KeyError: Caught KeyError in DataLoader worker process 0.") != 0
