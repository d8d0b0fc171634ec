"""/proc/PID, against what the subject says of itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from schemas import valid
from shell_door import arenascope

from arenascope.base.errors import MemoryReadError, TargetError
from arenascope.sources.elf.elf_file import ElfFile
from arenascope.sources.live import proc_tables
from arenascope.sources.live.process import ProcessImage

ROOT = Path(__file__).resolve().parents[2]
PAGE = os.sysconf("SC_PAGE_SIZE")
UNPRIVILEGED = 65534


@pytest.fixture
def image(subject):
    with ProcessImage(subject.pid) as image:
        yield image


def test_identity(image, subject):
    assert image.pid == image.memory_tid == subject.pid
    assert (image.pointer_size, image.byte_order, image.page_size) == (8, sys.byteorder, PAGE)
    assert image.auxv[6] == PAGE
    status = proc_tables.read_status(subject.pid)
    assert status.rss == int(subject.status("VmRSS").split()[0]) * 1024
    assert status.swap == int(subject.status("VmSwap").split()[0]) * 1024
    assert (status.name, status.uid, status.threads) == ("subject", os.geteuid(), 3)


def test_a_thread_leads_to_its_process(subject):
    with ProcessImage(subject.facts["tid_first"]) as image:
        assert image.pid == subject.pid


def test_read(image, subject):
    block = subject.facts["block"]
    assert image.read(block, 100000) == b"m" * 100000
    assert image.read(block, 0) == b""
    assert image.read(subject.facts["touched"] + 100, 1) == b"x"


def test_what_cannot_be_read(image, subject):
    end = subject.facts["cliff"] + PAGE
    assert len(image.read(end - 8, 8)) == 8
    for address, size in (
        (0, 8),
        (end - 4, 8),
        (end, 8),
        ((1 << 63) - 4, 8),
        (1 << 63, 8),
        ((1 << 64) - 8, 8),
        (-8, 8),
        (1 << 70, 1),
        (end - 8, -1),
        (0xFFFFFFFFFF600000, 8),
    ):
        with pytest.raises(MemoryReadError) as caught:
            image.read(address, size)
        assert (caught.value.address, caught.value.size) == (address, size)


def test_regions(image, subject):
    lines = Path(f"/proc/{subject.pid}/maps").read_text().splitlines()
    regions = image.regions()
    assert len(regions) == len(lines)
    for region, line in zip(regions, lines):
        words = line.split(None, 5)
        flags = "".join(
            letter if on else "-" for letter, on in zip("rwx", (region.readable, region.writable, region.executable))
        ) + ("s" if region.shared else "p")
        assert (f"{region.start:08x}-{region.end:08x}", flags) == (words[0], words[1])
        assert region.path == (words[5].replace(" (deleted)", "") if len(words) > 5 else "")
        assert region.offset == int(words[2], 16) or not region.is_file


def test_threads(image, subject):
    threads = {thread.tid: thread for thread in image.threads()}
    facts = subject.facts
    assert list(threads) == sorted([subject.pid, facts["tid_first"], facts["tid_second"]])
    for name in ("first", "second"):
        thread = threads[facts[f"tid_{name}"]]
        assert thread.name == name
        assert 0 < facts[f"sp_{name}"] - thread.stack_pointer < 4096
        assert thread.thread_pointer is None


def test_environment(image, start, build):
    assert image.environment() == {
        "LANG": "C",
        "GLIBC_TUNABLES": "glibc.malloc.arena_max=3:glibc.malloc.tcache_count=5",
        "EMPTY": "",
    }
    quiet = build(
        '#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("ready 0\\n"); fflush(stdout); pause(); }'
    )
    assert ProcessImage(start(quiet, environment={}).pid).environment() == {}


def test_files_behind_mappings(program, start, tmp_path):
    """The program is replaced, then deleted: the mapped file is still the one that is read."""
    for change in ("nothing", "replace", "delete"):
        copy = tmp_path / f"copy {change}\nline"
        shutil.copy(program, copy)
        subject = start(copy)
        truth = copy.read_bytes()
        if change != "nothing":
            copy.unlink()
        if change == "replace":
            copy.write_bytes(b"another file")
        with ProcessImage(subject.pid) as image:
            region = next(region for region in image.regions() if region.path == str(copy))
            assert Path(image.open_file(region)).read_bytes() == truth
            assert image.read(region.start, 4) == b"\x7fELF"
            assert image.open_file(next(r for r in image.regions() if r.path == "[stack]")) is None


def test_replaced_file_is_not_taken_for_the_mapped_one(program, start, tmp_path, monkeypatch):
    """Without the capability for map_files only the path is left."""
    from arenascope.sources.live import process

    may_read = process._can_read
    monkeypatch.setattr(process, "_can_read", lambda path: "map_files" not in path and may_read(path))
    copy = tmp_path / "copy"
    shutil.copy(program, copy)
    subject = start(copy)
    with ProcessImage(subject.pid) as image:
        region = next(region for region in image.regions() if region.path == str(copy))
        with ElfFile(image.open_file(region)) as found, ElfFile(str(program)) as truth:
            assert found.build_id() == truth.build_id()
        # a renamed file is found under its new name; once it is deleted, its old path is another file's
        copy.rename(tmp_path / "moved")
        shutil.copy(program, copy)
        assert image.open_file(region).endswith("/moved")
        (tmp_path / "moved").unlink()
        shutil.copy(program, tmp_path / "moved")
        assert image.open_file(region) is None


def test_main_thread_has_exited(build, start, monkeypatch):
    program = build(r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <stdlib.h>
static void *run(void *block) { sleep(1); printf("block %p\nready 0\n", block); fflush(stdout); for (;;) pause(); }
int main(void) {
    pthread_t t; char *block = malloc(100); block[0] = 'b';
    pthread_create(&t, NULL, run, block); pthread_exit(NULL);
}""")
    subject = start(program)
    assert subject.status("State").startswith("Z")
    with ProcessImage(subject.pid) as image:
        assert image.pid == subject.pid != image.memory_tid
        assert image.read(subject.facts["block"], 1) == b"b"
        assert any(region.path == "[heap]" for region in image.regions())
    # another thread was still listed, and is gone when it is asked
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: ["2147483646", *listdir(path)])
    with ProcessImage(subject.pid) as image:
        assert image.memory_tid in (int(name) for name in listdir(f"/proc/{subject.pid}/task"))
        assert image.environment()["LANG"] == "C"
        # the main thread's own folder has no memory any more
        page = subject.facts["block"] // PAGE * PAGE
        assert image.residency().count(page, page + PAGE).resident == PAGE
        assert image.memory_use().rss == sum(use.rss for use in image.mapping_use())
        assert image.memory_use() == image.mapping_use().memory
        assert image.locked() == []
        said = arenascope("report", subject.pid, "--json", status=None)
        rss = Path(f"/proc/{image.memory_tid}/smaps_rollup").read_text().partition("Rss:")[2].split()[0]
        assert valid(json.loads(said.stdout))["rss_bytes"] == int(rss) * 1024, said.stderr


def test_a_process_that_has_ended_is_an_error(program, start):
    subject = start(program)
    with ProcessImage(subject.pid) as image:
        block = memoryview(bytearray(8))
        image.read(subject.facts["block"], 8)
        subject.end()
        for look in (
            lambda: image.read(subject.facts["block"], 8),
            lambda: image.fill(subject.facts["block"], block),
            image.regions,
        ):
            with pytest.raises(TargetError, match=f"process {subject.pid} has ended"):
                look()
        assert image.environment() is None


def test_kernel_thread():
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("no kernel thread is to be seen here")
    with pytest.raises(TargetError, match="kernel thread"):
        ProcessImage(2)


def test_zombie():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(TargetError, match=f"process {child.pid} "):
        ProcessImage(child.pid)
    child.wait()


AS_USER = """
import os, sys
os.setgid({user}); os.setuid({user})
sys.path.insert(0, {path!r})
from arenascope.base.errors import TargetError
from arenascope.sources.live.process import ProcessImage
try:
    ProcessImage({pid}).read({address}, 8)
except TargetError as error:
    print(error.message, '|', error.hint)
else:
    print('readable')
"""


def as_user(subject) -> str:
    path = str(ROOT / "common")
    script = AS_USER.format(user=UNPRIVILEGED, path=path, pid=subject.pid, address=subject.facts["block"])
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_another_users_process(subject):
    said = as_user(subject)
    assert re.fullmatch(rf".* process {subject.pid}, .*root.* \| .*sudo.*", said)


def test_from_inside_a_user_namespace(subject):
    code = AS_USER.replace("os.setgid({user}); os.setuid({user})\n", "").format(
        path=str(ROOT / "common"), pid=subject.pid, address=subject.facts["block"]
    )
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are refused here")
    said = subprocess.run(["unshare", "-Ur", sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert re.match(rf".* process {subject.pid} .* user:\[\d+\]", said)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_own_process_that_is_not_dumpable(build, start, tmp_path_factory):
    program = build(r"""
#include <stdio.h>
#include <unistd.h>
#include <sys/prctl.h>
int main(void) { setgid(65534); setuid(65534); prctl(PR_SET_DUMPABLE, 0); printf("block %p\nready 0\n", (void *)main);
                 fflush(stdout); pause(); }""")
    said = as_user(start(program))
    assert "not permitted" in said
    assert "sudo" in said


# prctl(PR_SET_NO_NEW_PRIVS), then PR_SET_SECCOMP with a filter that refuses ptrace with EPERM
FILTERED = """
import ctypes, os, struct, sys
number = {{"x86_64": 101, "aarch64": 117}}[os.uname().machine]
codes = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000))
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *code) for code in codes))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(codes), ctypes.addressof(filter)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0) == 0
os.execv({program!r}, [{program!r}, "arenas", "{pid}"])
"""


def test_a_filter_on_system_calls_is_named(subject):
    program = str(Path(__file__).resolve().parents[2] / "bin" / "arenascope")
    code = FILTERED.format(program=program, pid=subject.pid)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(rf"hold process {subject.pid}: .*seccomp.*--no-stop", done.stderr)
    assert "sudo" not in done.stderr


def test_every_counter_of_smaps(subject):
    """Of one text: Pss changes whenever another process maps or leaves the same file."""
    text = Path(f"/proc/{subject.pid}/smaps").read_bytes()
    entries = dict(proc_tables.smaps(text))
    truth = subject.counters(text.decode())
    assert [region.start for region in entries] == [*truth]
    for sizes, rows in zip(truth.values(), entries.values()):
        told = {key: proc_tables.counter(rows, b"\n%b:" % key.encode()) for key in sizes if key != "Size"}
        assert {**told, "Size": sizes["Size"]} == sizes


def test_smaps_and_rollup(subject):
    truth = subject.counters()
    use = proc_tables.memory_of(subject.pid)
    assert tuple(use) == tuple(sum(sizes[key] for sizes in truth.values()) for key in ("Rss", "Anonymous"))
    locked = subject.facts["locked"]
    assert proc_tables.unreleasable_ranges(subject.pid) == [(locked, locked + 8 * PAGE)]
    entries = proc_tables.smaps(proc_tables.read_smaps(subject.pid))
    shared, rows = next(entry for entry in entries if entry[0].start == subject.facts["shared"])
    assert shared.shared
    assert b"sh" in proc_tables.flags(rows)


def test_rss_where_the_kernel_has_no_rollup(subject, monkeypatch):
    """Before Linux 4.14."""
    truth = proc_tables.memory_of(subject.pid)
    read = proc_tables.read_bytes

    def without_rollup(path):
        if path.endswith("smaps_rollup"):
            raise FileNotFoundError
        return read(path)

    monkeypatch.setattr(proc_tables, "read_bytes", without_rollup)
    assert proc_tables.memory_of(subject.pid) == truth
