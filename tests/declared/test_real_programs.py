"""Programs that nobody wrote for arenascope, at -O2 -g, from their distribution's sources: what debug information names
in them is what their functions made."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence, Union

import pytest
from debian_source import built
from documents import valued_types
from doors import GDB, Core, Image, Live
from lifetimes import dies_with_us
from looks import HERE, ROOT, give_up, opened
from sites import LIBRARY, OR, Expected, Frame, compare, is_librarys_own, judged, line_of, sited_blocks, sizes_of
from subjects import await_parked
from test_doors_agree import said_by_all
from test_names import names_in
from waiting import free_port, stop

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs_network,
    pytest.mark.slow,
    pytest.mark.xdist_group("real programs"),
]
BUILT = ROOT / "fixtures" / "build" / "real"
INPUTS = HERE.parent / "declared" / "real"
"""What the programs are given."""
START_SECONDS = 60
AT_WORK = 4
"""Commands that ninja waits for."""


IN_CXX = (".cc", ".h")
LIBRARYS, IN_LIBRARY = "/usr/include/c++/", re.compile(r"\bstd::|\b__gnu_cxx::|^make_unique<")
NEW = re.compile(r"\bnew (?P<type>(?:unsigned )?\w+(?:::\w+)*)(?P<sign>[(\[{])")
LINES_OF_ONE = 4
"""A statement has more of them, but its arguments seldom."""
ALLOCATED = re.compile(r"\b(?P<name>\w+)\s*=\s*(?:malloc|calloc)\s*\((?:1\s*,\s*)?sizeof\s*\(?\s*\*\s*(?P=name)\b")


class RealProgram(NamedTuple):
    source: str
    """The distribution's package."""
    build: Callable[[Path, Path], Iterable[Sequence[object]]]
    """The commands that make a program of an unpacked source."""
    prepare: Callable[[Path], Sequence[str]]
    """Writes what it is given into a folder, in which it runs with these arguments."""
    stands: Callable[[int, Path], bool]
    """Whether it has come to where it waits."""
    remarks: Mapping[str, str]
    """By function, what it makes: as fixtures say it in their source."""
    scopes: Sequence[str] = ("",)
    """The namespaces of its types."""
    links: str = ""
    """As a remark says it: with which types its structs may begin, and which members of these then point to them."""


class Standing:
    """One that runs with a log of its sites, until it ends."""

    def __init__(self, real: RealProgram, folder: Path) -> None:
        if not LIBRARY.exists():
            give_up(f"{LIBRARY.relative_to(ROOT)} is not built: make fixtures")
        self.real, self.log = real, folder / "sites"
        self.program = built(real.source, BUILT / real.source / "program", real.build)
        words = real.prepare(folder)
        with open(folder / "output", "wb") as output:
            self.process = subprocess.Popen(
                [str(self.program), *words],
                cwd=folder,
                env={**os.environ, "SITES_LOG": str(self.log), "LD_PRELOAD": str(LIBRARY), "LC_ALL": "C"},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                preexec_fn=dies_with_us(),
            )
        with ExitStack() as stack:
            stack.callback(self.end)
            self._await(folder / "output")
            stop(self.pid)
            stack.pop_all()

    def _await(self, output: Path) -> None:
        limit = time.monotonic() + START_SECONDS
        while not self.real.stands(self.pid, output):
            said = output.read_text(errors="replace")[-500:]
            assert self.process.poll() is None, f"it ended: {said}"
            assert time.monotonic() < limit, f"not ready: {said}"
            time.sleep(0.05)
        await_parked(self.pid)

    @property
    def pid(self) -> int:
        return self.process.pid

    def expected(self) -> dict[int, Expected]:
        """Of each block of the program's own; its type is empty where nothing tells it."""
        found = {}
        judgements: dict[int, Expected] = {}
        for address, block in sited_blocks(self.log, self.pid, self.program).items():
            if not block.foreign and not is_librarys_own(block.calls):
                site = judgements.setdefault(id(block.calls), self._judged(block.calls))
                found[address] = site._replace(size=block.size, site=site.site or " < ".join(map(str, block.calls[:3])))
        return found

    def _judged(self, calls: Sequence[Frame]) -> Expected:
        found = judged(calls, self._told)
        first = next((each for each in calls if not each.function.startswith("operator new")), None)
        # of an inlined function of the library's addr2line may have no name but that of who called it
        is_nameless = first is not None and first.file.startswith(LIBRARYS) and not IN_LIBRARY.search(first.name)
        return found._replace(type="") if is_nameless else found

    def _told(self, frame: Frame) -> str:
        by_line = by_its_line(frame, self.real.scopes) or by_its_variable(frame, self.real.links)
        return self.real.remarks.get(frame.name) or by_line

    def end(self) -> None:
        # ninja ends its commands
        self.process.terminate()
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


def by_its_line(frame: Frame, scopes: Sequence[str]) -> str:
    """What a statement of C++ makes of a type that it names, which is in one of these namespaces."""
    if not (frame.file.endswith(IN_CXX) and frame.file.startswith(str(BUILT))):
        return ""
    found = list[re.Match[str]]()
    for number in range(frame.line, max(0, frame.line - LINES_OF_ONE), -1):
        line = line_of(Path(frame.file), number)
        if number < frame.line and line.rstrip().endswith((";", "{", "}")):
            break
        found += NEW.finditer(line)
    kinds = OR.join(scope + each["type"] for each in found for scope in scopes)
    return f"// block: {kinds}{'[]' * all(each['sign'] == '[' for each in found)}" if found else ""


def by_its_variable(frame: Frame, links: str) -> str:
    """What a statement of C makes of the type that a variable of the function points to: `x = malloc(sizeof(*x))`."""
    if not (frame.file.endswith(".c") and frame.file.startswith(str(BUILT))):
        return ""
    made = ALLOCATED.search(line_of(Path(frame.file), frame.line))
    if made is None:
        return ""
    declared = re.compile(rf"\bstruct (?P<type>\w+)\s+(?:[^;()=]*,)?\s*\*\s*{made['name']}\b")
    for number in range(frame.line, 0, -1):
        line = line_of(Path(frame.file), number)
        found = declared.search(line)
        if found:
            return f"// block: {found['type']}{links}"
        if line.startswith("{"):
            break
    return ""


# Lua


def lua_build(source: Path, program: Path) -> Iterator[Sequence[object]]:
    files = [each for each in sorted((source / "src").glob("*.c")) if each.name != "luac.c"]
    yield ["gcc", "-O2", "-g", "-std=gnu99", "-DLUA_USE_POSIX", *files, "-lm", "-o", program]


def lua_script(_folder: Path) -> Sequence[str]:
    return [str(INPUTS / "script.lua")]


COLLECTED = " : GCObject of GCObject.next, Table.gclist, global_State.memerrmsg"
LUA = RealProgram(
    "lua5.4",
    lua_build,
    lua_script,
    lambda _pid, output: output.read_bytes() == b"ready\n",
    {
        function: f"// block: {made}"
        for function, made in {
            "luaH_new": f"Table{COLLECTED}",
            "createstrobj": f"TString{COLLECTED}",
            "newupval": f"UpVal{COLLECTED}",
            "luaF_initupvals": f"UpVal{COLLECTED}",
            "luaF_newLclosure": f"LClosure{COLLECTED}",
            "luaF_newCclosure": f"CClosure{COLLECTED}",
            "luaF_newproto": f"Proto{COLLECTED}",
            "luaS_newudata": f"Udata{COLLECTED}",
            "lua_newthread": f"LX{COLLECTED}",
            "lua_newstate": "LG",
            "luaE_extendCI": "CallInfo",
            "luaS_resize": "TString *[]",
            "setnodevector": "Node[] of Table.node",
            "stack_init": "StackValue[] of lua_State.stack",
        }.items()
    },
)

# ninja

OTHERS = "x = 1\nrule other\n  command = true $x\nbuild other.o: other 0/header\n"
LIBRARIES, OBJECTS = 60, 30


def ninja_build(source: Path, program: Path) -> Iterator[Sequence[object]]:
    left_out = ("_test.cc", "_bench.cc", "test.cc", "browse.cc", ".in.cc", "perftest.cc")
    windows = ("win32", "msvc", "minidump")
    files = [
        each
        for each in sorted((source / "src").glob("*.cc"))
        if not each.name.endswith(left_out) and not any(word in each.name for word in windows)
    ]
    yield ["g++", "-O2", "-g", "-std=c++14", *files, "-pthread", "-o", program]


def ninja_files(folder: Path) -> Sequence[str]:
    lines = [(INPUTS / "rules.ninja").read_text()]
    for library in range(LIBRARIES):
        sources = folder / str(library)
        sources.mkdir()
        (sources / "header").touch()
        objects = [f"out/{library}/{number}.o" for number in range(OBJECTS)]
        for number, each in enumerate(objects):
            (sources / f"{number}.c").touch()
            lines.append(f"build {each}: cc {library}/{number}.c | {library}/header || lists")
            lines += [f"  cflags = -DNUMBER={number}"] * (number % 3 == 0)
        lines.append(f"build out/{library}/all | out/{library}/map: link {' '.join(objects)} |@ out/{library}/list")
        lines.append(f"build out/{library}/list: list {library}/header")
    for name, made in (("build lists: phony", "list"), ("subninja others.ninja\ndefault", "all")):
        lines.append(f"{name} {' '.join(f'out/{each}/{made}' for each in range(LIBRARIES))}")
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    (folder / "others.ninja").write_text(OTHERS)
    return ["-j", str(AT_WORK)]


def ninja_waits(pid: int, output: Path) -> bool:
    """All lists are made, and what waits for these is at work."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return len(children) == AT_WORK and output.read_text(errors="replace").count("out/") >= LIBRARIES


NINJA = RealProgram(
    "ninja-build",
    ninja_build,
    ninja_files,
    ninja_waits,
    {
        function: f"// block: {made}"
        for function, made in {
            "State::GetNode": "Node",
            "State::AddEdge": "Edge",
            "ManifestParser::ParseEdge": "BindingEnv",
            "ManifestParser::ParseFileInclude": "BindingEnv",
            "ManifestParser::ParseRule": "Rule",
            "ManifestParser::ParsePool": "Pool",
            "BuildLog::RecordCommand": "BuildLog::LogEntry",
            "SubprocessSet::Add": "Subprocess",
            "Builder::Build": "RealCommandRunner",
            "real_main": "StatusPrinter",
        }.items()
    },
)

# dnsmasq


def dnsmasq_build(source: Path, program: Path) -> Iterator[Sequence[object]]:
    yield ["gcc", "-O2", "-g", "-w", '-DVERSION="2"', *sorted((source / "src").glob("*.c")), "-o", program]


def dnsmasq_files(folder: Path) -> Sequence[str]:
    names = (f"10.{i >> 8}.{i & 255}.1 host{i}.example.org h{i}\n" for i in range(1500))
    (folder / "hosts").write_text("".join(names))
    lines = [f"port={free_port()}", f"addn-hosts={folder / 'hosts'}", "no-resolv", "no-hosts", "keep-in-foreground"]
    lines += ["listen-address=127.0.0.1", "bind-interfaces", "cache-size=5000", "log-facility=-"]
    for i in range(150):
        lines += [f"server=/zone{i}.example/127.0.0.1#5400", f"address=/block{i}.example/0.0.0.0"]
        lines += [f"txt-record=t{i}.example,text {i}", f"srv-host=_s._tcp.s{i}.example,host{i}.example.org,80"]
        lines += [f"dhcp-host=aa:bb:cc:00:00:{i:02x},10.9.0.{i},name{i}", f"cname=alias{i}.example,host{i}.example.org"]
    (folder / "conf").write_text("\n".join(lines) + "\n")
    return ["-C", "conf", "--user="]


DNSMASQ_TEXTS = ", ".join(
    [
        "server.domain",
        "txt_record.name",
        "mx_srv_record.name",
        "mx_srv_record.target",
        "cname.alias",
        "cname.target",
        "dhcp_config.hostname",
    ]
)
DNSMASQ = RealProgram(
    "dnsmasq",
    dnsmasq_build,
    dnsmasq_files,
    lambda _pid, output: b" names" in output.read_bytes(),
    {
        function: f"// block: {made}"
        for function, made in {
            "read_hostsfile": "crec",
            "make_non_terminals": "crec",
            "cache_reload": "crec",
            "canonicalise": f"char[] of {DNSMASQ_TEXTS}",
            "cache_init": "crec[]",
            "rehash": "crec *[]",
            "build_server_array": "server *[]",
        }.items()
    },
)

# aria2

WITHOUT = (
    "gnutls",
    "openssl",
    "libnettle",
    "libgmp",
    "libgcrypt",
    "libssh2",
    "libcares",
    "sqlite3",
    "libxml2",
    "libexpat",
)
"""Libraries that it can do without, so that it is built alike wherever it is built."""
WAITING, AT_A_SERVER, TORRENTS, COOKIES = 2000, 10, 40, 500
ESTABLISHED = "01"


def aria2_build(source: Path, program: Path) -> Iterator[Sequence[object]]:
    without = [f"--without-{each}" for each in WITHOUT]
    yield ["./configure", "--disable-nls", "--disable-dependency-tracking", *without, "CXXFLAGS=-O2 -g -w"]
    yield ["make", f"-j{os.cpu_count()}"]
    yield ["cp", "src/aria2c", program]


Bencoded = Union[int, bytes, Sequence["Bencoded"], Mapping[bytes, "Bencoded"]]


def bencoded(value: Bencoded) -> bytes:
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, bytes):
        return b"%d:%b" % (len(value), value)
    if isinstance(value, Mapping):
        return b"d%be" % b"".join(bencoded(part) for pair in sorted(value.items()) for part in pair)
    return b"l%be" % b"".join(map(bencoded, value))


def torrent(number: int) -> bytes:
    """Of several files, with as many pieces as these have."""
    size, piece, count = 100_000, 1 << 15, 1 + number % 7
    files = [{b"length": size, b"path": [b"folder", b"file %d" % each]} for each in range(count)]
    information = {
        b"files": files,
        b"name": b"torrent %d" % number,
        b"piece length": piece,
        b"pieces": b"p" * 20 * -(-size * count // piece),
    }
    trackers = [[b"http://tracker%d.example/announce" % each] for each in range(3)]
    return bencoded({b"announce": trackers[0][0], b"announce-list": trackers, b"info": information})


@cache
def silent() -> socket.socket:
    """It accepts nobody: whoever connects to it waits."""
    return socket.create_server(("127.0.0.1", 0), backlog=8 * AT_A_SERVER)


def aria2_files(folder: Path) -> Sequence[str]:
    """What is asked of a server that never answers, and what waits for its turn."""
    port, files = silent().getsockname()[1], [folder / f"{number}.torrent" for number in range(TORRENTS)]
    lines = [f"http://127.0.0.1:{port}/{number}\n  out=got {number}\n" for number in range(AT_A_SERVER)]
    for number, file in enumerate(files):
        file.write_bytes(torrent(number))
        lines.append(f"{file}\n  pause=true\n")
    for number in range(WAITING):
        mirrors = "\t".join(f"http://host{each}.example/some/path/{number}" for each in range(1 + number % 3))
        lines.append(f"{mirrors}\n  dir={folder}/{number % 9}\n  header=X-Number: {number}\n  pause=true\n")
    (folder / "list").write_text("".join(lines))
    cookies = (f"host{i % 60}.example\tTRUE\t/{i}\tFALSE\t4000000000\tname{i}\tvalue {i}\n" for i in range(COOKIES))
    (folder / "cookies").write_text("".join(cookies))
    options = {
        "no-conf": "true",
        "dir": folder,
        "input-file": folder / "list",
        "load-cookies": folder / "cookies",
        "rpc-listen-port": free_port(),
        "max-concurrent-downloads": AT_A_SERVER,
        "timeout": 600,
        "summary-interval": 0,
        "enable-rpc": "true",
        "enable-dht": "false",
        "enable-mmap": "false",
    }
    return [f"--{key}={value}" for key, value in options.items()]


def aria2_waits(_pid: int, _output: Path) -> bool:
    """It has asked for all that it may ask for at once."""
    silent_port = f":{silent().getsockname()[1]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return sum(row[2].endswith(silent_port) and row[3] == ESTABLISHED for row in rows[1:]) >= AT_A_SERVER


ARIA2 = RealProgram(
    "aria2", aria2_build, aria2_files, aria2_waits, {}, ("", "aria2::", "aria2::(anonymous namespace)::")
)


# haproxy

BACKENDS, SERVERS, VALUES = 40, 6, 2000
HAPROXY_FRONT = """
global
  nbthread 2
defaults
  mode http
  timeout connect 60s
  timeout client 60s
  timeout server 60s
  option httplog
frontend front
  bind unix@{folder}/socket
  stick-table type string len 64 size 1k expire 30m store http_req_cnt
  http-request track-sc0 path
  http-request set-header X-Value %[path,map({folder}/values,none)]
"""
HAPROXY_BACK = """
backend back{number}
  cookie SERVED insert indirect nocache
  http-request set-header X-Back back{number}
  http-request add-header X-Source %[src]
"""


def haproxy_build(source: Path, program: Path) -> Iterator[Sequence[object]]:
    yield ["make", f"-j{os.cpu_count()}", "TARGET=linux-glibc", "DEBUG_CFLAGS=-g -w"]
    yield ["cp", "haproxy", program]


def haproxy_files(folder: Path) -> Sequence[str]:
    lines, numbers = [HAPROXY_FRONT.format(folder=folder)], range(BACKENDS)
    lines += [f"  use_backend back{number} if {{ hdr(host) -i host{number}.example }}" for number in numbers]
    for number in numbers:
        lines.append(HAPROXY_BACK.format(number=number))
        lines += [f"  server some{each} 127.0.0.1:9 cookie c{each} weight {each + 1}" for each in range(SERVERS)]
    (folder / "conf").write_text("\n".join(lines) + "\n")
    (folder / "values").write_text("".join(f"/path{number} value{number}\n" for number in range(VALUES)))
    return ["-db", "-f", "conf"]


HAPROXY = RealProgram(
    "haproxy",
    haproxy_build,
    haproxy_files,
    lambda _pid, output: (output.parent / "socket").exists(),
    {},
    links=" : list of list.n, list.p",
)


class Least(NamedTuple):
    typed: float
    """Of blocks."""
    names: int
    """Different ones."""
    unknown: float = 0.02
    """Of these at most nothing tells what they should be."""


LEAST = {
    "lua5.4": Least(0.60, 10),
    "ninja-build": Least(0.98, 20),
    "dnsmasq": Least(0.97, 4, 0.5),
    "aria2": Least(0.99, 50),
    "haproxy": Least(0.3, 15, 0.6),
}
SAMPLE = 50


class Look(NamedTuple):
    real: RealProgram
    images: Sequence[Image]
    expected: Mapping[int, Expected]
    sizes: Mapping[str, int]


@pytest.fixture(
    scope="module", params=[pytest.param(each, id=each.source) for each in (LUA, NINJA, DNSMASQ, ARIA2, HAPROXY)]
)
def look(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    folder = tmp_path_factory.mktemp("real")
    standing = Standing(request.param, folder)
    try:
        expected, core = standing.expected(), folder / "core"
        live = Live(standing.pid, standing.program)
        opened(GDB).do(live, [f"generate-core-file {core}"])
        sizes = sizes_of(standing.program, {each.type for each in expected.values() if each.type})
        yield Look(request.param, (live, Core(core, standing.program)), expected, sizes)
    finally:
        standing.end()


@pytest.mark.parametrize("image", [0, 1], ids=["live", "core"])
def test_no_name_is_wrong(look: Look, image: int, tmp_path: Path) -> None:
    """All blocks are compared, and enough of each name."""
    told = {address: name for address, (name, _) in names_in(GDB, look.images[image], tmp_path).items()}
    found = compare(told, look.expected, look.sizes)
    assert found.wrong == []
    least = LEAST[look.real.source]
    assert found.typed >= least.typed
    judged = Counter(name for address, name in told.items() if address in look.expected and look.expected[address].type)
    unknown = sum(not each.type for address, each in look.expected.items() if address in told)
    assert unknown <= least.unknown * len(told)
    assert sum(judged.values()) >= SAMPLE
    assert len(judged) >= least.names


def test_a_name_from_elsewhere_is_seen(look: Look, tmp_path: Path) -> None:
    """Names that are moved by one block are wrong: the comparison sees it."""
    told = names_in(GDB, look.images[0], tmp_path)
    addresses = sorted(told)
    moved = {here: told[there][0] for here, there in zip(addresses, addresses[1:])}
    judged = sum(bool(look.expected[each].type) for each in moved if each in look.expected)
    assert len(compare(moved, look.expected, look.sizes).wrong) > judged / 10


@pytest.mark.parametrize("image", [0, 1], ids=["live", "core"])
def test_all_doors_say_the_same(look: Look, image: int) -> None:
    valued = valued_types(GDB, look.images[0])
    assert valued
    said_by_all(look.images[image], valued)
