"""Real programs whose memory others lead to as well: a library that was given a pointer, numbers that are addresses by
chance, pointers amid structs. Each program's source says who has it."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from programs import Env, Program, halfway, rust, script, write_templates
from running import Running
from shell_door import ask
from waiting import free_port, standing

NEARLY_ALL, LITTLE = 0.95, 0.01
LXML = """
import lxml.etree as tree, time
kept = tree.Element("root")
for number in range(25000):
    item = tree.SubElement(kept, "item", id=str(number))
    item.text = "text %d" % number
print("ready", flush=True)
time.sleep(3600)
"""
ERROR_CODES = """
import hashlib, json, re, sqlite3, ssl, time
some = ssl.create_default_context()
kept = [bytes(600 + n % 300) for n in range(40000)]
contexts = [ssl.create_default_context() for _ in range(30)]
for _ in range(50):
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain("/etc/passwd")
    except ssl.SSLError:
        pass
print("ready", flush=True)
time.sleep(3600)
"""
UNBOUND = """
server:
    interface: 127.0.0.1
    port: {1}
    username: ""
    chroot: ""
    directory: "{0}"
    pidfile: "{0}/pid"
    use-syslog: no
    logfile: ""
    num-threads: 1
    do-daemonize: no
    local-zone: "example.test." static
{2}
remote-control:
    control-enable: no
"""
SQUID = """
http_port 127.0.0.1:{1}
pid_filename {0}/pid
access_log none
cache_log {0}/cache.log
coredump_dir {0}
cache_effective_user proxy
netdb_filename none
visible_hostname here
pinger_enable off
shutdown_lifetime 0 seconds
"""
KEYWORDS = """
syntax on
for n in range(20000)
  exe 'syn keyword K' . (n % 7) . ' word' . n . repeat('x', n % 40)
endfor
let kept = {}
for n in range(400)
  let kept[n . repeat('y', n % 80)] = 1
endfor
call writefile(['ready'], '/dev/stdout', 'a')
sleep 3600
"""


def listening(running: Running) -> None:
    port = int((running.folder / "port").read_text())

    def listens() -> bool:
        with socket.socket() as some:
            return some.connect_ex(("127.0.0.1", port)) == 0

    running.await_that(listens, "it does not listen")


def answering(running: Running) -> None:
    """It has begun to serve: it knows a name."""
    port = int((running.folder / "port").read_text())
    question = b"\0\1\1\0\0\1\0\0\0\0\0\0" + b"\5host7\7example\4test\0" + b"\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        some.settimeout(0.2)

        def answers() -> bool:
            some.sendto(question, ("127.0.0.1", port))
            try:
                return some.recv(512).endswith(b"\n\0\0\1")
            except OSError:
                return False

        running.await_that(answers, "it does not answer")


def clang(folder: Path, env: Env = None) -> Running:
    """The compiler itself, which the driver starts."""
    write_templates(folder)
    if shutil.which("clang++") is None:
        pytest.skip("clang is not installed")
    said = subprocess.run(["clang++", "-###", "-c", "big.cc"], cwd=folder, capture_output=True, text=True, check=True)
    return Running(folder, shlex.split(next(line for line in said.stderr.splitlines() if "-cc1" in line)), env)


def unbound(folder: Path, env: Env = None) -> Running:
    port = free_port()
    (folder / "port").write_text(str(port))
    names = "".join(f'    local-data: "host{number}.example.test. A 10.0.0.1"\n' for number in range(20000))
    (folder / "unbound.conf").write_text(UNBOUND.format(folder, port, names))
    return Running(folder, ["/usr/sbin/unbound", "-d", "-c", folder / "unbound.conf"], env)


def squid(folder: Path, env: Env = None) -> Running:
    """Its icons are in its store, of which nothing but a hash table leads to an entry: to the link amid it."""
    folder.chmod(0o777)
    port = free_port()
    (folder / "port").write_text(str(port))
    (folder / "squid.conf").write_text(SQUID.format(folder, port))
    return Running(folder, ["/usr/sbin/squid", "-N", "-n", f"test{port}", "-f", folder / "squid.conf"], env)


def vim(folder: Path, env: Env = None) -> Running:
    """Its hash tables point to the letters of keywords, which stand behind one struct, and to those of keys, which
    stand behind another."""
    (folder / "keywords.vim").write_text(KEYWORDS)
    return Running(folder, ["vim.basic", "-N", "-u", "NONE", "-es", "-S", "keywords.vim"], env)


def lxml(folder: Path, env: Env = None) -> Running:
    if subprocess.run(["/usr/bin/python3", "-c", "import lxml.etree"], capture_output=True).returncode != 0:
        pytest.skip("python3-lxml is not installed")
    return script("/usr/bin/python3", "-c", LXML)(folder, env)


def python_in_one_place(folder: Path, env: Env = None) -> Running:
    """Where its heap lies without a random place OpenSSL's error codes are addresses."""
    (folder / "codes.py").write_text(ERROR_CODES)
    words = ["setarch", "-R", "/usr/bin/python3", folder / "codes.py"]
    return Running(folder, words, {**(env or {}), "PYTHONHASHSEED": "0"})


class Truth(NamedTuple):
    program: Program
    kind: str
    """Of the owner that has nearly all."""


HELD = (
    # cc1_main() has the CompilerInstance; LLVM has its diagnostics for install_fatal_error_handler()
    Truth(Program("clang", clang, halfway), "stack"),
    # run_daemon() has the daemon; libevent has the event base for signals
    Truth(Program("unbound", unbound, answering), "stack"),
    # objects of Python's have the document
    Truth(Program("lxml", lxml), "runtime"),
    # it keeps bytes and contexts
    Truth(Program("python", python_in_one_place), "runtime"),
)
POSSIBLE = (Program("squid", squid, listening), Program("vim", vim))


def asked(running: Running, words: str) -> Any:
    with standing(running.pid):
        return ask(running.pid, words, status=(0, 1))


@pytest.mark.parametrize(
    ("serving", "kind"), [pytest.param(*each, id=each.program.name) for each in HELD], indirect=["serving"]
)
def test_the_owner_comes_first(serving: Running, kind: str) -> None:
    found = asked(serving, "owners")
    first = found["owners"][0]
    assert first["kind"] == kind
    assert first["held_bytes"] >= NEARLY_ALL * found["live_bytes"]
    if kind == "stack":
        # whoever leads to all of it as well is named
        assert first["tid"] == serving.pid
        assert first["retained_bytes"] > 0 or first["also_reached_from"]


@pytest.mark.parametrize("serving", [pytest.param(each, id=each.name) for each in POSSIBLE], indirect=True)
def test_little_is_possibly_lost(serving: Running) -> None:
    found = asked(serving, "leaks")
    perhaps = [each for each in found["leaks"] if each["strength"] == "possible"]
    assert sum(each["bytes"] + each["indirect_bytes"] for each in perhaps) < LITTLE * found["reached"]["bytes"]


@pytest.mark.parametrize(
    "serving",
    [Program("removed", lambda folder, env=None: rust(folder, env, "removed.rs"))],
    indirect=True,
    ids=["rust"],
)
def test_an_empty_place_of_a_hash_table_holds_nothing(serving: Running) -> None:
    """Half of what it had; the other half is the table's."""
    found = asked(serving, "leaks")
    (row,) = (each for each in found["stale_words"] if each["why"] == "free-slot")
    lost, size = 400, 4000
    assert lost - 1 <= row["blocks"] <= lost, "one may be on the stack"
    assert row["bytes"] >= row["blocks"] * size
    assert found["reached"]["bytes"] >= 2 * lost * size
