"""NamedTuple for our records: to a type checker it is typing's, at run time it takes a tenth of the time to create.

A look makes some hundred records before it has read a byte, and is a new program each time. typing's compiles each
annotation, which nobody here uses, and collections.namedtuple() every constructor: those of as many fields share the
code here, and what else it makes for each is here once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from types import FunctionType

    try:
        from _collections import _tuplegetter
    except ImportError:  # a Python whose namedtuple() does without
        from operator import itemgetter

        def _tuplegetter(index, doc):
            return property(itemgetter(index), doc=doc)

    _constructors = {}
    """By the number of fields: the code of one, with other names."""
    _globals = {"_new": tuple.__new__, "__builtins__": {}}

    class _Record(tuple):
        __slots__ = ()
        _fields = ()

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changed):
            made = self._make(map(changed.pop, self._fields, self))
            if changed:
                raise ValueError(f"Got unexpected field names: {list(changed)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(map('{}={!r}'.format, self._fields, self))})"

        def __getnewargs__(self):
            return tuple(self)

    def _constructor(fields, defaults, owner):
        code = _constructors.get(len(fields))
        if code is None:
            names = "".join(f"_{index}, " for index in range(len(fields)))
            code = _constructors[len(fields)] = eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__
        code = code.replace(co_varnames=("_cls", *fields), co_name="__new__")
        made = FunctionType(code, _globals, "__new__", defaults)
        made.__qualname__ = f"{owner}.__new__"
        return made

    class _Maker(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            # strings, as every file that makes records begins with `from __future__ import annotations`
            fields = tuple(space.get("__annotations__", ()))
            given = {field: space.pop(field) for field in fields if field in space}
            space["__new__"] = _constructor(fields, tuple(given.values()), name)
            space.update((field, _tuplegetter(index, None)) for index, field in enumerate(fields))
            space.update(__slots__=(), _fields=fields, _field_defaults=given, __match_args__=fields)
            return type(name, (_Record,), space)

    class NamedTuple(metaclass=_Maker):
        pass
