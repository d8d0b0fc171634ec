"""Types for the shell, which has no debugger: a GDB without a process reads the program's files.

It runs in a process of its own, which files that lie may end, and with it no more than the names. It is started by the
first question, in an environment of its own: without the user's settings, scripts beside the files, and the network.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Iterator, Mapping, Optional, Protocol, Sequence, get_args

from ..base.errors import ArenascopeError
from ..base.records import NamedTuple
from .debug_info_types import Argument, Field, Form, Local, TypedVariable, TypeFacts
from .elf.elf_file import module_build_id, proven_files
from .memory import Read
from .module_files import ModuleFile, as_line
from .target import Region

if TYPE_CHECKING:
    from .gdb_child import GdbChild

UNASKED = 256 << 20
"""Bytes of debug information that are read without being asked to. GDB takes a second for each 100 MiB."""
DEBUG, INFORMATION = (".debug_", ".zdebug_"), {".debug_info", ".zdebug_info"}
FORMS: Sequence[Form] = get_args(Form)
NOTHING, NO_TYPE = TypeFacts("", "other", 0), -1


class _Image(Protocol):
    """A Target, as far as it has files."""

    debug_folders: Sequence[str]

    @property
    def read(self) -> Read: ...

    def module_runs(self) -> Sequence[Sequence[Region]]: ...

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]: ...


class TypesByGdb:
    """Of a core or a process, by the files that are proven to be its modules'."""

    def __init__(self, target: _Image, most: Optional[int] = UNASKED) -> None:
        """`most`: with more bytes of debug information it answers nothing; None: whatever there is."""
        self._target = target
        self._most = most
        self._gdb: Optional[GdbChild] = None
        self._is_tried = False
        self._facts: dict[int, TypeFacts] = {}

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        found = {}
        with suppress(ValueError):
            for row in _list(self._ask("variables", list(addresses)) or []):
                asked, name, address, type = _list(row)
                found[_int(asked)] = TypedVariable(_str(name), _int(address), _int(type))
        return found

    def thread_variables(self) -> Sequence[TypedVariable]:
        """Without a process nothing tells where they are."""
        return ()

    def locals(self) -> Sequence[Local]:
        return ()

    def facts(self, type: int) -> TypeFacts:
        if type not in self._facts:
            with suppress(ValueError):
                for row in _list(self._ask("facts", type) or []):
                    number, facts = _list(row)
                    self._facts.setdefault(_int(number), _facts(facts))
        return self._facts.setdefault(type, NOTHING)

    def by_name(self, name: str) -> Optional[int]:
        return _number(self._ask("by_name", name))

    def classes_at(self, code: int) -> Sequence[int]:
        with suppress(ValueError):
            return [_int(each) for each in _list(self._ask("classes_at", code) or [])]
        return ()

    def pointer_to(self, type: int) -> int:
        number = _number(self._ask("pointer_to", type))
        return number if number is not None else NO_TYPE

    def structs(self) -> Iterator[int]:
        with suppress(ValueError):
            yield from map(_int, _list(self._ask("structs", None) or []))

    def without(self) -> Sequence[str]:
        known = {each.regions[0].path for each in self._modules}
        return [run[0].path for run in self._target.module_runs() if run[0].path not in known]

    def _ask(self, kind: str, about: object) -> object:
        """None where there is no answer, and no GDB that would give one."""
        if not self._is_tried:
            self._is_tried = True
            self._gdb = self._start()
        if self._gdb is None:
            return None
        try:
            return self._gdb.ask(kind, about)
        except (OSError, ValueError):
            self._end()
        except BaseException:
            # Ctrl-C: an answer that nobody waits for would be taken for the next one
            self._end()
            raise
        return None

    def _start(self) -> Optional[GdbChild]:
        from .gdb_child import start  # few looks ask for types

        if not self._modules or self.is_too_large:
            return None
        return start(self._target.debug_folders, as_line(self._modules))

    def _end(self) -> None:
        if self._gdb is not None:
            self._gdb.end()
            self._gdb = None

    @property
    def is_too_large(self) -> bool:
        """Whether nobody asked for so much debug information."""
        return self._most is not None and sum(each.size for each in self._found) > self._most

    @property
    def _modules(self) -> Sequence[ModuleFile]:
        return [each.module for each in self._found]

    @cached_property
    def _found(self) -> Sequence[_Found]:
        """Modules whose files have debug information. Without a build-id nothing proves that a file is the module's."""
        found: list[_Found] = []
        for run in self._target.module_runs():
            build_id = module_build_id(self._target.read, run[0].start)
            files = self._target.symbol_files(run[0], build_id) if build_id is not None else ()
            each = _find(run, files, build_id or "", is_program=not found) if files else None
            if each is not None:
                found.append(each)
        return found


class _Found(NamedTuple):
    """A module, and how much debug information it has."""

    module: ModuleFile
    size: int


def _find(run: Sequence[Region], paths: Sequence[str], build_id: str, is_program: bool) -> Optional[_Found]:
    found: list[tuple[str, int, int]] = []
    for file in proven_files(paths, build_id):
        with suppress(ArenascopeError, struct.error):
            sizes = {each.name: each.size for each in file.sections if each.name.startswith(DEBUG)}
            size = sum(sizes.values()) if INFORMATION & set(sizes) else 0
            found.append((file.name, size, run[0].start - file.first_address))
    if not any(size for _, size, _ in found) or any("\n" in path for path, _, _ in found):
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


# what was answered is what it should be


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError("this is no answer")
    return value


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("this is no answer")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("this is no answer")
    return value


def _number(value: object) -> Optional[int]:
    return value if isinstance(value, int) else None


def _facts(value: object) -> TypeFacts:
    name, form, size, target, length, fields, arguments, polymorphic, signed, enumerators, language = _list(value)
    if form not in FORMS or not isinstance(enumerators, dict):
        raise ValueError("this is no answer")
    return TypeFacts(
        name=_str(name),
        form=FORMS[FORMS.index(form)],
        size=_int(size),
        target=_number(target),
        length=_number(length),
        fields=[_field(each) for each in _list(fields)],
        arguments=[_argument(each) for each in _list(arguments)],
        polymorphic=polymorphic is True,
        signed=signed is True,
        enumerators={_str(each): _int(number) for each, number in enumerators.items()},
        language=_str(language),
    )


def _field(value: object) -> Field:
    name, offset, type, is_base = _list(value)
    return Field(_str(name), _int(offset), _int(type), is_base is True)


def _argument(value: object) -> Argument:
    type, number = _list(value)
    return Argument(_number(type), _number(number))
