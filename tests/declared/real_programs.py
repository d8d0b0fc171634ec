"""Programs from their distribution's sources, at -O2 -g, which stand still with much in their heaps; and what their
functions make."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence, Union

import pytest
from debian_source import downloaded, unpack
from lifetimes import dies_with_us
from looks import ROOT, give_up
from running import await_stop
from sites import LIBRARY, OR, Expected, Frame, is_librarys_own, judged, line_of, sited_blocks
from subjects import await_parked

BUILT = ROOT / "fixtures" / "build" / "real"
START_SECONDS = 60
AT_WORK = 4
"""Commands that ninja waits for."""


IN_CXX = (".cc", ".h")
LIBRARYS, IN_LIBRARY = "/usr/include/c++/", re.compile(r"\bstd::|\b__gnu_cxx::|^make_unique<")
NEW = re.compile(r"\bnew (?P<type>(?:unsigned )?\w+(?:::\w+)*)(?P<sign>[(\[{])")
LINES_OF_ONE = 4
"""A statement has more of them, but its arguments seldom."""


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

    def built(self) -> Path:
        """Built once: it stays where fixtures are built."""
        program = BUILT / self.source / "program"
        if program.exists():
            return program
        for needed in ("apt-get", "gcc", "g++"):
            if not shutil.which(needed):
                pytest.skip(f"{needed} is not installed: {self.source} is built from its distribution's source")
        program.parent.mkdir(parents=True, exist_ok=True)
        source = program.with_name("source")
        shutil.rmtree(source, ignore_errors=True)
        unpack(downloaded(self.source, program.parent), source)
        new = program.with_name("new")
        for words in self.build(source, new):
            done = subprocess.run([*map(str, words)], cwd=source, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-2000:]
        # whole or not at all
        os.replace(new, program)
        return program


class Standing:
    """One that runs with a log of its sites, until it ends."""

    def __init__(self, real: RealProgram, folder: Path) -> None:
        if not LIBRARY.exists():
            give_up(f"{LIBRARY.relative_to(ROOT)} is not built: make fixtures")
        self.real, self.program, self.log = real, real.built(), folder / "sites"
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
            os.kill(self.pid, signal.SIGSTOP)
            await_stop(self.pid)
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
        return self.real.remarks.get(frame.name) or by_its_line(frame, self.real.scopes)

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


# Lua

SCRIPT = """
local long = string.rep("some text ", 10)
local function counter(n) local sum = n; return function(x) sum = sum + x; n = n - 1; return sum, n end end
local Shape = {}; Shape.__index = Shape; Shape.__gc = function() end
kept = {}
for i = 1, 400 do
  local t = setmetatable({ id = i, name = "name " .. i, long = long .. i, list = {} }, Shape)
  for j = 1, i % 37 do t.list[j] = j * 1.5 end
  t.count = counter(i)
  if i % 10 == 0 then
    t.routine = coroutine.create(function(a)
      local x, up = { a }, counter(a)
      return coroutine.yield(function() return x end), up
    end)
    coroutine.resume(t.routine, i)
  end
  if i % 50 == 0 then t.file = io.tmpfile() end
  if i % 20 == 0 then t.made = load("local a = ...; return function(x) return a + x + " .. i .. " end")(1) end
  kept[i], kept["key " .. i] = t, long .. "key " .. i
end
kept.weak = setmetatable({}, { __mode = "k" })
for i = 1, 50 do kept.weak[kept[i]] = i end
for i = 1, 2000 do kept["short" .. i] = i end
kept.words = string.gmatch("a b c", "%a"); kept.words()
collectgarbage()
print("ready"); io.stdout:flush()
io.read()
"""


def lua_build(source: Path, program: Path) -> Iterator[Sequence[object]]:
    files = [each for each in sorted((source / "src").glob("*.c")) if each.name != "luac.c"]
    yield ["gcc", "-O2", "-g", "-std=gnu99", "-DLUA_USE_POSIX", *files, "-lm", "-o", program]


def lua_script(folder: Path) -> Sequence[str]:
    (folder / "script.lua").write_text(SCRIPT)
    return ["script.lua"]


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

RULES = """
builddir = out
cflags = -O2
pool heavy
  depth = 2
rule cc
  command = sleep 300 # $cflags $in -o $out
  description = CC $out
  depfile = $out.d
  deps = gcc
rule link
  command = sleep 300 # $in
  pool = heavy
rule list
  command = cat $out.rsp
  rspfile = $out.rsp
  rspfile_content = $in_newline
"""
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
    lines = [RULES]
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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


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
