"""NamedTuple for our records: to a type checker it is typing's, at run time it takes a third of the time to create.

typing's compiles each annotation, which nobody here uses. A look makes some hundred records before it has read a
byte, and is a new program each time.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            # strings, as every file that makes records begins with `from __future__ import annotations`
            fields = space.pop("__annotations__", {})
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space.pop("__module__"))
            made.__annotations__ = fields
            for key, value in space.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        pass
