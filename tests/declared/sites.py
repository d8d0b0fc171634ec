"""What each live block of a fixture is, by where it was allocated: the truth for names that debug information gives.

fixtures/library/sites.c notes for each block the bytes asked for and the calls that led to malloc. The innermost call
that tells decides:

- libstdc++'s `allocator<T>::allocate`: T's, as many as fit. Its callers tell the container.
- libstdc++'s own `new`: of std::make_unique, of a control block, of what std::function and std::any hold.
- a method of std::string in libstdc++: characters.
- a line of the program with a remark, `block: TYPE`, behind it or alone in front of it.

A remark can say more: `block: TYPE[]` is an array, `block: TYPE + MEMBER[]` ends in a flexible array; of `TYPE | TYPE`
the block's size decides. `: BASE, BASE` names types that begin the block, since its first member is one. `in CONTAINER`
names whose body or node it is, `of FIELD, FIELD` the members that point to it. A line with the remark `leak` says that
whatever is allocated beneath it is lost.

addr2line, which knows inlined calls, turns addresses into functions and lines; GDB says how large a type is. Nothing
here is arenascope's.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

import pytest
from doors import GDB, Core, Image, Live
from looks import ROOT, give_up, needs, opened
from spelling import Template, canonical, constant, rust, template
from subjects import Started
from waiting import mappings

LIBRARY = ROOT / "fixtures" / "build" / "libsites.so"
PROGRAMS = ROOT / "fixtures" / "build" / "declared"
SOURCES = ROOT / "fixtures" / "declared"
MASK, GONE, HEADER = 0x5BD1E995C3A5F00F, 1, struct.Struct("4Q")
"""As in sites.c."""
REMARK = re.compile(
    r"(?:/\*|//)\s*block: (?P<type>.+?)(?: : (?P<bases>.+?))?(?: in (?P<container>.+?))?(?: of (?P<fields>.+?))?"
    r"\s*(?:\*/|$)"
)
LEAK = re.compile(r"(?:/\*|//).*\bleak\s*(?:\*/)?$")

LINKED = {
    "std::_Rb_tree_node": ("map", "multimap", "set", "multiset"),
    "std::__detail::_Hash_node": ("unordered_map", "unordered_multimap", "unordered_set", "unordered_multiset"),
    "std::_List_node": ("list",),
    "std::_Fwd_list_node": ("forward_list",),
}
KEYED = ("map", "multimap", "unordered_map", "unordered_multimap")
BUCKETS = "std::__detail::_Hash_node_base*"
CONTAINERS = [f"std::{each}" for kinds in LINKED.values() for each in kinds]
CONTAINERS += ["std::vector", "std::deque", "std::basic_string", "std::string", "std::wstring", "std::u16string"]


TABLE = "table"
"""Of Rust's HashMap: elements, and behind them their control bytes. No type says so."""
OR = " | "
FUNCTION = "std::function"
OF_LIBCXX = {
    "std::__tree_node": "std::_Rb_tree_node<{}>",
    "std::__hash_node": "std::__detail::_Hash_node<{}, true>",
    "std::__list_node": "std::_List_node<{}>",
    "std::__forward_list_node": "std::_Fwd_list_node<{}>",
}
CALLED, OWNING = "std::__function::__func<", "std::__shared_ptr_pointer"
SINGLE = ("std::_Sp_counted", "std::__function::__func", "std::__shared_ptr_emplace")
WITHIN = {"std::_Function_base::_Base_manager": "::_M_create", "std::any::_Manager_external": "::_S_create"}
NAMELESS = {"_M_init_functor", "__allocate_guarded"}
"""What a function is called whose template arguments have no name outside of their function."""
UNTYPED = {"void", "char", "char[]", "unsigned char[]"}
"""What a block may be called besides, where it is named by the member which points to it."""
STRING = re.compile(r"std::(?:__cxx11::)?basic_string<(\w+),.*>::")
"""A method that calls the allocator out of sight: in libstdc++, which has no debug information."""
LIBRARYS_OWN = {"__new_exitfn", "__cxa_thread_atexit_impl", "_IO_file_doallocate", "__fopen_internal"}
"""libc's functions that make blocks for itself, whoever calls them."""


class Frame(NamedTuple):
    function: str
    file: str
    line: int

    @property
    def source(self) -> str:
        """The line in a fixture's own file, with a remark that stands alone in front of it; "" elsewhere."""
        path = Path(self.file)
        if path.parent.name != SOURCES.name:
            return ""
        line, before = (line_of(SOURCES / path.name, each) for each in (self.line, self.line - 1))
        return f"{line} {before.strip()}" if before.strip().startswith("// block: ") else line

    @property
    def name(self) -> str:
        """The function's, without its arguments."""
        return self.function.replace("(anonymous namespace)::", "").partition("(")[0]


class Expected(NamedTuple):
    type: str
    """As remark or template argument spells it, without "[]"; "" if nothing tells."""
    array: bool
    """It was asked for as an array, perhaps of one."""
    size: int
    """Bytes asked for."""
    container: str
    """Whose node or body it is, with all template arguments; "" if no caller tells."""
    bases: tuple[str, ...]
    fields: tuple[str, ...]
    """Members that hold it: TYPE.MEMBER."""
    flexible: bool
    leak: bool
    foreign: bool
    """A library's block, of which the program's debug information says nothing: libc's, libstdc++'s before main."""
    site: str
    """FILE:LINE of the program, for messages."""


class Sited(Started):
    """A program that runs with a log of its sites, until it ends."""

    def __init__(self, program: Path, folder: Path, *arguments: str) -> None:
        if is_rust(program.name) and not shutil.which("rustc"):
            give_up("rustc is not installed")
        for needed in (LIBRARY, program):
            if not needed.exists():
                pytest.skip(f"{needed.relative_to(ROOT)} is not built: make fixtures")
        needs("addr2line")
        self.program, self.log = program, folder / f"{program.name}.sites"
        super().__init__(program, *arguments, env={"SITES_LOG": str(self.log), "LD_PRELOAD": str(LIBRARY), "LANG": "C"})
        assert self.said.split() == ["ready", str(self.pid)], f"{program}: {self.said}"

    def image(self, kind: str, folder: Path) -> Image:
        """It as it runs, or a "core" that GDB writes."""
        live = Live(self.pid, self.program)
        if kind == "live":
            return live
        opened(GDB).do(live, [f"gcore {folder / 'core'}"])
        return Core(folder / "core", self.program)

    def tick(self) -> None:
        assert self.send("tick") == "ticked"

    def counts(self) -> dict[str, Count]:
        """What the program says of its containers, by the way to them."""
        return {path: Count(*map(int, figures)) for path, *figures in self.counted("count")}

    def counted(self, kind: str) -> list[list[str]]:
        """What it says of its objects; "have": their type, a member, a value, and how many have that; "span": of what
        type, of which member, which, the least and the greatest."""
        told, line = [], self.send("count")
        while line != "ticked":
            word, *words = line.split()
            told += [words] * (word == kind)
            line = self.hear()
        assert told
        return told

    def expected(self) -> dict[int, Expected]:
        """Of each live block, by its address."""
        found = {}
        judgements: dict[int, Expected] = {}
        for address, block in sited_blocks(self.log, self.pid, self.program).items():
            site = judgements.setdefault(id(block.calls), judged(block.calls))
            foreign = block.foreign or not (site.site or site.type) or is_librarys_own(block.calls)
            kind = "" if foreign else site.type
            found[address] = site._replace(type=kind, foreign=foreign, size=block.size)
        several = {kind for each in found.values() for kind in each.type.split(OR) if OR in each.type}
        sizes = sizes_of(self.program, several)
        return {address: each._replace(type=of_this_size(each, sizes)) for address, each in found.items()}


class Count(NamedTuple):
    """A container, as the program itself counts."""

    elements: int
    buckets: int
    longest: int


class SitedBlock(NamedTuple):
    size: int
    """Bytes asked for."""
    calls: Sequence[Frame]
    """With inlined ones, the innermost first; one list for all blocks of a site."""
    foreign: bool
    """No function of the program's own led there, or the loader asked."""


def sited_blocks(log: Path, pid: int, program: Path) -> dict[int, SitedBlock]:
    """Of any program that runs with a log: what the log says of each live block."""
    blocks, stacks = read_log(log)
    modules = list(executable_modules(pid))
    wanted: dict[Path, set[int]] = {}
    place = {}
    for frame in {frame for each in stacks.values() for frame in each}:
        found = next((each for each in modules if each.start <= frame < each.end), None)
        if found is not None and found.path.name != LIBRARY.name:
            place[frame] = found.path, frame - found.base
            wanted.setdefault(found.path, set()).add(frame - found.base)
    files = {path: split_from(path) or path for path in wanted}
    lines = {path: symbolise(files[path], sorted(each)) for path, each in wanted.items()}
    calls, foreign = {}, {}
    for number, stack in stacks.items():
        those = [place[each] for each in stack if each in place]
        calls[number] = [frame for path, at in those for frame in lines[path][at]]
        own = any(os.path.samefile(path, program) for path, _ in those)
        foreign[number] = not own or those[0][0].name.startswith("ld-")
    return {address: SitedBlock(size, calls[stack], foreign[stack]) for address, (size, stack) in blocks.items()}


def of_this_size(block: Expected, sizes: Mapping[str, int]) -> str:
    """Of several types that a line makes: those that have the block's size, else those that there are."""
    kinds = [each for each in block.type.split(OR) if each in sizes]
    return OR.join([each for each in kinds if sizes[each] == block.size] or kinds or [block.type])


def read_log(path: Path) -> tuple[dict[int, tuple[int, int]], dict[int, list[int]]]:
    """{address: (bytes asked for, number of a stack)} and the stacks, the innermost call first."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        places, stacks, frames, _ = HEADER.unpack_from(data)
        one = struct.Struct(f"{2 + frames}Q")
        block = struct.Struct("3Q")
        start = HEADER.size + stacks * one.size
        blocks = {
            masked ^ MASK: (size, stack)
            for masked, size, stack in block.iter_unpack(data[start : start + places * block.size])
            if masked > GONE
        }
        found = {}
        for number in {stack for _, stack in blocks.values()}:
            _, depth, *calls = one.unpack_from(data, HEADER.size + number * one.size)
            found[number] = calls[:depth]
    return blocks, found


class Module(NamedTuple):
    path: Path
    start: int
    end: int
    base: int
    """To be taken from an address, for what the file calls it."""


def executable_modules(pid: int) -> Iterator[Module]:
    bases: dict[str, int] = {}
    for each in mappings(pid):
        if each.path.startswith("/"):
            base = bases.setdefault(each.path, each.start - each.offset)
            if "x" in each.flags:
                yield Module(Path(each.path), each.start, each.end, base if is_relocated(each.path) else 0)


@cache
def is_relocated(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(18)[16] == 3  # ET_DYN


@cache
def lines_of(source: Path) -> Sequence[str]:
    return source.read_text(errors="replace").splitlines() if source.exists() else ()


def line_of(source: Path, number: int) -> str:
    lines = lines_of(source)
    return lines[number - 1] if 0 < number <= len(lines) else ""


def split_from(program: Path) -> Optional[Path]:
    """What was built with -gsplit-dwarf has a twin with the same code, whose debug information addr2line can read."""
    twin = program.with_name(program.name.replace(".split.", "."))
    return twin if twin != program else None


def symbolise(file: Path, addresses: Sequence[int]) -> dict[int, list[Frame]]:
    """The inlined functions at each address, the innermost first, and last the function that has the code."""
    asked = "\n".join(f"{each:#x}" for each in addresses)
    done = subprocess.run(
        ["addr2line", "-a", "-f", "-C", "-i", "-e", str(file)], input=asked, capture_output=True, text=True, check=True
    )
    found: dict[int, list[Frame]] = {}
    lines = iter(done.stdout.splitlines())
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            now = found[int(line, 16)] = []
        else:
            path, _, number = next(lines).partition(" (disc")[0].rpartition(":")
            now.append(Frame(line, os.path.normpath(path), int(number) if number.isdigit() else 0))
    return found


def is_librarys_own(frames: Sequence[Frame]) -> bool:
    first = next((each for each in frames if each.function not in ("malloc", "calloc")), None)
    return first is not None and first.function.removeprefix("__GI_") in LIBRARYS_OWN


def judged(frames: Sequence[Frame], told: Callable[[Frame], str] = lambda frame: "") -> Expected:
    """`told`: the remark on a call, where a program is not ours to write it into."""
    own = next((f"{Path(each.file).name}:{each.line}" for each in frames if each.source), "")
    known = Expected("", False, 0, "", (), (), False, any(LEAK.search(each.source) for each in frames), False, own)
    for number, frame in enumerate(frames):
        by_library = from_library(frame)
        if by_library is not None:
            holders = containers if by_library.function is None else functions
            container = next(holders(frames[number:], by_library.type), by_library.function or "")
            return known._replace(type=by_library.type, array=by_library.array, container=container)
        remark = REMARK.search(frame.source or told(frame))
        if remark:
            text, bases, fields = (remark[each] or "" for each in ("type", "bases", "fields"))
            fields = re.sub(r"\s*\bleak$", "", fields)
            text = re.sub(r"\s*\bleak$", "", text)
            text, _, tail = text.partition(" + ")
            array = text.endswith("[]")
            listed = [tuple(re.split(r"\s*,\s*", some)) if some else () for some in (bases, fields)]
            return known._replace(
                type=text[:-2].strip() if array else text,
                array=array,
                container=remark["container"] or "",
                bases=listed[0],
                fields=listed[1],
                flexible=bool(tail),
                site=f"{Path(frame.file).name}:{frame.line}",
            )
    return known


class ByLibrary(NamedTuple):
    type: str
    array: bool
    function: Optional[str] = None
    """It is what a std::function calls."""


def from_library(frame: Frame) -> Optional[ByLibrary]:
    """What libstdc++'s function makes; None if it makes nothing by itself."""
    name = in_std(frame.function)
    if re.match(r"(std::__new_allocator|__gnu_cxx::new_allocator|std::allocator)<", name):
        head = template(name)
        if head is not None and head.rest.startswith("::allocate("):
            head.arguments[0] = as_libstdcxx(head.arguments[0])
            kind = canonical(head.arguments[0])
            node = template(kind)
            single = node is not None and (node.head in LINKED or node.head.startswith(SINGLE))
            return ByLibrary(head.arguments[0], not single, FUNCTION if head.arguments[0].startswith(CALLED) else None)
    owner = template(without_result(name)) if "std::shared_ptr<" in name else None
    if owner is not None and owner.head == "std::shared_ptr" and owner.rest.startswith(("::shared_ptr<", "::reset<")):
        return ByLibrary(f"{OWNING}<{owner.arguments[0].removesuffix('[]').rstrip()}*>", False)
    counted = re.match(r"std::__shared_count<[^<]*>::(?=__shared_count<)", name)
    if counted:
        pointer = template(name[counted.end() :])
        if pointer is not None and len(pointer.arguments) == 1 and pointer.arguments[0].endswith("*"):
            return ByLibrary(f"std::_Sp_counted_ptr<{pointer.arguments[0]}, (__gnu_cxx::_Lock_policy)2>", False)
    # of what has no name outside of its file, inlined functions have none but their own
    made = re.search(r"(?:\bstd::|^)make_unique<", name)
    if made:
        what = template(name[made.start() :])
        if what is not None:
            element = re.fullmatch(r"(.*\S)\s*\[\]", what.arguments[0])
            return ByLibrary(element[1], True) if element else ByLibrary(what.arguments[0], False)
    what = template(name)
    if what is not None:
        head = what.head.replace("void ", "")
        if head in WITHIN and what.rest.startswith(WITHIN[head]):
            return ByLibrary(what.arguments[0], False, FUNCTION if head.endswith("_Base_manager") else None)
        if head in NAMELESS:
            made = template(what.arguments[0])
            kind = made.arguments[0] if made is not None and made.head == "std::allocator" else what.arguments[0]
            return ByLibrary(kind, False, FUNCTION if head == "_M_init_functor" else None)
    text = STRING.match(without_result(name))
    if text:
        return ByLibrary(text[1], True)
    return None


def in_std(function: str) -> str:
    """Without libc++'s inline namespace."""
    return function.replace("std::__1::", "std::")


def as_libstdcxx(kind: str) -> str:
    """What libc++ calls a node, as libstdc++ does: so both are held to the same names."""
    found = template(kind.strip())
    if found is None or not found.arguments:
        return kind
    value = found.arguments[0]
    pair = template(value) if re.match(r"std::__(?:hash_)?value_type<", value) else None
    if pair is not None:
        value = f"std::pair<{constant(pair.arguments[0])}, {pair.arguments[1]}>"
    if found.head in OF_LIBCXX and found.rest.strip() == "":
        return OF_LIBCXX[found.head].format(value)
    return "std::__detail::_Hash_node_base*" if found.head == "std::__hash_node_base" else kind


def containers(frames: Iterable[Frame], kind: str) -> Iterator[str]:
    """Classes of which a method led there, that may have a block of that type."""
    for frame in frames:
        name = without_result(in_std(frame.function))
        of = template(name)
        if of is not None and canonical(of.head) in CONTAINERS and has_blocks_of(of, canonical(kind)):
            yield name[: len(name) - len(of.rest)]


def functions(frames: Iterable[Frame], _kind: str) -> Iterator[str]:
    for frame in frames:
        of = template(without_result(in_std(frame.function)))
        if of is not None and of.head == FUNCTION:
            yield f"{FUNCTION}<{of.arguments[0]}>"


def without_result(function: str) -> str:
    """Of a template's function the demangler says what it returns, too."""
    depth = start = 0
    for at, sign in enumerate(function):
        if sign == "<":
            depth += 1
        elif sign == ">":
            depth -= 1
        elif sign == "(" and not depth and not function.startswith("(anonymous", at):
            break
        elif sign == " " and not depth and not function.startswith(" namespace)", at):
            start = at + 1
    return function[start:]


def has_blocks_of(container: Template, kind: str) -> bool:
    name = container.head.replace("__cxx11::", "").replace("std::", "")
    of = canonical(container.arguments[0])
    value = f"std::pair<{constant(of)},{canonical(container.arguments[1])}>" if name in KEYED else of
    node = template(kind)
    if node is not None and node.head in LINKED:
        return name in LINKED[node.head] and canonical(node.arguments[0]) == canonical(value)
    if kind == BUCKETS:
        return name in LINKED["std::__detail::_Hash_node"]
    if name == "vector" and of == "bool":
        return kind == "unsigned long"
    return (name in ("vector", "basic_string") and kind == of) or (name == "deque" and kind in (of, f"{of}*"))


def sizes_of(program: Path, types: Iterable[str]) -> dict[str, int]:
    """By GDB, of those that it finds by their name."""
    asked = list(types)
    words = ["gdb", "-nx", "-batch", "-iex", "set auto-load off", str(program)]
    for number, each in enumerate(asked):
        if is_rust(program.name):
            # its expressions know neither tuples nor arguments of types; 0 is what is only declared
            words += ["-ex", f'python print("\\n={number}:%d" % gdb.lookup_type({each!r}).sizeof)']
        else:
            quoted = f"'{each}'" if "(anonymous" in each else each
            words += ["-ex", f"echo \\n={number}:", "-ex", f"output sizeof({quoted})"]
    said = ""
    if asked:
        said = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False).stdout
    return {asked[int(number)]: int(size) for number, size in re.findall(r"^=(\d+):([1-9]\d*)$", said, re.MULTILINE)}


def is_rust(name: str) -> bool:
    return ".rs." in name or ".rs:" in name


class Comparison(NamedTuple):
    typed: float
    """Shares of what has a truth, leaks among it: blocks that are rightly named by their type."""
    typed_bytes: float
    typed_bytes_without_leaks: float
    by_field: float
    """Blocks that are rightly named by the member that holds them, and not by their type."""
    wrong: Sequence[str]


def compare(
    answers: Mapping[int, Optional[str]], expected: Mapping[int, Expected], sizes: Mapping[str, int]
) -> Comparison:
    """`answers` are names that debug information gave, by the block's address: none for what is not named by that.
    `sizes` of types, as `sizes_of` has them."""
    known = {address: each for address, each in expected.items() if each.type and not each.foreign}
    verdicts = {
        address: judge(answers[address], each, sizes.get(each.type.split(OR)[0]))
        for address, each in known.items()
        if answers.get(address)
    }
    by_type = [known[address] for address, verdict in verdicts.items() if verdict == "type"]
    wrong = [
        f"{address:#x}: {answers[address]}, not {described(each)} ({each.size} bytes of {each.site})"
        for address, each in known.items()
        if verdicts.get(address) == "wrong"
    ]
    kept, kept_by_type = ([each for each in blocks if not each.leak] for blocks in (known.values(), by_type))
    return Comparison(
        len(by_type) / max(len(known), 1),
        bytes_of(by_type) / max(bytes_of(known.values()), 1),
        bytes_of(kept_by_type) / max(bytes_of(kept), 1),
        list(verdicts.values()).count("field") / max(len(known), 1),
        wrong,
    )


def bytes_of(blocks: Iterable[Expected]) -> int:
    return sum(each.size for each in blocks)


def described(expected: Expected) -> str:
    return f"{expected.type}{'[]' * expected.array}" + (f" of {expected.container}" if expected.container else "")


def judge(name: str, expected: Expected, size: Optional[int]) -> str:
    """ "type": what it is; "field": which member points to it, but not what it is; else "wrong"."""
    kinds = expected.type.split(OR)
    verdicts = {judged_by_one(name, expected._replace(type=each), size) for each in kinds}
    return next((each for each in ("type", "field") if each in verdicts), "wrong")


def judged_by_one(name: str, expected: Expected, size: Optional[int]) -> str:
    spelled = rust if is_rust(expected.site) else canonical
    names = {spelled(each) for each in names_of(expected, size)}
    some = re.fullmatch(r"one of (.+)", name)
    if some:
        right = spelled(expected.type) in {spelled(each) for each in (some[1], *re.split(r", | or ", some[1]))}
        return "type" if right else "wrong"
    either = re.fullmatch(r"(\w+(?: or \w+)+)", name)
    if either:
        return "field" if expected.type.removeprefix("struct ") in either[1].split(" or ") else "wrong"
    tailed = re.fullmatch(r"(.+) and a tail", name)
    if tailed:
        right = spelled(tailed[1]) in {spelled(each) for each in (expected.type, *expected.bases)}
        return "type" if right else "wrong"
    pointed = re.fullmatch(r"void at (?:\*(?:const|mut) )?(.+)\.(?:pointer|data_ptr)", name)
    if pointed and is_rust(expected.site):
        # Rust's library points at bytes, whatever there is
        return "field" if rust(pointed[1]) in ("NonNull<u8>", spelled(expected.type)) else "wrong"
    held = re.fullmatch(r"(.+?) (?:of|at) ([\w.$:]+)", name)
    if held:
        if held[2] not in expected.fields:
            return "wrong"
        return "type" if spelled(held[1]) in names else "field" if held[1] in UNTYPED else "wrong"
    if expected.container == FUNCTION and re.fullmatch(r"std::function<.*> body", name):
        # no caller told what its arguments are
        return "type"
    kind = canonical(expected.type)
    map_of = (
        template(canonical(name.removesuffix(" map"))) if name.endswith(" map") and not expected.container else None
    )
    if map_of is not None and map_of.head == "std::deque" and expected.array and kind == f"{map_of.arguments[0]}*":
        # no caller told whose
        return "type"
    buckets = kind == BUCKETS and re.fullmatch(r"std::(?:__1::)?unordered_\w+<.*> buckets", name)
    if buckets and not expected.container:
        # no caller told whose
        return "type"
    owning = template(canonical(name)) if expected.type.startswith(OWNING) else None
    if owning is not None and owning.head == OWNING:
        # what frees it has no name outside of its class
        return "type" if canonical(f"{OWNING}<{owning.arguments[0]}>") == canonical(expected.type) else "wrong"
    counted = re.fullmatch(r"(.+)\[(\d+)\]", name)
    if counted and expected.array and size and spelled(counted[1]) == spelled(expected.type):
        # of a body only some may be in use
        most, number = expected.size // size, int(counted[2])
        return "type" if number == most or (expected.container and number < most) else "wrong"
    return "type" if spelled(name) in names else "wrong"


def names_of(expected: Expected, size: Optional[int]) -> Iterator[str]:
    """All names that are true of it and complete, in any spelling."""
    if is_rust(expected.site):
        yield from names_in_rust(expected)
        return
    kind = canonical(expected.type)
    node = template(kind)
    # GDB calls a class of a function's own by its last name
    # what is pointed at is told without its qualifiers
    plain = re.sub(r"^const (.*\*)$", r"\1", kind)
    for each in (kind, kind.partition("main::")[2]) if kind.startswith("main::") else dict.fromkeys((kind, plain)):
        if not expected.array or expected.size == size:
            yield each
        if expected.array:
            yield f"{each}[]"
    if expected.container.startswith(FUNCTION):
        yield f"{FUNCTION} body"
        yield f"{expected.container} body"
    elif node is None or node.head not in LINKED:
        if expected.container:
            of = canonical(expected.container)
            parts = ("body", "buffer")
            if kind == BUCKETS:
                parts = ("buckets",)
            elif of == f"std::deque<{kind[:-1]}>":
                parts = ("map", "body")
            yield from (f"{of} {part}" for part in parts)
        if node is not None and node.head.startswith(("std::_Sp_counted", "std::__shared_ptr")):
            yield f"std::shared_ptr<{node.arguments[0].rstrip('*')}> control block"
    elif expected.container:
        yield f"{canonical(expected.container)} node"
    else:
        yield from containers_nodes(node)


def names_in_rust(expected: Expected) -> Iterator[str]:
    if expected.type != TABLE:
        yield expected.type + "[]" * expected.array
    if expected.container:
        parts = ("table", "body") if expected.type == TABLE else ("body", "buffer") if expected.array else ("node",)
        yield from (f"{expected.container} {part}" for part in parts)


def containers_nodes(node: Template) -> Iterator[str]:
    """By each container that has such nodes."""
    value = canonical(node.arguments[0])
    pair = template(value)
    for each in LINKED[node.head]:
        if each not in KEYED:
            yield f"std::{each}<{value}> node"
        elif pair is not None and pair.head == "std::pair":
            key = pair.arguments[0]
            key = key[len("const ") :] if key.startswith("const ") else key[: -len(" const")]
            yield f"std::{each}<{key},{pair.arguments[1]}> node"
