"""That what a GDB has answered is what it should be: ValueError where it is not."""

from __future__ import annotations

from typing import Optional, Sequence, get_args

from .debug_info_types import BitField, Form, StructField, TemplateArgument, TypeFacts

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
