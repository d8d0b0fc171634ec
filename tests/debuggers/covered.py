"""Which lines of common/ the tests reach, where ARENASCOPE_COVERAGE names a folder to keep that in: `make test-all`.

Tracing makes Python half as fast: traced is the first test with each value of a parameter, as the others run the same
lines over other heaps (more_of_the_same in tests/conftest.py), and of looks one at each scenario (TRACED). Drivers in
debuggers import this as well: it needs nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "ARENASCOPE_COVERAGE"


def start() -> Any:
    """Traces this process from here on, where that is asked for; what stops and saves it."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    # the Python in a debugger has libraries of its own; .venv's is of the same release as GDB's
    libraries = ROOT / ".venv" / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    if str(libraries) not in sys.path:
        sys.path.append(str(libraries))
    try:
        import coverage
    except ImportError:
        return None
    measured = coverage.Coverage(
        data_file=str(Path(folder) / "lines"),
        data_suffix=True,
        config_file=False,
        source=[str(ROOT / "common")],
        messages=False,
    )
    # modules that were loaded before are traced as well, but for the lines that loading runs
    measured._warn_preimported_source = False
    measured.start()
    return measured


def save(measured: Any) -> None:
    if measured is not None:
        atexit.unregister(save)
        measured.stop()
        measured.save()


@contextlib.contextmanager
def covered() -> Iterator[None]:
    measured = start()
    try:
        yield
    finally:
        save(measured)


@contextlib.contextmanager
def only_if(wanted: bool) -> Iterator[None]:
    """What is started within is traced only if that is wanted."""
    kept = None if wanted else os.environ.pop(FOLDER, None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ[FOLDER] = kept


@contextlib.contextmanager
def paused(measured: Any, really: bool) -> Iterator[None]:
    """Neither this process nor what it starts is traced within, if that is really wanted."""
    if measured is None or not really:
        yield
        return
    measured.stop()
    try:
        with only_if(False):
            yield
    finally:
        measured.start()


def report(folder: Path) -> Iterator[str]:
    """The sum, and where the most lines were never reached."""
    import coverage

    whole = coverage.Coverage(
        data_file=str(folder / "lines"), config_file=False, source=[str(ROOT / "common")], messages=False
    )
    whole.combine([str(folder)])
    lines, missing = 0, {}
    for path in sorted((ROOT / "common").rglob("*.py")):
        _, statements, _, missed, text = whole.analysis2(str(path))
        lines += len(statements)
        if missed:
            missing[str(path.relative_to(ROOT / "common"))] = (len(missed), len(statements), text)
    never = sum(number for number, _, _ in missing.values())
    yield f"coverage of common/: {100 * (lines - never) / lines:.1f}% of {lines} lines; {never} never reached"
    for name, (number, total, text) in sorted(missing.items(), key=lambda each: -each[1][0]):
        yield f"  {name}: {number} of {total}: {text}"
