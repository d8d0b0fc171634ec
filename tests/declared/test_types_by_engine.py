"""Types and variables that the engine reads are the same however debug information is packed, and as the compiler lays
them out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Callable, Mapping, NamedTuple, Sequence

import pytest
from looks import give_up, needs
from subjects import Started

from arenascope.sources.live.process import ProcessImage
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.type_source import TypeFacts
from arenascope.sources.types_by_engine import TypesByEngine

SHARED = """
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace data {
enum class Colour : unsigned char { red = 1, blue = 200 };
struct Shape { virtual ~Shape(); long area; };
struct Disc : Shape { struct Edge { double radius; Edge *next; } edge; unsigned bits : 3; signed more : 5; };
template <class T, int N> struct Ring { T items[N]; Colour colour; Ring<T, N> *next; };
union Word { long number; char text[8]; };
namespace { struct Hidden { short one; int rest[]; }; }
typedef struct { int x, y; } Point;
struct Opaque;
struct Store {
    std::map<std::string, std::vector<Disc>> discs;
    Ring<const char *, 4> *ring;
    std::unique_ptr<Word> word;
    Hidden *hidden;
    Point point;
    Opaque *opaque;
    int (*compare)(const Shape *, const Shape *);
    double Disc::Edge::*member;
};
extern Store store;
}
"""
MAIN = """
#include "shared.h"
#include <cstdio>
namespace data {
struct Opaque { long secret; };
Shape::~Shape() {}
Store store;
static Disc one_disc;
}
thread_local data::Point here = {1, 2};
int counted() { static data::Point last; return last.x++; }
int other();
int main() {
    here.x = counted() + data::one_disc.area + other();
    printf("%zu %zu %zu %zu %zu\\n", sizeof(data::Store), offsetof(data::Store, ring), offsetof(data::Store, point),
           sizeof(data::Disc), sizeof(data::Ring<const char *, 4>));
    fflush(stdout);
    while (getchar() != EOF) {}
}
"""
OTHER = """
#include "shared.h"
static std::vector<data::Disc::Edge> last;
int other() { last.push_back({data::store.discs.size() * 1.0, nullptr}); return last.size(); }
"""
GXX = ("g++", "-std=gnu++17", "-O0", "-fno-eliminate-unused-debug-symbols")


class Way(NamedTuple):
    """How the program is compiled, and what is done with it then."""

    flags: Sequence[str]
    then: Callable[[Path], Sequence[str]] = lambda built: ()
    """Returns folders of debug information."""


def run(*words: object, cwd: Path) -> None:
    needs(str(words[0]))
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        give_up(f"{words[0]} cannot: {done.stderr[-300:]}")


def package(built: Path) -> Sequence[str]:
    run("llvm-dwp", "-e", built, "-o", f"{built}.dwp", cwd=built.parent)
    for each in built.parent.glob("*.dwo"):
        each.unlink()
    return ()


def separate(built: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    run("objcopy", "--only-keep-debug", built, to, cwd=built.parent)
    run("strip", built, cwd=built.parent)


def linked(built: Path) -> Sequence[str]:
    separate(built, built.parent / ".debug" / "apart.debug")
    run("objcopy", f"--add-gnu-debuglink={built.parent}/.debug/apart.debug", built, cwd=built.parent)
    return ()


def build_id(built: Path) -> str:
    said = subprocess.run(["readelf", "-n", built], capture_output=True, text=True, check=True).stdout
    return said.partition("Build ID: ")[2].split()[0]


def in_folder(built: Path) -> Sequence[str]:
    digits = build_id(built)
    separate(built, built.parent / "debug" / ".build-id" / digits[:2] / f"{digits[2:]}.debug")
    return [str(built.parent / "debug")]


def downloaded(built: Path) -> Sequence[str]:
    separate(built, built.parent / "cache" / build_id(built) / "debuginfo")
    return ()


def shared(built: Path) -> Sequence[str]:
    twin = built.parent / "twin"
    shutil.copy(built, twin)
    run("dwz", "-m", "common.debug", "-M", built.parent / "common.debug", built, twin, cwd=built.parent)
    return ()


WAYS: Mapping[str, Way] = {
    "DWARF 4": Way(["-gdwarf-4"]),
    "type units, DWARF 4": Way(["-gdwarf-4", "-fdebug-types-section"]),
    "type units": Way(["-gdwarf-5", "-fdebug-types-section"]),
    "split, DWARF 4": Way(["-gdwarf-4", "-gsplit-dwarf"]),
    "split": Way(["-gdwarf-5", "-gsplit-dwarf"]),
    "split, type units": Way(["-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section"]),
    "split, one package": Way(["-gdwarf-5", "-gsplit-dwarf"], package),
    "split, one package, DWARF 4": Way(["-gdwarf-4", "-gsplit-dwarf"], package),
    "zlib": Way(["-gdwarf-5", "-gz=zlib"]),
    "zlib, as long ago": Way(["-gdwarf-4", "-gz=zlib-gnu"]),
    "zstd": Way(
        ["-gdwarf-5"], lambda built: run("objcopy", "--compress-debug-sections=zstd", built, cwd=built.parent) or ()
    ),
    "a link": Way(["-gdwarf-5"], linked),
    "by build-id": Way(["-gdwarf-5"], in_folder),
    "downloaded": Way(["-gdwarf-5"], downloaded),
    "dwz": Way(["-gdwarf-5"], lambda built: run("dwz", built, cwd=built.parent) or ()),
    "dwz, shared": Way(["-gdwarf-4"], shared),
    "dwz, shared, DWARF 5": Way(["-gdwarf-5"], shared),
    "linker": Way(["-gdwarf-5", "-flto"]),
}


def compiled(folder: Path, way: Way) -> tuple[Path, Sequence[str]]:
    for name, text in (("shared.h", SHARED), ("main.cc", MAIN), ("other.cc", OTHER)):
        (folder / name).write_text(text)
    built = folder / "program"
    run(*GXX, *way.flags, "-Wl,--build-id", "-o", built, "main.cc", "other.cc", cwd=folder)
    return built, way.then(built)


def told(types: TypesByEngine, target: ShellTarget) -> dict[str, object]:
    """What is known of variables, and of all types that these lead to, by name."""
    program = target.programs()[0][0]
    places = [each.value for each in target._table(program)[1]]
    variables = {each.name: each.type for each in types.variables(places).values() if not each.name.startswith("_")}
    variables.update({each.name: each.type for each in types.thread_locals()})
    found: dict[str, object] = {}
    left, met = list(variables.values()), set[int]()

    def called(type: int) -> str:
        left.append(type)
        facts, marks = types.facts(type), ""
        while facts.target is not None and len(marks) < 9:
            marks += {"pointer": "*", "reference": "&"}.get(facts.form, f"[{facts.length}]")
            facts = types.facts(facts.target)
        return f"{facts.name}{marks}" if facts.name else f"{facts.form}{facts.size}{marks}"

    names = {name: called(type) for name, type in variables.items()}
    while left:
        type = left.pop()
        if type in met:
            continue
        met.add(type)
        facts = types.facts(type)
        if facts.target is not None:
            left.append(facts.target)
        elif facts.name:
            assert facts.name not in found or found[facts.name] == _plain(facts, called), facts.name
            found[facts.name] = _plain(facts, called)
    return {**found, "variables": names}


def _plain(facts: TypeFacts, called: Callable[[int], str]) -> object:
    fields = [(each.name, each.offset, called(each.type), each.is_base) for each in facts.fields]
    arguments = [called(each.type) if each.type is not None else each.value for each in facts.arguments]
    rest = (facts.polymorphic, facts.signed, dict(facts.enumerators), facts.language, list(facts.bits))
    return (facts.form, facts.size, fields, arguments, *rest)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What is known of a program whose debug information is not packed."""
    built, _ = compiled(tmp_path_factory.mktemp("plain"), Way(["-gdwarf-5"]))
    with Started(built) as process:
        target = ShellTarget(ProcessImage(process.pid), declared=True)
        return told(TypesByEngine(target, target.debug_folders, None), target)


SHORT = ("type units, DWARF 4", "split", "dwz, shared")
"""The ways of `make test`."""


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.full] * (way not in SHORT)) for way in WAYS])
def test_ways_to_pack_it(way: str, plain: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    built, folders = compiled(tmp_path, WAYS[way])
    with Started(built) as process:
        target = ShellTarget(ProcessImage(process.pid), folders, declared=True)
        types = TypesByEngine(target, target.debug_folders, None)
        assert built.name not in {Path(each).name for each in types.without()}
        found = told(types, target)
    assert found["variables"] == plain["variables"]
    assert {name: found.get(name) for name in plain} == plain
