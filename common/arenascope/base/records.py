"""NamedTuple for our records: to a type checker it is typing's, at run time collections.namedtuple() makes each.

typing's own compiles every annotation, which nobody here uses, and takes twice the time: a look makes some hundred
records before it has read a byte, and is a new program each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            # in this order, as every file that makes records begins with `from __future__ import annotations`
            fields = tuple(space.get("__annotations__", ()))
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            return type(name, (made,), {**space, "__slots__": ()})

    class NamedTuple(metaclass=_Maker):
        pass
