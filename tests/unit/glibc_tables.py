"""Every malloc layout that glibc has had since 2.17, as literal offsets.

Typed from compiled struct definitions and debug files, on purpose not derived from arenascope.glibc: what the walkers
are held to must come from somewhere else.
"""

from __future__ import annotations


def table(text: str) -> dict[str, list[str]]:
    """Lines of "key | cells" by their key."""
    lines = (line.split("|") for line in text.strip().splitlines())
    return {key.strip(): cells.split() for key, cells in lines}


def offsets(names: str, cells: list[str]) -> dict[str, int]:
    return {name: int(cell) for name, cell in zip(names.split(), cells) if cell != "-"}


# the fields of malloc_state and malloc_par that are C ints; every other is a word or an array of words
INTS = {"mutex", "flags", "have_fastchunks", "thp_mode", "hp_flags"}
INTS |= {"n_mmaps", "n_mmaps_max", "max_n_mmaps", "no_dyn_threshold"}

STATE_FIELDS = (
    "mutex flags have_fastchunks fastbinsY top last_remainder bins binmap next next_free attached_threads"
    " system_mem max_system_mem sizeof"
)
STATE = table("""
64 S1    | 0 4 - 8   88  96 104 2136 2152 2160    - 2168 2176 2184
64 S2    | 0 4 - 8   88  96 104 2136 2152 2160 2168 2176 2184 2192
64 S3    | 0 4 8 16  96 104 112 2144 2160 2168 2176 2184 2192 2200
64 S4    | 0 4 - -    8  16  24 2056 2072 2080 2088 2096 2104 2112
32/8 S1  | 0 4 - 8   48  52  56 1072 1088 1092    - 1096 1100 1104
32/8 S2  | 0 4 - 8   48  52  56 1072 1088 1092 1096 1100 1104 1108
32/8 S3  | 0 4 8 12  52  56  60 1076 1092 1096 1100 1104 1108 1112
32/8 S4  | 0 4 - -    8  12  16 1032 1048 1052 1056 1060 1064 1068
32/16 S1 | 0 4 - 8   52  56  60 1076 1092 1096    - 1100 1104 1108
32/16 S2 | 0 4 - 8   52  56  60 1076 1092 1096 1100 1104 1108 1112
32/16 S3 | 0 4 8 12  56  60  64 1080 1096 1100 1104 1108 1112 1116
32/16 S4 | 0 4 - -    8  12  16 1032 1048 1052 1056 1060 1064 1068
""")

HEAP_FIELDS = "ar_ptr prev size mprotect_size pagesize sizeof"
HEAP = table("""
64 H1    | 0 8 16 24  - 32
64 H2    | 0 8 16 24 32 48
32/8 H1  | 0 4  8 12  - 16
32/8 H2  | 0 4  8 12 16 24
32/16 H1 | 0 4  8 12  - 24
32/16 H2 | 0 4  8 12 16 24
""")

PAR_FIELDS = (
    "trim_threshold top_pad mmap_threshold arena_test arena_max thp_mode thp_pagesize hp_pagesize hp_flags n_mmaps"
    " n_mmaps_max max_n_mmaps no_dyn_threshold mmapped_mem max_mmapped_mem max_total_mem sbrk_base tcache_bins"
    " tcache_max_bytes tcache_count tcache_unsorted_limit sizeof"
)
PAR = table("""
64 M1 | 0 8 16 24 32  -  -  -  - 40 44 48 52 56 64 72  80   -   -   -   -  88
64 M2 | 0 8 16 24 32  -  -  -  - 40 44 48 52 56 64  -  72   -   -   -   -  80
64 M3 | 0 8 16 24 32  -  -  -  - 40 44 48 52 56 64  -  72  80  88  96 104 112
64 M4 | 0 8 16 24 32  - 40 48 56 60 64 68 72 80 88  -  96 104 112 120 128 136
64 M5 | 0 8 16 24 32 40 48 56 64 68 72 76 80 88 96  - 104 112 120 128 136 144
64 M6 | 0 8 16 24 32 40 48 56 64 68 72 76 80 88 96  - 104 112 120 128   - 136
32 M1 | 0 4  8 12 16  -  -  -  - 20 24 28 32 36 40 44  48   -   -   -   -  52
32 M2 | 0 4  8 12 16  -  -  -  - 20 24 28 32 36 40  -  44   -   -   -   -  48
32 M3 | 0 4  8 12 16  -  -  -  - 20 24 28 32 36 40  -  44  48  52  56  60  64
32 M4 | 0 4  8 12 16  - 20 24 28 32 36 40 44 48 52  -  56  60  64  68  72  76
32 M5 | 0 4  8 12 16 20 24 28 32 36 40 44 48 52 56  -  60  64  68  72  76  80
32 M6 | 0 4  8 12 16 20 24 28 32 36 40 44 48 52 56  -  60  64  68  72   -  76
""")

# form: slots, bytes of a count, offsets of counts and entries, sizeof, and the chunk that the struct itself takes.
# A form's name is that of what its counts count; the same in another order is "num_slots/2"
TCACHE_FIELDS = "slots count_size counts entries sizeof chunk"
TCACHE = table("""
64 char         | 64 1 0  64 576 592
64 uint16       | 64 2 0 128 640 656
64 num_slots    | 76 2 0 152 760 768
32/8 char       | 64 1 0  64 320 328
32/8 uint16     | 64 2 0 128 384 392
32/8 num_slots  | 76 2 0 152 456 464
32/16 char      | 64 1 0  64 320 336
32/16 uint16    | 64 2 0 128 384 400
32/16 num_slots | 76 2 0 152 456 464
""")

# chunk sizes (smallest, largest fast by default, first large), number of fastbins, tcache_max_bytes up to the 2.42 tag
# and on its branch
FAMILY_FIELDS = "word alignment minsize max_fast min_large nfastbins heap_max tcache_max_tag tcache_max_branch maxsmall"
FAMILY = table("""
64    | 8 16 32 128 1024 10 67108864 1032 1041 1040
32/8  | 4  8 16  64  512 10  1048576  516  521  520
32/16 | 4 16 16  64 1008 11  1048576 1020 1025 1024
""")

# byte order, page size, and where libc's thread_arena and tcache lie from the thread pointer. x86 and s390x put TLS
# below it, arm and aarch64 above, and powerpc's thread pointer stands 0x7000 past the start of the block.
ARCH = table("""
x86-64  | little  4096  -0x38    -0x48
i386    | little  4096  -0x1c    -0x24
x32     | little  4096  -0x1c    -0x24
aarch64 | little 16384   0x30     0x28
arm     | little  4096   0x20     0x1c
ppc64le | little 65536  -0x6fc8  -0x6fd8
ppc32   | big     4096  -0x6fe0  -0x6fe8
s390x   | big     4096  -0x38    -0x48
""")

# "2.22.x" names the release branch, where distributions ship from and which carries backports that the tag lacks
ROW_CELLS = table("""
2.17-64      | 64    x86-64  S1 H1 M1 -         -       plain
2.22-64      | 64    x86-64  S1 H1 M1 -         -       plain
2.22.x-64    | 64    x86-64  S2 H1 M1 -         -       plain
2.23-64      | 64    x86-64  S2 H1 M1 -         -       plain
2.24-64      | 64    x86-64  S2 H1 M2 -         -       plain
2.26-64      | 64    x86-64  S2 H1 M3 char      -       plain
2.26.x-64    | 64    x86-64  S3 H1 M3 char      -       plain
2.27-64      | 64    x86-64  S3 H1 M3 char      -       plain
2.27.x-64    | 64    x86-64  S3 H1 M3 char      pointer plain
2.28.x-64    | 64    x86-64  S3 H1 M3 uint16    pointer plain
2.29-64      | 64    x86-64  S3 H1 M3 char      pointer plain
2.30-64      | 64    x86-64  S3 H1 M3 uint16    pointer plain
2.31-64      | 64    x86-64  S3 H1 M3 uint16    pointer plain
2.32-64      | 64    x86-64  S3 H1 M3 uint16    pointer safe
2.34-64      | 64    x86-64  S3 H1 M3 uint16    random  safe
2.35-64      | 64    x86-64  S3 H2 M4 uint16    random  safe
2.36-64      | 64    x86-64  S3 H2 M4 uint16    random  safe
2.41-64      | 64    x86-64  S3 H2 M4 uint16    random  safe
2.42-64      | 64    x86-64  S3 H2 M4 num_slots random  safe
2.42.x-64    | 64    x86-64  S3 H2 M4 num_slots random  safe
2.43-64      | 64    x86-64  S4 H2 M5 num_slots random  safe
2.44-64      | 64    x86-64  S4 H2 M6 num_slots random  safe
2.17-x32     | 32/16 x32     S1 H1 M1 -         -       plain
2.17-arm     | 32/8  arm     S1 H1 M1 -         -       plain
2.23-arm     | 32/8  arm     S2 H1 M1 -         -       plain
2.24-arm     | 32/8  arm     S2 H1 M2 -         -       plain
2.26-arm     | 32/8  arm     S2 H1 M3 char      -       plain
2.27-arm     | 32/8  arm     S3 H1 M3 char      -       plain
2.31-arm     | 32/8  arm     S3 H1 M3 uint16    pointer plain
2.32-arm     | 32/8  arm     S3 H1 M3 uint16    pointer safe
2.35-arm     | 32/8  arm     S3 H2 M4 uint16    random  safe
2.41-arm     | 32/8  arm     S3 H2 M4 uint16    random  safe
2.42-arm     | 32/8  arm     S3 H2 M4 num_slots random  safe
2.43-arm     | 32/8  arm     S4 H2 M5 num_slots random  safe
2.44-arm     | 32/8  arm     S4 H2 M6 num_slots random  safe
2.17-i386    | 32/8  i386    S1 H1 M1 -         -       plain
2.23-i386    | 32/8  i386    S2 H1 M1 -         -       plain
2.25-i386    | 32/8  i386    S2 H1 M2 -         -       plain
2.26-i386    | 32/16 i386    S2 H1 M3 char      -       plain
2.27-i386    | 32/16 i386    S3 H1 M3 char      -       plain
2.31-i386    | 32/16 i386    S3 H1 M3 uint16    pointer plain
2.32-i386    | 32/16 i386    S3 H1 M3 uint16    pointer safe
2.35-i386    | 32/16 i386    S3 H2 M4 uint16    random  safe
2.41-i386    | 32/16 i386    S3 H2 M4 uint16    random  safe
2.42-i386    | 32/16 i386    S3 H2 M4 num_slots random  safe
2.42.x-i386  | 32/16 i386    S3 H2 M4 num_slots random  safe
2.43-i386    | 32/16 i386    S4 H2 M5 num_slots random  safe
2.44-i386    | 32/16 i386    S4 H2 M6 num_slots random  safe
2.31-s390x   | 64    s390x   S3 H1 M3 uint16    pointer plain
2.36-s390x   | 64    s390x   S3 H2 M4 uint16    random  safe
2.43-s390x   | 64    s390x   S4 H2 M5 num_slots random  safe
2.44-s390x   | 64    s390x   S4 H2 M6 num_slots random  safe
2.23-ppc32   | 32/8  ppc32   S2 H1 M1 -         -       plain
2.24-ppc32   | 32/16 ppc32   S2 H1 M2 -         -       plain
2.36-ppc32   | 32/16 ppc32   S3 H2 M4 uint16    random  safe
2.43-ppc32   | 32/16 ppc32   S4 H2 M5 num_slots random  safe
2.44-ppc32   | 32/16 ppc32   S4 H2 M6 num_slots random  safe
2.36-ppc64le | 64    ppc64le S3 H2 M4 uint16    random  safe
2.36-aarch64 | 64    aarch64 S3 H2 M4 uint16    random  safe
2.43-aarch64 | 64    aarch64 S4 H2 M5 num_slots random  safe
""")
