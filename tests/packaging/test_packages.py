"""The wheel and the zipapp, built and used as their users do: from a clean environment, with no checkout in reach."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from looks import completed
from marks import in_full
from platforms import needs_the_lock
from schemas import valid
from subjects import Subject

from arenascope.base import optional_libraries
from arenascope.engine import INTERFACE, NAME

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "fixtures" / "build" / "bins"
SCHEMA = ("--schema", "report")
LAUNCHER = ROOT / "bin" / "arenascope"
CLEAN = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def run(*command, status=0):
    return completed(*command, status=status, env=CLEAN, cwd="/")


@pytest.fixture(scope="module")
def process():
    with Subject("bins") as subject:
        yield subject.pid, subject.folder / "truth"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    return next(folder.glob("arenascope-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "pip", "install", "-q", wheel)
    return folder / "bin" / "arenascope"


@pytest.mark.full
@pytest.mark.xdist_group("packaging")
def test_the_wheel_has_one_name_at_its_top(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name and ".data/" not in name} == {"arenascope"}
    assert any(name.endswith(".data/data/share/man/man1/arenascope.1") for name in names)
    assert {"arenascope/doors/gdb/arena.py", "arenascope/doors/lldb/arena.py"} <= set(names)
    assert "arenascope/schema/arenascope.json" in names
    assert {f"arenascope/cli/completion/arenascope.{shell}" for shell in ("bash", "zsh", "fish")} <= set(names)


@pytest.mark.full
@pytest.mark.xdist_group("packaging")
def test_the_wheel_has_the_engine_and_says_for_which_glibc(wheel, installed, process, tmp_path):
    """The newest release that any of its symbols asks for, by readelf. Without a cargo it is for any machine."""
    pid, _ = process
    if subprocess.run([ROOT / "scripts" / "engine.sh", "cargo"], capture_output=True).returncode:
        assert wheel.name.endswith("-py3-none-any.whl")
        pytest.skip("no cargo here that is new enough: make engine says which")
    library = zipfile.ZipFile(wheel).extract(f"arenascope/{NAME}", tmp_path)
    needed = max(int(each) for each in re.findall(r"Name: GLIBC_2\.(\d+)", run("readelf", "-V", library).stdout))
    assert wheel.name.endswith(f"-py3-none-manylinux_2_{max(17, needed)}_{os.uname().machine}.whl")
    found = valid(json.loads(run(installed, "version", pid, "--json").stdout))["engine"]
    assert found["interface"] == INTERFACE
    assert Path(found["path"]).parent == Path(run(installed, "--gdb-path").stdout.strip()).parents[2]
    assert valid(json.loads(run(installed, "owners", pid, "--json").stdout))["complete"]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.xdist_group("packaging")
def test_with_zig_the_engine_needs_only_an_old_glibc(monkeypatch):
    monkeypatch.setitem(CLEAN, "PATH", f"{Path(sys.executable).parent}:{CLEAN['PATH']}")
    if not Path(sys.executable).with_name("cargo-zigbuild").exists():
        pytest.skip("no cargo-zigbuild here: make setup-release")
    library = run(ROOT / "scripts" / "engine.sh", "portable").stdout.split("\n")[-2]
    needed = {int(each) for each in re.findall(r"Name: GLIBC_2\.(\d+)", run("readelf", "-V", library).stdout)}
    assert needed
    assert max(needed) <= 17
    found = ctypes.CDLL(library).arenascope_interface()
    assert found == INTERFACE


@pytest.mark.full
@pytest.mark.xdist_group("packaging")
def test_a_wheel_without_an_engine(process, tmp_path, monkeypatch):
    """As where no cargo is: for any machine, and `version` says what to do."""
    pid, folder = process
    monkeypatch.setitem(CLEAN, "ARENASCOPE_ENGINE", "none")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    monkeypatch.delitem(CLEAN, "ARENASCOPE_ENGINE")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv" / "bin" / "pip", "install", "-q", "--no-deps", wheel)
    command = tmp_path / "venv" / "bin" / "arenascope"
    assert run(command, "info", pid).stdout == (folder / "info.xml").read_text()
    assert "\nengine: not built (install cargo, " in run(command, "version", pid).stdout
    assert "install cargo, " in run(command, "owners", pid, status=2).stderr


@pytest.mark.full
@pytest.mark.needs_network
@pytest.mark.xdist_group("packaging")
def test_a_plain_install_has_all_that_commands_need(installed, process, tmp_path):
    """`metrics` prints, and writes for a textfile collector, as docs/fleet.md has it; every library is found but
    tabulate, which --table alone needs."""
    pid, _ = process
    assert "# EOF" in run(installed, "metrics", pid).stdout
    run(installed, "metrics", pid, "--output", tmp_path / "malloc.prom")
    assert "glibc_malloc_up{" in (tmp_path / "malloc.prom").read_text()
    libraries = valid(json.loads(run(installed, "version", pid, "--json").stdout))["libraries"]
    assert [name for name, found in libraries.items() if "not found" in found] == ["tabulate"]


def test_what_is_loaded_is_asked_for():
    """What the code looks for by name is what pip installs with it, `table` included."""
    tomllib = pytest.importorskip("tomllib", reason="Python's reader of TOML came with 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def names(requirements):
        return {re.match(r"[\w-]+", each)[0].replace("-", "_") for each in requirements}

    assert names(project["dependencies"]) | names(extras["table"]) == set(optional_libraries.NAMES)
    assert names(extras["table"]) == {"tabulate"}
    assert "tabulate" not in names(project["dependencies"])


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """Where uv and pipx are, at their newest."""
    folder = tmp_path_factory.mktemp("tools")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "pip", "install", "-q", "uv", "pipx")
    return folder / "bin"


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.xdist_group("packaging")
@pytest.mark.parametrize("how", ["pip", "pip -e", "uv pip", "uv pip -e", "uv tool", "pipx"])
def test_each_way_to_install(how, tools, process, tmp_path, monkeypatch):
    """From the checkout, as docs/install.md has it; -e is the checkout itself, its doors included."""
    pid, folder = process
    for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR", "UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "UV_CACHE_DIR"):
        monkeypatch.setitem(CLEAN, name, str(tmp_path / name))
    editable = how.endswith(" -e")
    tool, words = how.replace(" -e", ""), ["-e", ROOT] if editable else [ROOT]
    if tool == "pip":
        run(sys.executable, "-m", "venv", tmp_path / "venv")
        run(tmp_path / "venv" / "bin" / "pip", "install", "-q", *words)
    elif tool == "uv pip":
        run(tools / "uv", "-q", "venv", "--python", sys.executable, tmp_path / "venv")
        run(tools / "uv", "-q", "pip", "install", "--python", tmp_path / "venv" / "bin" / "python", *words)
    elif tool == "uv tool":
        run(tools / "uv", "-q", "tool", "install", "--python", sys.executable, *words)
    else:
        run(tools / "pipx", "install", "-q", "--python", sys.executable, *words)
    bins = {"uv tool": tmp_path / "UV_TOOL_BIN_DIR", "pipx": tmp_path / "PIPX_BIN_DIR"}
    installed = bins.get(tool, tmp_path / "venv" / "bin") / "arenascope"
    assert run(installed, "info", pid).stdout == (folder / "info.xml").read_text()
    for debugger in ("gdb", "lldb"):
        door = Path(run(installed, f"--{debugger}-path").stdout.strip())
        assert door.is_file()
        assert (door == ROOT / debugger / "arena.py") is editable
        (tmp_path / f".{debugger}init").write_text(run(installed, f"--{debugger}init").stdout)
    monkeypatch.setitem(CLEAN, "HOME", str(tmp_path))
    if shutil.which("gdb"):
        assert json.loads(run("gdb", "-q", "-batch", "-ex", "heap version --json").stdout)["door"] == "gdb"
    if tool == "pipx":
        assert (tmp_path / "PIPX_MAN_DIR" / "man1" / "arenascope.1").is_file()


@pytest.mark.xdist_group("packaging")
def test_the_zipapp_runs_on_a_bare_python(tmp_path, process):
    pid, folder = process
    app = tmp_path / "arenascope.pyz"
    run(sys.executable, ROOT / "scripts" / "pack.py", app)
    # -I -S: neither site-packages nor the working directory
    done = run("/usr/bin/python3", "-I", "-S", app, "info", pid)
    assert done.stdout == (folder / "info.xml").read_text()
    assert "\n0 main " in run("/usr/bin/python3", "-I", "-S", app, "arenas", pid).stdout
    assert run("/usr/bin/python3", "-I", "-S", app, *SCHEMA).stdout == run(LAUNCHER, *SCHEMA).stdout
    assert run("/usr/bin/python3", "-I", "-S", app, "--gdb-path", status=2).stderr.count("\n") == 1


POD = """
for each in usr/lib usr/lib64 usr/bin proc tmp; do mkdir -p "$1/$each"; done
ln -s usr/lib usr/lib64 "$1"
for each in lib lib64; do mount --bind "/usr/$each" "$1/usr/$each"; done
cp -L "$(readlink -f /usr/bin/python3)" "$1/usr/bin/python3"
cp "$2" "$1/service"
cp "$3" "$1/arenascope.pyz"
mount -t proc proc "$1/proc"
exec env -i "PATH=$PATH:/usr/sbin" chroot "$1" /service /tmp/truth 4 12
"""
"""A root with libraries, one service as process 1, and Python; no shell, no debugger, no tools."""


@pytest.mark.needs_root
@pytest.mark.xdist_group("packaging")
def test_the_zipapp_trims_process_1_of_a_pod(tmp_path):
    needs_the_lock()
    if subprocess.run(["unshare", "-pfm", "true"], capture_output=True).returncode:
        pytest.skip("unshare is refused here (not root)")
    app, service = tmp_path / "arenascope.pyz", FIXTURE.with_name("hoard")
    run(sys.executable, ROOT / "scripts" / "pack.py", app)
    command = ["unshare", "-pfm", "--kill-child", "sh", "-ec", POD, "sh", tmp_path / "root", service, app]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pod:
        try:
            assert pod.stdout.readline() == "ready 1\n"
            first = Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()[0]
            inside = ["nsenter", "-t", first, "-m", "-p", "-r", "/usr/bin/python3", "-I", "-S", "/arenascope.pyz"]
            done = json.loads(run(*inside, "trim", "1", "--apply", "--tops", "-y", "--json").stdout)["applied"]
            assert done["released_bytes"] >= done["predicted_bytes"] - (64 << 10) > 30 << 20
            for word, reply in (("check", "intact"), ("tick", "ticked"), ("check", "intact")):
                pod.stdin.write(f"{word}\n")
                pod.stdin.flush()
                assert pod.stdout.readline() == f"{reply}\n"
        finally:
            pod.stdin.close()
            pod.kill()


# started from a folder in which every name of the standard library is somebody else's

STDLIB = sorted(getattr(sys, "stdlib_module_names", ("argparse", "codecs", "json", "re", "textwrap", "typing", "zlib")))
OTHERS = ("sitecustomize", "usercustomize", "tabulate", "pygments", "tqdm", "prometheus_client")


@pytest.fixture
def hostile(tmp_path):
    """The folder, and the file that tells which of its modules were run."""
    folder, mark = tmp_path / "hostile", tmp_path / "mark"
    folder.mkdir()
    for name in (*STDLIB, *OTHERS):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write(__name__ + ' ')\nraise ImportError\n")
    return folder, mark


def before_us():
    """What Python itself loads along the path that it was given, before a line of ours runs."""
    loaded = run(sys.executable, "-c", "import runpy, sys; print(*sys.modules)").stdout.split()
    return {"sitecustomize", "usercustomize"} | {name.partition(".")[0] for name in loaded}


def run_in(folder, *command, status=0, **environment):
    paths = {"PATH": f"{Path(sys.executable).parent}:{CLEAN['PATH']}"}
    return completed(*command, status=status, cwd=folder, env={**CLEAN, **paths, **environment}).stdout


OURS = str(ROOT / "common")


@pytest.mark.parametrize("path", [None, "", ":", *in_full(".", f":{OURS}")], ids=repr)
def test_the_launcher_runs_nothing_of_the_working_directory(hostile, process, path):
    """Not even what PYTHONPATH would have Python load as it starts."""
    folder, mark = hostile
    pid, truth = process
    environment = {} if path is None else {"PYTHONPATH": path}
    assert run_in(folder, LAUNCHER, "info", pid, **environment) == (truth / "info.xml").read_text()
    several = ["arenas", "--jsonl", pid, "/nonexistent"]
    assert run_in(folder, LAUNCHER, *several, status=2, **environment).count("\n") == 2
    assert "tabulate" in run_in(folder, LAUNCHER, "version", pid, **environment)
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("how", ["-m", "zipapp", *in_full("-m with an empty word", "zipapp with an empty word")])
def test_nor_do_the_other_forms(hostile, process, tmp_path, how):
    """As far as it is in our hands: Python's own start is not."""
    folder, mark = hostile
    pid, truth = process
    for name in before_us():
        (folder / f"{name}.py").unlink(missing_ok=True)
    if how.startswith("zipapp"):
        app = tmp_path / "arenascope.pyz"
        run(sys.executable, ROOT / "scripts" / "pack.py", app)
        command = [sys.executable, app]
    else:
        command = [sys.executable, "-m", "arenascope"]
    path = {"-m": OURS, "-m with an empty word": f":{OURS}", "zipapp": None, "zipapp with an empty word": ":"}[how]
    environment = {} if path is None else {"PYTHONPATH": path}
    assert run_in(folder, *command, "info", pid, **environment) == (truth / "info.xml").read_text()
    assert "tabulate" in run_in(folder, *command, "version", pid, **environment)
    assert not mark.exists(), mark.read_text()


def test_the_launcher_through_a_symlink_and_by_its_name(tmp_path):
    (tmp_path / "arenascope").symlink_to(LAUNCHER)
    said = run_in("/", tmp_path / "arenascope", "--version")
    assert said.startswith("arenascope ")
    assert run_in("/", "sh", "-c", "arenascope --version", PATH=f"{tmp_path}:{CLEAN['PATH']}") == said
    assert run_in(tmp_path, "sh", "arenascope", "--version") == said


@pytest.mark.parametrize("missing", [True, False], ids=["no Python", "an old one"])
def test_the_launcher_says_which_python_it_needs(tmp_path, missing):
    if not missing:
        (tmp_path / "python3").write_text(
            f"#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.version_info = (3, 6, 8)\n"
            'exec(compile(open(sys.argv[3]).read(), sys.argv[3], "exec"))\' "$@"\n'
        )
        (tmp_path / "python3").chmod(0o755)
    done = completed("/bin/sh", LAUNCHER, "--version", status=None, env={"PATH": str(tmp_path)})
    (line,) = done.stderr.splitlines()
    assert re.search("python3" if missing else r"Python 3\.9 .* 3\.6", line)
