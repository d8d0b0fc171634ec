"""What snapshot, map, report and metrics leave of the name that they write to: a device, a FIFO, a file."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO, Iterator

import pytest
from marks import in_full
from shell_door import ARENASCOPE, arenascope, begin
from subjects import Started, Subject
from waiting import state

from arenascope.base.errors import ArenascopeError
from arenascope.base.whole_file import FOR_ALL, PartialFile, write_whole
from arenascope.cli.main import main
from arenascope.commands.save import save
from arenascope.sources.live.process import ProcessImage
from arenascope.sources.shell_target import ShellTarget

ROOT = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users' files, devices and mounts need root")
NOBODY = 65534
LARGE = bytes(64 << 10)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def device(folder: Path, name: str, minor: int) -> Path:
    """A copy of one of the memory devices: 3 is null, 7 is full."""
    path = folder / name
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        path.open("wb").close()
    except PermissionError:
        pytest.skip("devices cannot be made or opened here (not root, or a file system mounted nodev)")
    return path


def opened(fifo: Path) -> BinaryIO:
    """For reading, before there is a writer, who would wait for nobody."""
    return os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)


def wait(fifo: BinaryIO) -> BinaryIO:
    """Until somebody writes."""
    assert select.select([fifo], [], [], 60)[0]
    os.set_blocking(fifo.fileno(), True)
    return fifo


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("subject")
    with Started(ROOT / "fixtures" / "build" / "bins", folder) as process:
        yield process.pid


WRITERS = {
    "snapshot": ("snapshot {pid} {file}", '{"arenascope_snapshot"'),
    "map": ("map {pid} --html {file}", "<!"),
    "metrics": ("metrics {pid} --output {file}", "# HELP"),
    "report": ("report {pid} --html {file}", "<!"),
}


@pytest.mark.parametrize("writer", ["snapshot", *in_full("map", "metrics", "report")])
def test_every_writer_leaves_a_device_a_fifo_and_a_link(subject: int, tmp_path: Path, writer: str) -> None:
    words, start = WRITERS[writer]
    if writer == "metrics":
        pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    null, fifo, link, real = device(tmp_path, "null", 3), tmp_path / "fifo", tmp_path / "link", tmp_path / "real"
    os.mkfifo(fifo)
    link.symlink_to("real")
    real.write_text("old")
    real.chmod(0o640)
    reader = opened(fifo)
    received: list[bytes] = []
    reading = threading.Thread(target=lambda: received.append(wait(reader).read()))
    for file in (null, fifo, link):
        if file == fifo:
            reading.start()
        arenascope(*words.format(pid=subject, file=file).split())
    reading.join(20)
    reader.close()
    assert stat.S_ISCHR(null.lstat().st_mode)
    assert null.stat().st_rdev == os.makedev(1, 3)
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert received[0].startswith(start.encode())
    assert link.is_symlink()
    assert real.read_text().startswith(start)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert names(tmp_path) == ["fifo", "link", "null", "real"]


def test_a_fifo_without_a_reader_is_not_waited_for(subject: int, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert str(fifo) in arenascope("snapshot", subject, fifo, status=2).stderr


def test_the_process_runs_while_a_reader_is_slow(subject: int, tmp_path: Path) -> None:
    """The FIFO takes 4096 bytes; the rest waits until somebody reads."""
    fcntl = pytest.importorskip("fcntl")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = opened(fifo)
    fcntl.fcntl(reader, 1031, 4096)  # F_SETPIPE_SZ
    writing = begin("snapshot", subject, fifo, "--sizes", stdout=subprocess.DEVNULL)
    first = wait(reader).read(1)
    # its first bytes are here, and it cannot have ended
    assert writing.poll() is None
    assert state(subject) in ("R", "S")
    saved = json.loads(first + reader.read())
    said = writing.communicate(timeout=120)[1]
    assert writing.returncode == 0, said
    assert saved["target"]["pid"] == subject


def test_standard_output_in_a_file_keeps_what_else_is_printed(subject: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as file:
        subprocess.run(
            [*ARENASCOPE, "snapshot", str(subject), "/dev/stdout"],
            stdout=file,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
    assert log.read_text().startswith('{"arenascope_snapshot"')
    assert "arenas, " in log.read_text()


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002, 0])
def test_a_new_file_is_the_user_s_alone(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(str(tmp_path / "new"), b"x")
        write_whole(str(tmp_path / "for all"), b"x", FOR_ALL)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "for all").stat().st_mode) == 0o666 & ~mask


FILES = {
    "report": "report {image} --html {file} --with-values",
    "owners": "owners {image} --html {file}",
    "map": "map {image} --html {file}",
    "snapshot": "snapshot {image} {file}",
    "save": "save {image} {file}",
    "trend": "trend {snapshots} --html {file}",
}


@pytest.mark.parametrize("words", FILES.values(), ids=FILES.keys())
def test_what_a_command_writes_is_the_user_s_alone(tmp_path: Path, words: str) -> None:
    """Names, and with --with-values keys and texts, of somebody's program. A file that is there stays as it is."""
    file, snapshots = tmp_path / "file", tmp_path / "snapshots"
    before = os.umask(0)
    try:
        with Subject("bins") as subject:
            if "{snapshots}" in words:
                assert (
                    main(["watch", str(subject.pid), "--count", "2", "--interval", "0.2", "--save", str(snapshots)])
                    == 0
                )
                assert {stat.S_IMODE(each.stat().st_mode) for each in snapshots.iterdir()} == {0o600}
            command = words.format(image=subject.pid, file=file, snapshots=snapshots).split()
            for mode in (0o600, 0o640):
                if file.exists():
                    file.chmod(mode)
                assert main(command) == 0
                assert stat.S_IMODE(file.stat().st_mode) == (0o600 if command[0] == "save" else mode)
    finally:
        os.umask(before)


@needs_root
def test_a_file_stays_its_owner_s(tmp_path: Path) -> None:
    file = tmp_path / "theirs"
    file.write_text("old")
    os.chown(file, NOBODY, NOBODY)
    file.chmod(0o600)
    write_whole(str(file), b"new")
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY, NOBODY, 0o600)
    assert file.read_bytes() == b"new"


AS_NOBODY = """
import os, sys
sys.path.append(sys.argv[1])
from arenascope.base.errors import ArenascopeError
from arenascope.base.whole_file import write_whole
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
try:
    write_whole(sys.argv[2], b"new")
except ArenascopeError as error:
    print(error)
"""


def as_nobody(file: Path) -> str:
    return subprocess.run(
        [sys.executable, "-I", "-c", AS_NOBODY, str(ROOT / "common"), str(file)],
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout


@needs_root
@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_somebody_else_s_file_is_not_taken_over(mode: int) -> None:
    """In a folder where anybody may make and remove files."""
    # not pytest's folder, which only its owner may enter
    folder = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    file = folder / "theirs"
    try:
        folder.chmod(0o777)
        file.write_text("old")
        file.chmod(mode)
        assert str(file) in as_nobody(file)
        assert file.read_text() == "old"
        assert file.stat().st_uid == 0
        assert names(folder) == ["theirs"]
    finally:
        file.unlink()
        folder.rmdir()


FULL = """
import sys
sys.path.append(sys.argv[1])
from arenascope.base.errors import ArenascopeError
from arenascope.base.whole_file import write_whole
try:
    write_whole(sys.argv[2], bytes(1 << 20))
except ArenascopeError as error:
    print(error)
"""


@needs_root
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    script = (
        f'mount -t tmpfs -o size=256k none "{tmp_path}" && echo old > "{tmp_path}/saved" && '
        f'"{sys.executable}" -I -c "$1" "{ROOT}/common" "{tmp_path}/saved"; ls -A "{tmp_path}"; '
        f'cat "{tmp_path}/saved"'
    )
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", FULL], capture_output=True, text=True, timeout=60
    )
    if "unshare failed" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    error, *left = done.stdout.splitlines()
    assert error.endswith(f" {tmp_path}/saved: {os.strerror(errno.ENOSPC)}"), done.stderr
    assert left == ["saved", "old"]


def test_a_full_device_says_so(tmp_path: Path) -> None:
    full = device(tmp_path, "full", 7)
    with pytest.raises(ArenascopeError, match=os.strerror(errno.ENOSPC)):
        write_whole(str(full), b"x")
    assert stat.S_ISCHR(full.lstat().st_mode)


def test_nobody_can_open_a_file_before_it_is_whole(tmp_path: Path) -> None:
    partial = PartialFile(str(tmp_path / "file"), 0o600)
    os.write(partial.descriptor, b"part")
    assert os.listdir(tmp_path) == []
    partial.finish()
    partial.close()
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"part"]


@pytest.mark.parametrize("redact", [False, *in_full(True)])
def test_where_every_file_has_a_name(tmp_path: Path, redact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kernel or a file system without O_TMPFILE has it: to open a folder for writing fails."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    with Subject("hoard") as subject:
        for _ in range(2):
            save(ShellTarget(ProcessImage(subject.pid)), str(tmp_path / "core"), lambda: 0.0, redact)
    assert os.listdir(tmp_path) == ["core"]
    assert stat.S_IMODE((tmp_path / "core").stat().st_mode) == 0o600


@pytest.mark.parametrize("redact", [False, *in_full(True)])
def test_what_a_process_holds_has_no_name_before_it_is_whole(tmp_path: Path, redact: bool) -> None:
    """A copy that nobody has taken the user's data out of, least of all."""
    seen: list[list[str]] = []

    def release() -> float:
        seen.append(os.listdir(tmp_path))
        return 0.0

    with Subject("hoard") as subject:
        save(ShellTarget(ProcessImage(subject.pid)), str(tmp_path / "core"), release, redact)
    assert seen == [[]]
    assert os.listdir(tmp_path) == ["core"]


def test_a_link_to_what_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/new")
    write_whole(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "new").read_bytes() == b"new"
    assert names(tmp_path / "folder") == ["new"]


@pytest.mark.parametrize(("name", "error"), [("", errno.EISDIR), ("missing/new", errno.ENOENT)])
def test_where_nothing_can_be_written(tmp_path: Path, name: str, error: int) -> None:
    with pytest.raises(ArenascopeError, match=os.strerror(error)):
        write_whole(str(tmp_path / name), LARGE)
    assert names(tmp_path) == []
