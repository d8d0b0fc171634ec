"""Types for the shell, which has no debugger: a GDB without a process reads the program's files.

It runs in a process of its own, so that malformed files can end only that, and no more than names are lost. It is
started by the first question, in an environment of its own: without the user's settings, scripts beside the files, and
the network.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence, get_args

from ..base.errors import ArenascopeError, MemoryReadError
from .core.core_image import CoreImage
from .core.save_image import ElfForm, head, head_bytes, load_segment, note_bytes, note_segment, prstatus
from .debug_info_types import (
    BitField,
    Form,
    Local,
    SizedStruct,
    StructField,
    TemplateArgument,
    ThreadLocal,
    TypedVariable,
    TypeFacts,
)
from .debugged_variables import THREADS
from .elf.elf_file import INFORMATION, NT_PRSTATUS, OWN, PF_R, PF_W, Note, Segment, module_build_id, proven_files
from .module_files import Files, ModuleFile
from .target import Region, Span, joined

if TYPE_CHECKING:
    from .gdb_child import GdbChild
    from .shell_target import ShellTarget

MOST_OF_ONE, MOST_OF_ALL = 8 << 20, 64 << 20
"""The most bytes of one stack and of all. What lies above is lost; frames are unwound from the innermost on."""
RED_ZONE = 128
"""A leaf function may use this much below the stack pointer."""
BLOCK = 1 << 20


def write_stacks(file: int, core: CoreImage, most: int) -> bool:
    """Writes the stacks of the first threads; False if there are none."""
    threads = core.register_sets()[:most]
    spans = _used(core, {each.tid for each in threads})
    if not spans:
        return False
    form, page = ElfForm(core.machine, core.pointer_size, core.elf.mark), core.page_size
    notes = []
    for each in threads:
        # in a core a number after the registers tells whether others follow: prstatus() adds it
        plain = each._replace(general=each.general[: -core.pointer_size])
        notes.append(Note("CORE", NT_PRSTATUS, prstatus(form, plain, core.pid or 0)))
        notes += [Note(*other) for other in each.others if other.owner != OWN]
    data = note_bytes(notes, form.mark)
    notes_at = head_bytes(form, len(spans) + 1)
    at = -(-(notes_at + len(data)) // page) * page
    segments: list[Segment] = [note_segment(notes_at, len(data))]
    for span in spans:
        size = _copy(core, span, file, at)
        segments.append(load_segment(PF_R | PF_W, at, span.start, size, memory_size=size, page=page))
        at += -(-size // page) * page
    os.pwrite(file, data, notes_at)
    os.pwrite(file, head(form, segments), 0)
    return True


def _used(core: CoreImage, tids: set[int]) -> Sequence[Span]:
    regions, left = core.regions(), MOST_OF_ALL
    starts = [each.start for each in regions]
    found = []
    for thread in core.threads():
        pointer = thread.stack_pointer
        at = bisect_right(starts, pointer) - 1 if pointer is not None and thread.tid in tids else -1
        if at < 0 or pointer is None or pointer >= regions[at].end:
            continue
        start = max(regions[at].start, (pointer - RED_ZONE) // core.page_size * core.page_size)
        span = Span(start, min(regions[at].end, start + min(left, MOST_OF_ONE)))
        left -= span.end - span.start
        if span.end > span.start:
            found.append(span)
    return joined(sorted(found))


def _copy(core: CoreImage, span: Span, file: int, at: int) -> int:
    """Copies a stack up to the first missing byte, and returns how much that is."""
    room, address = memoryview(bytearray(BLOCK)), span.start
    with suppress(MemoryReadError):
        while address < span.end:
            done = core.fill(address, room[: span.end - address])
            os.pwrite(file, room[:done], at + address - span.start)
            address += done
    return address - span.start


FORMS: Sequence[Form] = get_args(Form)


def as_int(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError("this is no answer")
    return value


def as_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("this is no answer")
    return value


def as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("this is no answer")
    return value


def as_number(value: object) -> Optional[int]:
    return value if isinstance(value, int) else None


def as_facts(value: object) -> TypeFacts:
    name, form, size, target, length, *rest, tag = as_list(value)
    fields, arguments, polymorphic, signed, enumerators, language, bits = rest
    if form not in FORMS or not isinstance(enumerators, dict):
        raise ValueError("this is no answer")
    return TypeFacts(
        name=as_text(name),
        form=FORMS[FORMS.index(form)],
        size=as_int(size),
        target=as_number(target),
        length=as_number(length),
        fields=[_field(each) for each in as_list(fields)],
        arguments=[_argument(each) for each in as_list(arguments)],
        polymorphic=polymorphic is True,
        signed=signed is True,
        enumerators={as_text(each): as_int(number) for each, number in enumerators.items()},
        language=as_text(language),
        bits=[_bits(each) for each in as_list(bits)],
        tag=_field(tag) if tag is not None else None,
    )


def _field(value: object) -> StructField:
    name, offset, type, is_base = as_list(value)
    return StructField(as_text(name), as_int(offset), as_int(type), is_base is True)


def _bits(value: object) -> BitField:
    name, offset, size, signed = as_list(value)
    return BitField(as_text(name), as_int(offset), as_int(size), signed is True)


def _argument(value: object) -> TemplateArgument:
    type, number = as_list(value)
    return TemplateArgument(as_number(type), as_number(number))


DEFAULT_BYTES = 64 << 20
"""The default limit of bytes read. For each MiB, GDB 13 takes 15 ms and 1.5 MiB; 10 MiB if everything is examined."""
DEBUG = (".debug_", ".zdebug_")
NOTHING, NO_TYPE = TypeFacts("", "other", 0), -1


class _Variable(NamedTuple):
    """A variable and its size."""

    variable: TypedVariable
    size: int


class _Question(NamedTuple):
    kind: str
    about: object
    answer: object


class TypesByGdb:
    """The types of a core or a process, from files that are proven to be its modules'."""

    def __init__(self, target: ShellTarget, most: Optional[int] = DEFAULT_BYTES) -> None:
        """`most`: with more bytes of debug information it answers nothing; None: no limit."""
        self._target = target
        self._most = most
        self._gdb: Optional[GdbChild] = None
        self.is_over = False  # no GDB answers any more
        self._facts: dict[int, TypeFacts] = {}
        self._variables: dict[int, _Variable] = {}
        self._begins: list[int] = []
        """The starts of these variables, in order."""
        self._nothing: set[int] = set()
        """Addresses that lie in no variable."""
        self._answers: dict[tuple[str, object], object] = {}
        self._numbering: list[_Question] = []
        """The questions so far, in order: a second GDB that gets the same questions numbers types alike."""

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        asked = [each for each in addresses if each not in self._nothing and self._at(each) is None]
        if asked:
            with suppress(ValueError):
                self._take_variables(asked, self._ask("variables", asked))
        found = ((each, self._at(each)) for each in addresses)
        return {address: variable for address, variable in found if variable is not None}

    def _at(self, address: int) -> Optional[TypedVariable]:
        index = bisect_right(self._begins, address) - 1
        if index < 0:
            return None
        variable, size = self._variables[self._begins[index]]
        return variable if address < variable.address + size else None

    def _take_variables(self, asked: Sequence[int], answer: object) -> None:
        for row in as_list(answer or []):
            name, address, type, size = as_list(row)
            variable = TypedVariable(as_text(name), as_int(address), as_int(type))
            self._variables[variable.address] = _Variable(variable, as_int(size))
        self._begins = sorted(self._variables)
        self._nothing.update(each for each in asked if self._at(each) is None)

    def thread_variables(self) -> Sequence[TypedVariable]:
        """Returns none: without a process nothing tells where they are."""
        return ()

    def thread_locals(self) -> Sequence[ThreadLocal]:
        found: list[ThreadLocal] = []
        with suppress(ValueError, IndexError):
            for row in as_list(self._ask("thread_locals", None) or []):
                name, module, offset, type = as_list(row)
                start = self._modules[as_int(module)].regions[0].start
                found.append(ThreadLocal(as_text(name), start, as_int(offset), as_int(type)))
        return found

    def locals(self) -> Sequence[Local]:
        return self._locals

    @cached_property
    def _locals(self) -> Sequence[Local]:
        found: list[Local] = []
        with suppress(ValueError, IndexError):
            for row in as_list(self._frames() or []):
                tid, frame, function, name, address, data, code, depth, number, length = as_list(row)
                blocks = as_list(self._ask("types_at", as_int(code)) or [])
                type = as_number(as_list(blocks[as_int(depth)])[as_int(number)])
                if type is not None and length is not None:
                    type = as_number(self._ask("array", [type, as_int(length)]))
                if type is None:
                    continue
                local = Local(as_text(name), type, as_int(tid), as_int(frame), function=as_text(function))
                value = bytes.fromhex(as_text(data)) if data is not None else None
                found.append(local._replace(address=as_number(address), data=value))
        return found

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        # it tells nothing about optimised-out variables
        return ()

    def _frames(self) -> object:
        """Asks where variables of frames are, without their types, so that no type gets a number."""
        image, found = self._target.image, None
        if not isinstance(image, CoreImage) or not self._has_gdb() or self._gdb is None:
            return None
        with suppress(OSError):
            if write_stacks(self._gdb.core.fileno(), image, THREADS):
                found = self._answer("frames", [[each.module.load, each.module.bias] for each in self._files])
        if self.is_over:
            # a stack's contents ended it: start another one with the files
            self.is_over = False
        return found

    def facts(self, type: int) -> TypeFacts:
        if type not in self._facts:
            with suppress(ValueError):
                self._take_facts(self._ask("facts", type))
        return self._facts.setdefault(type, NOTHING)

    def _take_facts(self, answer: object) -> None:
        for row in as_list(answer or []):
            number, facts = as_list(row)
            self._facts.setdefault(as_int(number), as_facts(facts))

    def by_name(self, name: str) -> Optional[int]:
        return as_number(self._ask("by_name", name))

    def classes_at(self, code: int) -> Sequence[int]:
        with suppress(ValueError):
            return [as_int(each) for each in as_list(self._ask("classes_at", code) or [])]
        return ()

    def pointer_to(self, type: int) -> int:
        number = as_number(self._ask("pointer_to", type))
        return number if number is not None else NO_TYPE

    def structs(self, of_program: bool = False) -> Iterator[SizedStruct]:
        program = next(iter(self._target.programs()), None)
        if of_program and not (program and self._modules and self._modules[0].regions[0].start == program[0].start):
            return
        with suppress(ValueError):
            for row in as_list(self._ask("structs", of_program) or []):
                type, size = as_list(row)
                yield SizedStruct(as_int(type), as_int(size))

    def without(self) -> Sequence[str]:
        known = {each.regions[0].path for each in self._modules}
        return [*{run[0].path: None for run in self._target.programs() if run[0].path not in known}]

    def _ask(self, kind: str, about: object) -> object:
        """Asks GDB; None if there is no answer, and no GDB that would give one."""
        key = kind, tuple(about) if isinstance(about, list) else about
        if key in self._answers:
            return self._answers[key]
        answer = self._answer(kind, about)
        if kind == "variables":
            rows = _without_sizes(answer)
            self._numbering.append(_Question(kind, [at for _, at, _ in rows], rows))
        elif not self.is_over:
            self._answers[key] = answer
            self._numbering.append(_Question(kind, about, answer))
        return answer

    def _has_gdb(self) -> bool:
        if self._gdb is None and not self.is_over:
            self._gdb = self._start()
            self.is_over = self._gdb is None
            self._number_again()
        return not self.is_over

    def _number_again(self) -> None:
        """Asks a second GDB what the first was asked, and ends it if its answers differ."""
        for kind, about, expected in self._numbering:
            answer = self._answer(kind, about)
            if (_without_sizes(answer) if kind == "variables" else answer) != expected:
                self.end()
                return

    def _answer(self, kind: str, about: object) -> object:
        if not self._has_gdb() or self._gdb is None:
            return None
        is_answered, answer = False, None
        try:
            answer = self._gdb.ask(kind, about)
            is_answered = True
        except (OSError, ValueError):
            pass
        finally:
            # also after Ctrl-C: a late answer would be taken for the next one
            if not is_answered:
                self.end()
        return answer

    def _start(self) -> Optional[GdbChild]:
        from .gdb_child import start  # needed by few commands

        if not self.has_files:
            return None
        return start(self._target.debug_folders, self.files, sum(each.size for each in self._found))

    def end(self) -> None:
        """Ends GDB; nothing is answered from then on."""
        self.is_over = True
        if self._gdb is not None:
            self._gdb.end()
            self._gdb = None

    @property
    def has_files(self) -> bool:
        return bool(self._found) and not self.unread

    @property
    def unread(self) -> int:
        """Returns the bytes of debug information if there is too much to be read unasked; 0: it is read."""
        size = sum(each.size for each in self._found)
        return size if self._most is not None and size > self._most else 0

    @property
    def _modules(self) -> Sequence[ModuleFile]:
        return [each.module for each in self._found]

    @property
    def files(self) -> Files:
        """Returns the files. With --sysroot, or if one of them is another user's, links to debug information in other
        files are not followed."""
        paths = {path: None for each in self._files for path in (each.module.symbols, each.module.load)}
        is_trusted = self._target.sysroot is None and all(map(_is_own, paths))
        return Files(self._modules, None if is_trusted else [*paths])

    @cached_property
    def _found(self) -> Sequence[_Found]:
        """Returns the modules whose files have debug information."""
        return [each for each in self._files if each.size]

    @cached_property
    def _files(self) -> Sequence[_Found]:
        """Returns the modules with files. Without a build-id nothing proves that a file is a module's."""
        found: list[_Found] = []
        for run in self._target.programs():
            build_id = module_build_id(self._target.read, run[0].start)
            files = self._target.symbol_files(run[0], build_id) if build_id is not None else ()
            each = _find(run, files, build_id or "", is_program=not found) if files else None
            if each is not None:
                found.append(each)
        return found


def _without_sizes(variables: object) -> list[list[object]]:
    """Drops sizes: a variable's extent depends on what was asked, if an array ends it."""
    return [as_list(row)[:3] for row in as_list(variables or [])]


def _is_own(path: str) -> bool:
    """Tells whether it is the user's or root's."""
    try:
        return os.stat(path).st_uid in (0, os.geteuid())
    except OSError:
        return False


class _Found(NamedTuple):
    """A module, and how much debug information it has."""

    module: ModuleFile
    size: int


def _find(run: Sequence[Region], paths: Sequence[str], build_id: str, is_program: bool) -> Optional[_Found]:
    found: list[tuple[str, int, int]] = []
    for file in proven_files(paths, build_id):
        with suppress(ArenascopeError, struct.error):
            sizes = {each.name: each.size for each in file.sections if each.name.startswith(DEBUG)}
            size = sum(sizes.values()) if sizes.keys() & {*INFORMATION} else 0
            found.append((file.name, size, run[0].start - file.first_address))
    if not found or any("\n" in path for path, _, _ in found):
        return None
    # its own file leads GDB to the separate one; where that alone is here it does as well
    load, _, bias = found[-1]
    regions = [each._replace(path=run[0].path) if each.path else each for each in run]
    module = ModuleFile(
        build_id=build_id,
        bias=bias,
        is_program=is_program,
        symbols=os.path.abspath(found[0][0]),
        load=os.path.abspath(load),
        regions=regions,
    )
    return _Found(module, max(size for _, size, _ in found))
