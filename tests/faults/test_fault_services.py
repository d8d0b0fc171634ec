"""Services with one fault each: what they say of it is what malloc says, and arenascope names what it named before."""

from __future__ import annotations

import pytest
from fault_services import (
    FIXTURES,
    LEVELS,
    NEAR,
    Service,
    accused,
    asked,
    builds,
    sources,
    told,
    wanting,
)
from looks import give_up

TOLERANCE = 0.1
WITHOUT = ("dnscache", "gallery", "logstore", "metrics", "orderbook", "searcher", "streams", "world")
"""Those without a fault."""
CHEAP = ("broker", "chat", "gateway", "logstore")
"""What `make test` runs, at -O2: three with a fault, and one without."""
LEAST = 0.2
"""Of its memory a service's fault takes more: it is what is to be found."""
MENDED = 0.07
"""Of its fault's bytes a service without it has less."""
SAID = {
    "audit": {"containers": "nb", "owners": "nb", "report": "nb"},
    "broker": {"waste": "nbr"},
    "buffers": {"leaks": "nbr", "report": "nbr"},
    "bus": {"report": "nbr", "waste": "nbr"},
    "catalog": {"report": "nbr", "waste": "nbr"},
    "chat": {"containers": "nb", "report": "nbr", "waste": "nbr"},
    "dispatch": {"containers": "nb", "owners": "nb", "report": "nb"},
    "documents": {"containers": "nb", "owners": "nb", "report": "nbr", "waste": "nbr"},
    "gateway": {"report": "nbr", "waste": "nbr"},
    "ingest": {"report": "nbr"},
    "inventory": {"report": "nbr", "waste": "nbr"},
    "invoices": {"containers": "nb", "report": "nbr", "waste": "nbr"},
    "mailbox": {"report": "nbr", "waste": "nbr"},
    "parser": {"leaks": "nbr", "report": "nbr"},
    "peers": {"report": "nbr", "waste": "nbr"},
    "prefs": {"report": "nbr", "waste": "nbr"},
    "presence": {"report": "nbr", "waste": "nbr"},
    "renderer": {"leaks": "nbr", "report": "nbr"},
    "resolver": {"report": "nbr", "waste": "nbr"},
    "retries": {"containers": "nb", "owners": "nb", "report": "nb", "types": "nb"},
    "routes": {"report": "nbr", "waste": "nbr"},
    "routing": {"report": "nbr", "waste": "nbr"},
    "samples": {"report": "nbr", "waste": "nbr"},
    "scene": {"leaks": "nbr", "report": "nbr"},
    "scheduler": {"report": "nbr", "waste": "nbr"},
    "symbols": {"report": "nbr", "waste": "nbr"},
    "telemetry": {"report": "nbr", "waste": "nbr"},
    "thumbnails": {"containers": "nb", "owners": "nb", "report": "nbr", "types": "nb", "waste": "nbr"},
    "tiles": {"containers": "nb", "report": "nb"},
    "timers": {"report": "nbr", "waste": "nbr"},
    "uploads": {"report": "nbr", "waste": "nbr"},
    "webapp": {"containers": "nb", "owners": "nb", "report": "nb"},
    "widgets": {"leaks": "nbr", "report": "nbr"},
}
"""What commands said of the faults at -O2, where it was more than a name: score.py prints what they say now."""
ACCUSING = ("report", "waste")


def case(name: str, level: str, *command: str) -> object:
    """`waste` is asked in `make test`, too."""
    cheap = (name in CHEAP and level == "O2") or command == ("waste",)
    return pytest.param(
        name,
        level,
        *command,
        id=".".join(filter(None, (name, level, *command))),
        marks=[pytest.mark.xdist_group(f"service {name}"), *([] if cheap else [pytest.mark.full])],
    )


def have(name: str) -> None:
    compiler = wanting(name)
    if compiler:
        give_up(f"{compiler} is not installed")


def optimised(name: str) -> str:
    return builds(name)[-1]


@pytest.mark.parametrize(
    ("name", "level"), [case(name, level) for name in sources() if name not in WITHOUT for level in builds(name)]
)
def test_a_fault_costs_what_the_service_says(name: str, level: str) -> None:
    have(name)
    with Service(name, level) as service, Service(name, level, mended=True) as mended:
        truth, with_it, without = service.truth, service.sums(), mended.sums()
        left = mended.truth.bytes
    listed = f"| `{truth.reason}` |"
    assert any(f"| `{name}` |" in line and listed in line for line in (FIXTURES / "README.md").read_text().splitlines())
    assert truth.count > 0
    assert truth.bytes > LEAST * (with_it.used + (with_it.free if truth.measure == "free" else 0))
    assert left <= MENDED * truth.bytes
    costs = with_it.of(truth.measure) - without.of(truth.measure)
    assert costs == pytest.approx(truth.bytes - left, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("name", "level", "command"), [case(name, optimised(name), command) for name in SAID for command in SAID[name]]
)
def test_a_fault_is_still_named(name: str, level: str, command: str) -> None:
    have(name)
    with Service(name, level) as service:
        document = asked(service.pid, command)
    said = told(document, service.truth)
    assert set(SAID[name][command]) <= set(said.mark), said
    if command == "waste":
        assert document["waste"][0] == said.row


@pytest.mark.parametrize(
    ("name", "level", "command"), [case(name, optimised(name), command) for name in WITHOUT for command in ACCUSING]
)
def test_no_service_without_a_fault_is_accused(name: str, level: str, command: str) -> None:
    have(name)
    with Service(name, level) as service:
        assert service.truth.reason is None
        used = service.sums().used
        assert used > 5_000_000
        assert accused(asked(service.pid, command), used) == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("parser", "lost_bytes"),
        ("routing", "cycle_bytes"),
        ("scene", "lost_bytes"),
        ("widgets", "perhaps_lost_bytes"),
    ],
)
def test_the_verdict_counts_what_is_lost(name: str, key: str) -> None:
    """It must not say that all is held if a finding says that nothing leads to it."""
    have(name)
    with Service(name, optimised(name)) as service:
        report, bytes = asked(service.pid, "report"), service.truth.bytes
    assert report["held"][key] == report["judgement"]["figures"][key] == pytest.approx(bytes, rel=NEAR)


@pytest.mark.full
def test_a_hash_table_has_its_own_chains_alone() -> None:
    """Its entries are in a list as well, most of them in that alone."""
    have("resolver")
    with Service("resolver") as service:
        found = {row["path"]: row["elements"] for row in asked(service.pid, "containers")["containers"]}
        counters = service.truth.counters
    assert found["names.buckets"] == counters["hashed"]
    assert max(size for path, size in found.items() if path.startswith("names.lru")) == counters["listed"]


@pytest.mark.full
def test_values_are_those_of_all_entries_and_tell_which_left_the_table() -> None:
    """Not of those alone that the hash table still has."""
    have("resolver")
    with Service("resolver") as service:
        counters, gone = service.truth.counters, service.truth.count
        values = asked(service.pid, "types", "entry", "--values", "--with-values")["values"]
        where = asked(service.pid, "types", "entry", "--where", "hashed == 0 and refs == 1")["where"]
        conditions = ("entry: hashed == 0", "entry: hashed == 1")
        rows = [asked(service.pid, "containers", "--where", each)["containers"] for each in conditions]
    assert values["objects"] + values["guessed_objects"] == counters["listed"] == where["objects"]
    assert where["matching_objects"] == gone
    # an entry of the table is in the list as well
    unlisted, hashed_ones = ({row["path"]: row["matching_blocks"] for row in each} for each in rows)
    assert [path.startswith("names.lru") for path in unlisted] == [True]
    assert [*unlisted.values()] == [gone]
    assert [*hashed_ones.values()] == [counters["hashed"]] * 2
    assert "names.buckets" in hashed_ones
    (hashed,) = [each for each in values["members"] if each["member"] == "hashed"]
    assert {each["value"]: each["objects"] for each in hashed["most_frequent"]} == {"0": gone, "1": counters["hashed"]}
    (split,) = [each for each in values["splits"] if each["member"] == "hashed"]
    paths = {
        part["value"]: [(sorted(way["paths"]), way["objects"]) for way in part["reached"]] for part in split["parts"]
    }
    both = ["names.buckets", "names.lru"]
    assert paths == {"0": [(both[1:], gone)], "1": [(both, counters["hashed"])]}


@pytest.mark.parametrize(("name", "level"), [case(name, optimised(name)) for name in sources() if name not in WITHOUT])
def test_no_service_is_accused_of_what_is_mended(name: str, level: str) -> None:
    """What is left is small, so that of something else it may be accused rightly."""
    have(name)
    with Service(name, level, mended=True) as service:
        used = service.sums().used
        for command in ACCUSING:
            for row in accused(asked(service.pid, command), used):
                assert service.truth.reason not in (row.get("reason"), row.get("id"))


def test_every_build_is_known() -> None:
    assert {*WITHOUT, *CHEAP, *SAID} <= {*sources()}
    assert {level for name in sources() for level in builds(name)} == {"", *LEVELS}
