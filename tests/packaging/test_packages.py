"""The wheel and the zipapp, built and used as their users do: from a clean environment, with no checkout in reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "fixtures" / "build" / "bins"
CLEAN = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def run(*command, status=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=CLEAN, cwd="/",
                          stdin=subprocess.DEVNULL, timeout=240)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subject")
    subject = subprocess.Popen([str(FIXTURE), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert subject.stdout.readline() == f"ready {subject.pid}\n"
        yield subject.pid, folder
    finally:
        subject.kill()
        subject.wait()


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


@pytest.mark.xdist_group("packaging")
def test_the_wheel_has_one_name_at_its_top(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"arenascope"}
    assert {"arenascope/doors/gdb/arena.py", "arenascope/doors/lldb/arena.py"} <= set(names)


@pytest.mark.xdist_group("packaging")
def test_the_installed_command_reads_a_process(installed, process):
    pid, folder = process
    done = run(installed, "info", pid)
    assert done.stdout == (folder / "info.xml").read_text()
    assert f"process {pid} was held for" in done.stderr
    assert "no module" not in run(installed, "version", pid).stdout.lower()


@pytest.mark.xdist_group("packaging")
def test_gdb_sources_the_installed_door(installed, process):
    pid, _ = process
    door = run(installed, "--gdb-path").stdout.strip()
    assert not door.startswith(str(ROOT))
    done = run("gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", "-p", pid, "-x", door,
               "-ex", "heap arenas --json")  # fmt: skip
    document = json.loads(done.stdout.splitlines()[-2] if "detached" in done.stdout.splitlines()[-1] else
                          next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert document["door"] == "gdb"
    assert document["complete"]


@pytest.mark.xdist_group("packaging")
def test_the_zipapp_runs_on_a_bare_python(tmp_path, process):
    pid, folder = process
    app = tmp_path / "arenascope.pyz"
    run(sys.executable, ROOT / "scripts" / "pack.py", app)
    # -I -S: neither site-packages nor the working directory
    done = run("/usr/bin/python3", "-I", "-S", app, "info", pid)
    assert done.stdout == (folder / "info.xml").read_text()
    assert "arenas of" in run("/usr/bin/python3", "-I", "-S", app, "arenas", pid).stdout
    assert "not beside this package" in run("/usr/bin/python3", "-I", "-S", app, "--gdb-path", status=2).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(shell):
    done = run(sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'common')!r}); "
               f"from arenascope.cli import main; sys.exit(main(['--completion', {shell!r}]))")  # fmt: skip
    for word in ("arenas", "trim", "quick", "no-stop"):
        assert word in done.stdout


def test_bash_completes(tmp_path):
    script = tmp_path / "complete.sh"
    script.write_text(
        f"eval \"$({sys.executable} -c 'import sys; sys.path.insert(0, \"{ROOT}/common\"); "
        "from arenascope.cli import main; sys.exit(main([\"--completion\", \"bash\"]))')\"\n"
        "COMP_WORDS=(arenascope tr) COMP_CWORD=1; _arenascope; echo \"${COMPREPLY[@]}\"\n"
        "COMP_WORDS=(arenascope trim --ra) COMP_CWORD=2; _arenascope; echo \"${COMPREPLY[@]}\"\n"
    )
    assert run("bash", script).stdout.split() == ["trim", "--ranges"]
