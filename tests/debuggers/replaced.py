"""A program whose library is replaced once it runs: by one of the same text with other names, so that all lies where it
did, and with another build-id. Whoever takes its names tells what is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from subjects import Subject

WITHOUT_RTTI = """
#include <cstdlib>
#include <cstring>
struct RightLink { virtual ~RightLink(); long id; char *right_text; };
RightLink::~RightLink() {}
extern "C" { char *right_owner; RightLink *right_links[100]; __thread char *right_thread; }
static char *right_static[4000] __attribute__((used));
static char *full(size_t size) { return (char *)memset(malloc(size), 1, size); }
extern "C" void fill() {
    right_owner = full(72 << 10);
    right_static[3900] = full(9000);
    right_thread = full(7000);
    for (auto &each : right_links) {
        each = new RightLink;
        each->right_text = full(300);
    }
}
"""
WITH_RTTI = """
#include <cstdlib>
struct Kept { virtual ~Kept(); long id; char *right_member; };
Kept::~Kept() {}
Kept *kept_objects[50];
extern "C" void keep() {
    for (auto &each : kept_objects) {
        each = new Kept;
        each->right_member = (char *)malloc(500);
        each->right_member[0] = 1;
    }
}
"""
PROGRAM = """
#include <stdio.h>
#include <unistd.h>
void fill(void);
void keep(void);
int main(void) {
    fill();
    keep();
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == EOF;
}
"""
NAMES = ("right_owner", "right_links", "right_static", "right_thread", "RightLink", "right_member")
OTHER_FILES = "other-files"


class Replaced(NamedTuple):
    """The program, its library as it is loaded, and the two that may lie there."""

    program: Path
    library: Path
    right: Path
    wrong: Path

    def put(self, file: Path) -> None:
        """A new file under the name; who has the old one mapped keeps that."""
        beside = self.library.with_suffix(".new")
        shutil.copy(file, beside)
        os.replace(beside, self.library)

    def core(self, folder: Path, coredump_filter: int = 0x33) -> Path:
        """Of the program with the right library."""
        self.put(self.right)
        with Subject(str(self.program), coredump_filter=coredump_filter) as subject:
            return Path(shutil.move(subject.kernel_core(), folder / f"core.{coredump_filter:x}"))


def build(folder: Path) -> Replaced:
    loaded = folder / "app" / "libheld.so"
    for name in ("right", "wrong", "app"):
        place = folder / name
        place.mkdir()
        for source, text in (("link.cc", WITHOUT_RTTI), ("kept.cc", WITH_RTTI)):
            text = text.replace("right", "wrong").replace("Right", "Wrong") if name == "wrong" else text
            (place / source).write_text(text)
        flags = ["-O1", "-g", "-fPIC", "-w"]
        gcc("g++", *flags, "-fno-rtti", "-c", "-o", place / "link.o", place / "link.cc")
        gcc("g++", *flags, "-c", "-o", place / "kept.o", place / "kept.cc")
        gcc("g++", "-shared", "-Wl,--build-id", "-o", place / loaded.name, place / "link.o", place / "kept.o")
    (folder / "main.c").write_text(PROGRAM)
    program = loaded.with_name("main")
    gcc("gcc", "-O1", "-g", "-o", program, folder / "main.c", loaded, f"-Wl,-rpath,{loaded.parent}")
    return Replaced(program, loaded, folder / "right" / loaded.name, folder / "wrong" / loaded.name)


def gcc(*words: object) -> None:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def with_another_build_id(file: Path, copy: Path) -> Path:
    """The same but for that."""
    shown = subprocess.run(["readelf", "-n", str(file)], capture_output=True, text=True, check=True).stdout
    own = bytes.fromhex(shown.partition("Build ID: ")[2].split()[0])
    data = file.read_bytes()
    assert data.count(own) == 1
    copy.write_bytes(data.replace(own, own[::-1]))
    return copy
