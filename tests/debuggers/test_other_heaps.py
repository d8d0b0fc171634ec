"""Heaps beside malloc (Go, a JVM), and programs with no glibc at all (musl, Go by itself)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from looks import complaints, needs
from schemas import problem_ids
from test_other_allocators import BUILD_SECONDS, Looks, build, check_beside, serving

pytestmark = pytest.mark.full
WAITS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    volatile char *held = malloc(100000);
    held[0] = 1;
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == 'x' && held[0];
}
"""


@pytest.mark.parametrize("how", ["dynamic", "static", "stripped"])
def test_musl(how: str, tmp_path: Path) -> None:
    (tmp_path / "waits.c").write_text(WAITS)
    static = {"dynamic": [], "static": ["-static"], "stripped": ["-static", "-s"]}[how]
    program = build(tmp_path / f"musl-{how}", tmp_path / "waits.c", "musl-gcc", *static)
    looks = Looks(str(program))
    for where, document in looks.json("version"):
        assert serving(document) == [("musl", True)], where
        assert document["complete"] is False
    for where, text in looks.words("arenas"):
        assert "musl" in text, where
        assert len(complaints(text)) == 1


GO = """package main

%s
import (
	"bufio"
	"fmt"
	"os"
)

var held [][]byte

func main() {
	for i := 0; i < 200; i++ {
		held = append(held, make([]byte, 10000))
	}
	fmt.Printf("ready %%d\\n", os.Getpid())
	bufio.NewReader(os.Stdin).ReadByte()
	fmt.Println(len(held)%s)
}
"""
WITH_C = """// #include <stdlib.h>
import "C"
"""


@pytest.mark.parametrize("how", ["alone", "stripped", "with C"])
def test_go(how: str, tmp_path: Path) -> None:
    """By itself it has no glibc; with C code in it, malloc is glibc's."""
    needs("go")
    (tmp_path / "main.go").write_text(GO % ((WITH_C, ", C.malloc(100000)") if how == "with C" else ("", "")))
    command = ["go", "build", *(["-ldflags", "-s -w"] if how == "stripped" else []), "-o", "app", "main.go"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr
    looks = Looks(str(tmp_path / "app"))
    if how == "with C":
        check_beside(looks, "Go")
        return
    for where, document in looks.json("version"):
        assert serving(document) == [("Go", False)], where
    for where, text in looks.words("arenas"):
        assert "Go" in text, where
        assert "no glibc" in text, where


JAVA = """
public class Main {
    static byte[][] held = new byte[100][];
    public static void main(String[] words) throws Exception {
        for (int i = 0; i < held.length; i++) held[i] = new byte[10000];
        System.out.println("ready " + ProcessHandle.current().pid());
        System.in.read();
    }
}
"""


def test_jvm(tmp_path: Path) -> None:
    """malloc is glibc's; what the JVM maps for its own heap is not in the arenas."""
    if not shutil.which("java") or not shutil.which("javac"):
        pytest.skip("there is no java, or no javac")
    (tmp_path / "Main.java").write_text(JAVA)
    subprocess.run(["javac", "Main.java"], cwd=tmp_path, check=True, timeout=BUILD_SECONDS)
    start = tmp_path / "start"
    start.write_text(f"#!/bin/sh\nexec java -Xmx64m -XX:ReservedCodeCacheSize=16m -cp {tmp_path} Main\n")
    start.chmod(0o755)
    looks = Looks(str(start), core="")
    for where, document in looks.json("arenas"):
        assert serving(document) == [("JVM", False)], where
        assert "malloc-replaced" not in problem_ids(document), where
    assert all("JVM (libjvm.so) " in text for _, text in looks.words("version"))
