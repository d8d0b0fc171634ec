"""The table of real programs: how each is started, and what keeps it busy. Servers have a socket in their folder."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Sequence, Union

import pytest
from looks import give_up, needs
from running import CLIENTS, Running, receive, receive_until

HERE = Path(__file__).resolve().parent
COMMITS, FILES = 300, 20
Reply = Union[bytes, None, list["Reply"]]
NGINX = """
daemon off; worker_processes 1; user root; pid {0}/nginx.pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off; gzip on; gzip_types *; gzip_min_length 1; client_body_temp_path {0}/body;
    proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi; uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
    server {{ listen unix:{0}/socket; root {0}; }}
}}
"""


HAPROXY = """
global
    nbthread 2
    stats socket {0}/control
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
listen all
    bind unix@{0}/socket
    stick-table type string len 64 size 10k expire 30m store http_req_cnt
    http-request track-sc0 path
    http-request return status 200 content-type text/plain string {1}
"""
LIGHTTPD = """
server.document-root = "{0}"
server.bind = "{0}/socket"
server.modules = ( "mod_access", "mod_expire" )
expire.url = ( "/" => "access plus 1 hours" )
mimetype.assign = ( ".txt" => "text/plain" )
"""


Env = Optional[dict[str, str]]
Start = Callable[[Path, Env], Running]


class Said(NamedTuple):
    """What `report` must say of a program and what it must not, by ids of causes and advice."""

    judgements: tuple[str, ...]
    """One of these."""
    must: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


NOTHING = Said(())


@dataclass(frozen=True)
class Program:
    name: str
    start: Start
    load: Callable[[Running], None] = Running.await_line
    threads: int = 1
    """It has at least so many."""
    allocators: tuple[str, ...] = ()
    """Those beside glibc's."""
    said: Said = NOTHING


def script(*words: object) -> Start:
    return lambda folder, env=None: Running(folder, words, env)


# a database


def mariadb(folder: Path, env: Env = None) -> Running:
    (folder / "data").mkdir()
    return Running(
        folder,
        [
            "mariadbd",
            "--no-defaults",
            "--user=root",
            f"--datadir={folder}/data",
            # one that starts deletes what it finds of temporary tables, also those of another
            f"--tmpdir={folder}",
            f"--socket={folder}/socket",
            "--skip-networking",
            "--skip-grant-tables",
            f"--pid-file={folder}/pid",
            "--innodb-buffer-pool-size=16M",
            "--innodb-log-file-size=8M",
            "--innodb-fast-shutdown=2",
        ],
        env,
    )


def query(connection: socket.socket, statement: str) -> None:
    """COM_QUERY of a statement without rows."""
    send_packet(connection, 0, b"\x03" + statement.encode())
    reply = packet(connection)
    assert reply[0] == 0, reply


def told(connection: socket.socket, statement: str) -> list[list[str]]:
    """A statement's rows. Each value is shorter than 251 bytes, and none is NULL."""
    send_packet(connection, 0, b"\x03" + statement.encode())
    packets: list[bytes] = []
    while sum(each[:1] == b"\xfe" for each in packets) < 2:
        packets.append(packet(connection))
    first = next(number for number, each in enumerate(packets) if each[:1] == b"\xfe")
    found = []
    for each in packets[first + 1 : -1]:
        row, at = [], 0
        while at < len(each):
            row.append(each[at + 1 : at + 1 + each[at]].decode())
            at += 1 + each[at]
        found.append(row)
    return found


def send_packet(connection: socket.socket, number: int, text: bytes) -> None:
    connection.sendall(len(text).to_bytes(3, "little") + bytes([number]) + text)


def packet(connection: socket.socket) -> bytes:
    return receive(connection, int.from_bytes(receive(connection, 4)[:3], "little"))


def log_in(connection: socket.socket) -> None:
    packet(connection)
    protocol_41, secure, plugins = 0x200, 0x8000, 0x80000
    reply = (protocol_41 | secure | plugins | 1).to_bytes(4, "little") + (1 << 24).to_bytes(4, "little") + b"\x21"
    send_packet(connection, 1, reply + bytes(23) + b"root\0" + b"\0" + b"mysql_native_password\0")
    answer = packet(connection)
    assert answer[0] == 0, answer
    query(connection, "CREATE DATABASE IF NOT EXISTS busy")
    query(connection, "USE busy")


def tables(connection: socket.socket, number: int, round_: int) -> None:
    table = f"t{number}_{round_ % 3}"
    query(connection, f"CREATE OR REPLACE TEMPORARY TABLE {table} (a INT, b TEXT)")
    query(connection, f"INSERT INTO {table} SELECT seq, REPEAT(MD5(seq), 1 + seq % 90) FROM seq_1_to_400")
    query(connection, f"SET @all = (SELECT GROUP_CONCAT(b ORDER BY MD5(a)) FROM {table})")


# a cache, and a web server


def memcached(folder: Path, env: Env = None) -> Running:
    return Running(folder, ["memcached", "-u", "root", "-t", "8", "-m", "64", "-s", folder / "socket"], env)


def values(connection: socket.socket, number: int, round_: int) -> None:
    size = 100 + 177 * (round_ % 200)
    connection.sendall(f"set k{number}-{round_ % 300} 0 0 {size}\r\n".encode() + b"x" * size + b"\r\n")
    answer = receive_until(connection, b"\r\n")
    assert answer == b"STORED\r\n", answer


def nginx(folder: Path, env: Env = None) -> Running:
    (folder / "nginx.conf").write_text(NGINX.format(folder))
    (folder / "page").write_text("the same words over and over " * 4000)
    return Running(folder, ["nginx", "-c", folder / "nginx.conf", "-p", folder], env)


def get(connection: socket.socket, path: str, **headers: str) -> None:
    client = http.client.HTTPConnection("here")
    client.sock = connection
    client.request("GET", path, headers=headers)
    reply = client.getresponse()
    assert (reply.status, bool(reply.read())) == (200, True)


def pages(connection: socket.socket, number: int, round_: int) -> None:
    get(connection, "/page", **{"Accept-Encoding": "gzip", "X-Words": "w" * (50 * number)})


def requests(running: Running) -> None:
    running.serve(running.folder / "socket", pages, 20)
    its_worker(running)


def its_worker(running: Running) -> None:
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    running.pid = int(children[0])


def haproxy(folder: Path, env: Env = None) -> Running:
    (folder / "haproxy.cfg").write_text(HAPROXY.format(folder, "words" * 1000))
    return Running(folder, ["haproxy", "-db", "-f", folder / "haproxy.cfg"], env)


def lighttpd(folder: Path, env: Env = None) -> Running:
    (folder / "lighttpd.conf").write_text(LIGHTTPD.format(folder))
    for number in range(CLIENTS):
        (folder / f"page{number}.txt").write_text("the same words over and over " * 400 * (number + 1))
    return Running(folder, ["lighttpd", "-D", "-f", folder / "lighttpd.conf"], env)


def texts(connection: socket.socket, number: int, round_: int) -> None:
    get(
        connection,
        f"/page{number}.txt?round={round_}",
        **{"X-Words": "w" * (50 * number), "Referer": f"http://here/{round_}"},
    )


# what another allocator serves


def redis(folder: Path, env: Env = None) -> Running:
    """Debian's is linked with jemalloc."""
    words = ["--port", 0, "--unixsocket", folder / "socket", "--save", "", "--dir", folder]
    return Running(folder, ["redis-server", *words], env)


def keys(connection: socket.socket, number: int, round_: int) -> None:
    text = "x" * (100 + 177 * (round_ % 200))
    assert answer(connection, "SET", f"k{number}-{round_ % 300}", text) == b"+OK"


def redis_on_glibc(folder: Path, env: Env = None, options: Sequence[object] = ()) -> Running:
    """The same program: whoever is loaded first serves malloc."""
    loaded = Path("/proc/self/maps").read_text().splitlines()
    libc = next((line.split()[-1] for line in loaded if line.endswith("/libc.so.6")), None)
    if libc is None:
        pytest.skip("the tests' own Python has no libc.so.6 to load into redis")
    words = ["--port", 0, "--unixsocket", folder / "socket", "--save", "", "--dir", folder, *options]
    before = [env["LD_PRELOAD"]] if env and "LD_PRELOAD" in env else []
    return Running(folder, ["redis-server", *words], {**(env or {}), "LD_PRELOAD": ":".join([*before, libc])})


def redis_says(running: Running) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(running.folder / "socket"))
    return connection


def send_command(connection: socket.socket, *words: object) -> None:
    parts = [str(each).encode() for each in words]
    connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(each), each) for each in parts))


def answer(connection: socket.socket, *words: object) -> Reply:
    send_command(connection, *words)
    return reply(connection)


def reply(connection: socket.socket) -> Reply:
    line = receive_until(connection, b"\r\n")[:-2]
    kind, rest = line[:1], line[1:]
    if kind not in b"$*":
        return line
    if int(rest) < 0:
        return None
    if kind == b"*":
        return [reply(connection) for _ in range(int(rest))]
    return receive(connection, int(rest) + 2)[:-2]


def fewer_keys(connection: socket.socket, number: int, round_: int) -> None:
    """As many again are deleted, but for one in ten."""
    if round_ < 300:
        keys(connection, number, round_)
    elif round_ % 10:
        assert answer(connection, "DEL", f"k{number}-{round_ - 300}") == b":1"


# a database whose pages are in shared memory, and one within a program


def postgres(folder: Path, env: Env = None) -> Running:
    """It does not run as root."""
    folder.chmod(0o777)
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        give_up("postgres is not installed")
    other = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    initdb = [*other, found[-1] / "initdb", "-D", folder / "data", "-A", "trust", "-U", "busy", "--no-sync"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL)
    return Running(folder, [*other, found[-1] / "postgres", "-D", folder / "data", "-k", folder, "-h", "", "-F"], env)


def asked(connection: socket.socket, statement: str) -> list[list[str]]:
    """A statement's rows."""
    text = statement.encode() + b"\0"
    connection.sendall(b"Q" + (4 + len(text)).to_bytes(4, "big") + text)
    found = []
    for body in rows_until_ready(connection):
        row, at = [], 2
        for _ in range(int.from_bytes(body[:2], "big")):
            size = int.from_bytes(body[at : at + 4], "big")
            row.append(body[at + 4 : at + 4 + size].decode())
            at += 4 + size
        found.append(row)
    return found


def rows_until_ready(connection: socket.socket) -> list[bytes]:
    found, kind = [], b""
    while kind != b"Z":
        head = receive(connection, 5)
        kind, body = head[:1], receive(connection, int.from_bytes(head[1:], "big") - 4)
        assert kind != b"E", body
        if kind == b"D":
            found.append(body)
    return found


def join(connection: socket.socket) -> None:
    words = b"user\0busy\0database\0postgres\0\0"
    connection.sendall((8 + len(words)).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + words)
    rows_until_ready(connection)
    asked(connection, "SET client_min_messages = error")


def rows(connection: socket.socket, number: int, round_: int) -> None:
    table = f"t{round_ % 3}"
    asked(connection, f"DROP TABLE IF EXISTS {table}")
    asked(
        connection,
        f"CREATE TEMPORARY TABLE {table} AS SELECT n, repeat(md5(n::text), 1 + n % 90) AS b "
        "FROM generate_series(1, 400) AS n",
    )
    asked(connection, f"SELECT length(string_agg(b, '' ORDER BY md5(n::text))) FROM {table}")


def backends(running: Running) -> None:
    has_started(running)
    running.serve(running.folder / ".s.PGSQL.5432", rows, 10, join)
    its_backend(running)


def has_started(running: Running) -> None:
    told = running.folder / "data" / "postmaster.pid"
    running.await_that(lambda: told.exists() and "ready" in told.read_text(), "it does not start")


def its_backend(running: Running) -> None:
    """The largest of its children: one that serves a client."""
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    sizes = {int(each): int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in children}
    running.pid = max(sizes, key=lambda pid: sizes[pid])


def sqlite(folder: Path, env: Env = None) -> Running:
    (folder / "load.sql").write_text((HERE / "load.sql").read_text())
    return Running(folder, ["sqlite3", "-batch", ":memory:", ".read load.sql"], env)


# a browser


def chromium(folder: Path, env: Env = None) -> Running:
    """Its first process, in which there are some 40 threads."""
    page = "data:text/html,<script>kept=[];for(i=0;i<200000;i++)kept.push('x'+i)</script>"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
    return Running(folder, ["chromium", *options, f"--user-data-dir={folder}/profile", page], env)


def browser(running: Running) -> None:
    running.await_that((running.folder / "profile" / "DevToolsActivePort").exists, "it does not start")


# a compiler, a debugger, what Rust and Go make, and a JVM


def rust(folder: Path, env: Env = None, source: str = "load.rs") -> Running:
    needs("rustc")
    subprocess.run(["rustc", "-O", "-o", folder / "load", HERE / source], check=True)
    return Running(folder, [folder / "load"], env)


def go(folder: Path, env: Env = None) -> Running:
    needs("go")
    build = {**os.environ, "HOME": str(folder), "CGO_ENABLED": "1", "GOFLAGS": "-modcacherw"}
    subprocess.run(["go", "build", "-o", folder / "load", HERE / "load.go"], check=True, env=build, cwd=folder)
    return Running(folder, [folder / "load"], env)


def gdb(folder: Path, env: Env = None) -> Running:
    """It has read all that there is about a program in C++."""
    source = '#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; return m["a"]; }\n'
    (folder / "some.cc").write_text(source)
    subprocess.run(["g++", "-g", "-o", folder / "some", folder / "some.cc"], check=True)
    stays = "python import gdb, time; gdb.write('ready\\n'); gdb.flush(); time.sleep(3600)"
    return Running(folder, ["gdb", "-nx", "-q", "-readnow", folder / "some", "-ex", "break main", "-ex", stays], env)


def write_templates(folder: Path) -> None:
    """big.cc, over which a compiler needs a large heap."""
    lines = [
        "#include <map>",
        "#include <string>",
        "template<int N> struct T { std::map<int, T<N>*> m; int f(int x) "
        "{ std::string s(x + N, 'a'); m[x] = this; return s.find('b') + m.size() * N; } };",
    ]
    lines += [f"int g{number}(int x) {{ T<{number}> t; return t.f(x); }}" for number in range(4000)]
    (folder / "big.cc").write_text("\n".join(lines) + "\n")


def cc1plus(folder: Path, env: Env = None) -> Running:
    needs("g++")
    told = [
        subprocess.run(["g++", each], capture_output=True, text=True, check=True).stdout.strip()
        for each in ("-print-prog-name=cc1plus", "-print-multiarch")
    ]
    write_templates(folder)
    return Running(folder, [told[0], "-quiet", "-imultiarch", told[1], "-O2", "big.cc", "-o", "big.s"], env)


def java(folder: Path, env: Env = None, options: Sequence[str] = ()) -> Running:
    if shutil.which("javac") is None:
        give_up("no JDK is installed: a JRE alone does not run a source file")
    words = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options, HERE / "Load.java"]
    return Running(folder, words, env)


def tracked_java(folder: Path, env: Env = None) -> Running:
    """It keeps an account of its native memory, with words in front of each block."""
    return java(folder, env, ["-XX:NativeMemoryTracking=summary"])


def halfway(running: Running) -> None:
    """It has far more to do than this."""
    status = Path(f"/proc/{running.pid}/statm")
    running.await_that(lambda: int(status.read_text().split()[1]) > 100 << 20 >> 12, "it stays small")


# a history, of which nobody reads more than a pipe takes


def history(folder: Path, env: Env = None) -> Running:
    """git, which shows more than anybody reads."""
    subprocess.run(["git", "init", "-q", folder / "repository"], check=True)
    said = []
    for number in range(COMMITS):
        said.append(f"commit refs/heads/main\ncommitter a <a@b> {1600000000 + number} +0000\ndata 4\nc{number:03}\n")
        text = "".join(f"{line * number % 997} {line}\n" for line in range(200))
        said.append(f"M 644 inline f{number % FILES}\ndata {len(text)}\n{text}\n")
    words = ["git", "-C", folder / "repository", "fast-import", "--quiet"]
    subprocess.run(words, input="".join(said).encode(), check=True)
    return Running(folder, ["git", "-C", folder / "repository", "log", "-p", "--stat", "-M", "-C", "main"], env)


def blocked(running: Running) -> None:
    """Its pipe is full, and so much is certain of where it is."""
    place = Path(f"/proc/{running.pid}/wchan")
    running.await_that(lambda: "pipe" in place.read_text(), "it has nothing to say")


FOREIGN = ("not-this-malloc", "ask-who-mapped")
TUNING = ("thresholds-grew", "pin-thresholds", "limit-arenas", "trim-once", "trim-regularly", "other-allocator")
SETTLED = ("nothing-to-tune", "nothing-more-to-tune")
"""What takes two moments to say."""
IN_USE = ("look-again", "find-what-grew", "mend-leak", *SETTLED)
ELSEWHERE = ("mostly-not-this-malloc", "mostly-not-malloc", "mostly-mapped-files")
PROGRAMS = (
    Program(
        "python",
        script("/usr/bin/python3", HERE / "load.py"),
        threads=7,
        allocators=("CPython",),
        said=Said(("live-data",), ("look-again",), (*TUNING, "ask-who-mapped")),
    ),
    Program(
        "node",
        script("node", HERE / "load.js"),
        threads=5,
        allocators=("V8",),
        said=Said((*ELSEWHERE, "live-and-freed", "unread"), ("not-this-malloc",), ("limit-arenas", *IN_USE)),
    ),
    Program(
        "java",
        java,
        threads=13,
        allocators=("JVM",),
        said=Said((*ELSEWHERE, "unread"), FOREIGN, ("pin-thresholds", "thresholds-grew", *IN_USE)),
    ),
    Program(
        "perl", script("perl", HERE / "load.pl"), said=Said(("freed", "live-and-freed"), (), ("limit-arenas", *FOREIGN))
    ),
    Program(
        "mariadbd",
        mariadb,
        lambda running: running.serve(running.folder / "socket", tables, 10, log_in),
        8,
        ("InnoDB",),
        Said((*ELSEWHERE, "unread"), FOREIGN, IN_USE),
    ),
    Program(
        "memcached",
        memcached,
        lambda running: running.serve(running.folder / "socket", values, 200),
        8,
        said=Said(("live-data", "live-and-freed"), (), ("limit-arenas", "other-allocator", *FOREIGN)),
    ),
    Program("nginx", nginx, requests, said=Said(ELSEWHERE, (), (*TUNING, *FOREIGN))),
    Program(
        "php",
        script("php", HERE / "load.php"),
        allocators=("Zend",),
        said=Said(("mostly-not-this-malloc",), FOREIGN, (*TUNING, *IN_USE)),
    ),
    Program(
        "ruby",
        script("ruby", HERE / "load.rb"),
        allocators=("Ruby",),
        said=Said(("live-data",), ("look-again", "not-this-malloc"), TUNING),
    ),
    Program(
        "postgres",
        postgres,
        backends,
        allocators=("PostgreSQL",),
        said=Said(ELSEWHERE, FOREIGN, ("limit-arenas", *IN_USE)),
    ),
    Program(
        "sqlite",
        sqlite,
        said=Said(("live-and-freed",), ("trim-once", "free-between-live"), ("limit-arenas", *FOREIGN)),
    ),
    Program("cc1plus", cc1plus, halfway, said=Said(("mostly-not-this-malloc",), FOREIGN, (*TUNING, *IN_USE))),
)
SINGLE = (
    Program("git", history, blocked),
    Program(
        "redis-on-glibc",
        redis_on_glibc,
        lambda running: running.serve(running.folder / "socket", keys, 200),
        4,
    ),
    Program("haproxy", haproxy, lambda running: running.serve(running.folder / "socket", texts, 30), 2),
    Program("lighttpd", lighttpd, lambda running: running.serve(running.folder / "socket", texts, 30)),
    Program("gdb", gdb),
    Program("go", go, threads=5),
    Program("rust", rust, threads=5),
)
"""Started by few tests alone."""


def named(name: str) -> Program:
    return next(each for each in (*PROGRAMS, *SINGLE) if each.name == name)
