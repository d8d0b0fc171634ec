"""What scripts/release.sh and scripts/pack.py make: the same bytes each time, and told of where it cannot run."""

from __future__ import annotations

import email
import email.message
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from looks import completed
from platforms import needs_a_checkout

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    return completed(*command, status=status, env={**os.environ, **environment}, cwd="/")


def pack(target: Path, **environment: str) -> Path:
    run(sys.executable, ROOT / "scripts" / "pack.py", target, **environment)
    return target


def test_the_zipapp_is_the_same_wherever_it_is_packed(tmp_path: Path) -> None:
    here = pack(tmp_path / "1.pyz", SOURCE_DATE_EPOCH="1700000000", TZ="UTC")
    there = pack(tmp_path / "2.pyz", SOURCE_DATE_EPOCH="1700000000", TZ="Asia/Tokyo")
    later = pack(tmp_path / "3.pyz", SOURCE_DATE_EPOCH="1700086400", TZ="UTC")
    assert here.read_bytes() == there.read_bytes() != later.read_bytes()


def release_of(python: str) -> tuple[int, ...]:
    done = subprocess.run([python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
    return tuple(int(word) for word in re.findall(r"\d+", done.stdout))


def old_pythons() -> list[str]:
    """Those of pyenv, and what PATH has, that run and are too old."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*versions.glob("*/bin/python")]
    found += [Path(each) / name for each in os.get_exec_path() for name in ("python2", "python3.6", "python3.8")]
    return [str(each) for each in found if each.is_file() and () < release_of(str(each)) < (3, 9)]


def test_an_old_python_is_told_in_one_line(tmp_path: Path) -> None:
    app = pack(tmp_path / "arenascope.pyz")
    pythons = old_pythons()
    if not pythons:
        pytest.skip("no Python before 3.9 here (pyenv install 3.8)")
    for python in pythons:
        done = run(python, app, "report", "1", status=1)
        major, minor = release_of(python)
        (line,) = done.stderr.splitlines()
        assert re.search(rf"Python 3\.9 .* {major}\.{minor}$", line)


def test_what_the_zipapp_runs_first_is_plain_to_any_python(tmp_path: Path) -> None:
    vermin = Path(sys.executable).with_name("vermin")
    if not vermin.exists():
        pytest.skip("no vermin here: make setup-check")
    app = pack(tmp_path / "arenascope.pyz")
    zipfile.ZipFile(app).extract("__main__.py", tmp_path)
    run(vermin, "--quiet", "--no-tips", "--violations", "--target=2.7-", tmp_path / "__main__.py")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders, each with what one run built."""
    needs_a_checkout(ROOT)
    if subprocess.run([sys.executable, "-c", "import hatchling"], capture_output=True).returncode:
        pytest.skip("no hatchling here: make setup-check")
    folders = [tmp_path_factory.mktemp("release") for _ in range(2)]
    for folder, zone, mask in zip(folders, ("UTC", "Asia/Tokyo"), ("022", "077")):
        script = f"umask {mask}; exec {ROOT}/scripts/release.sh {folder}"
        run("sh", "-c", script, PYTHON=sys.executable, TZ=zone)
    return folders


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(1200)  # each compiles the engine for two processors
@pytest.mark.needs_network
@pytest.mark.xdist_group("packaging")
def test_two_releases_of_a_commit_are_equal(releases: list[Path]) -> None:
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in releases)
    assert {Path(name).suffix for name in first} == {".gz", ".whl", ".pyz", ""}
    assert first == second


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.xdist_group("packaging")
def test_what_an_index_shows(releases: list[Path], tmp_path: Path) -> None:
    """Of the sdist, once the project's address is set: the wheel has URLs, and no link of README's is relative."""
    with tarfile.open(next(releases[0].glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path)
    (source,) = tmp_path.iterdir()
    project = source / "pyproject.toml"
    address = "https://localhost/someone/arenascope"
    project.write_text(re.sub('^repository = ".*"', f'repository = "{address}"', project.read_text(), flags=re.M))
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, source)
    shown = metadata_of(next(tmp_path.glob("*.whl")))
    tag = f"v{shown['Version']}"
    urls = dict(each.split(", ") for each in shown.get_all("Project-URL"))
    assert urls["Source"] == address
    assert urls["Changelog"] == f"{address}/blob/{tag}/CHANGELOG.md"
    links = re.findall(r"\]\(([^)]*)\)", shown.get_payload())
    assert f"{address}/blob/{tag}/docs/install.md" in links
    assert f"{address}/raw/{tag}/docs/pictures/report.svg" in links
    for link in links:
        path = re.sub(r"#.*", "", link.removeprefix(f"{address}/").split("/", 2)[2])
        assert (ROOT / path).exists(), link
    # and as long as none is set, nothing is made up
    unset = metadata_of(next(releases[0].glob("*.whl")))
    assert not unset.get_all("Project-URL") or 'repository = ""' not in (ROOT / "pyproject.toml").read_text()
