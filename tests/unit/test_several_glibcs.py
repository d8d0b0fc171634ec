"""Other allocators and several glibcs, as far as no process is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_door import run_json
from heap_mixtures import everything
from heapbuilder import HeapImage

from arenascope.base.heap_model import Allocator
from arenascope.glibc.find.main_arena import without_tcache
from arenascope.glibc.find.other_allocators import find_allocators, maker_of
from arenascope.session.session import Session
from arenascope.sources.target import Region


@pytest.mark.parametrize("row", ["2.36-64", "2.41-i386"])
def test_a_copy_without_thread_caches(row: str) -> None:
    layout = Session(everything(row).target()).layout
    bare = without_tcache(layout)
    assert bare.tcache is None
    assert not [name for name in bare.params.offsets if name.startswith("tcache")]
    assert bare.params.size == layout.params["tcache_bins"]
    assert bare.params.offsets.items() <= layout.params.offsets.items()


# by their file names alone: nothing of these modules can be read

LIBC = "/usr/lib/libc.so.6"


def named(*paths: str) -> list[tuple[str, object]]:
    target = HeapImage("2.36-64").target()
    regions = [
        Region(0x10000 * (1 + index), 0x10000 * (1 + index) + 0x1000, path=path, present=False)
        for index, path in enumerate(paths)
    ]
    found = find_allocators(replace(target, mappings=regions), regions)
    assert all(each.instead and each.how for each in found)
    return [(each.name, each.replaces_malloc) for each in found]


@pytest.mark.parametrize(
    ("file", "name", "replaces"),
    [
        ("libjemalloc.so.2", "jemalloc", True),
        ("libjemalloc.so.2 (deleted)", "jemalloc", True),
        ("libtcmalloc_minimal.so.4.5.10", "tcmalloc", True),
        ("libmimalloc.so.2.0", "mimalloc", True),
        ("libhoard.so", "Hoard", True),
        ("libasan.so.8.0.0", "AddressSanitizer", True),
        ("libclang_rt.asan-x86_64.so", "AddressSanitizer", True),
        ("libtsan.so.2", "ThreadSanitizer", True),
        ("vgpreload_memcheck-amd64-linux.so", "Valgrind", True),
        ("libjvm.so", "JVM", False),
        ("libnode.so.108", "V8", False),
    ],
)
def test_by_its_file_name(file: str, name: str, replaces: bool) -> None:
    assert named("/usr/bin/app", f"/usr/lib/{file}", LIBC) == [(name, replaces)]


def test_names_that_only_look_alike() -> None:
    assert (
        named(
            "/usr/bin/app",
            "/usr/lib/vgpreload_core-amd64-linux.so",
            "/usr/lib/mylibjemalloc.so",
            "/usr/share/jemalloc/notes",
            LIBC,
        )
        == []
    )


def test_two_are_both_named_the_one_that_serves_first() -> None:
    assert named("/opt/libjvm.so", "/usr/lib/libtcmalloc.so.4", "/usr/lib/libjemalloc.so.2", LIBC) == [
        ("tcmalloc", True),
        ("jemalloc", True),
        ("JVM", False),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/lib/ld-musl-x86_64.so.1",
        "/usr/lib/x86_64-linux-musl/libc.so",
        "/usr/local/musl/lib/libc.so",
        "/lib/libc.musl-x86_64.so.1",
    ],
)
def test_musl(path: str) -> None:
    assert named("/usr/bin/app", path) == [("musl", True)]


def test_what_another_allocator_does_to_the_answers() -> None:
    """Replaced malloc makes figures partial; a heap beside it does not."""
    image = everything("2.36-64")
    target = image.target()
    end = max(region.end for region in target.mappings) + 0x10000
    for path, complete in (("/usr/lib/libjemalloc.so.2", False), ("/opt/java/libjvm.so", True)):
        more = Region(end, end + 0x1000, path=path, present=False)
        document = run_json(replace(target, mappings=[*target.mappings, more]), "arenas")
        assert document["complete"] is complete
        assert [each["how"] for each in document["allocators"]] == [path.rsplit("/", 1)[-1]]
        assert document["share"] == {"glibc_resident_bytes": None, "rss_bytes": None}
    document = run_json(target, "arenas")
    assert (document["allocators"], document["share"]) == ([], None)


def test_a_mapping_that_is_named_says_whose_it_is() -> None:
    """PR_SET_VMA_ANON_NAME, which not every kernel has."""
    names = {
        "[anon:partition_alloc]": "PartitionAlloc",
        "[anon:v8]": "V8",
        "[anon:Ruby:heap_page_allocate]": "Ruby",
        "[anon: Go: heap]": "Go",
        "[anon:v8-notes]": "",
        "[anon: glibc: malloc]": "",
        "[heap]": "",
        "": "",
    }
    for path, name in names.items():
        assert maker_of(Region(0x10000, 0x20000, path=path), ()) == name, path
    pool = Allocator("PostgreSQL", "", False, "", places=(0x18000,))
    assert maker_of(Region(0x10000, 0x20000, path="/dev/zero"), (pool,)) == "PostgreSQL"
    assert maker_of(Region(0x20000, 0x30000, path="/dev/zero"), (pool,)) == ""
