"""What a block is, by what it holds: a file for each language or library.

`all_recognisers.py` asks them in one order: vtables, types of CPython and GObject, links that lead back, contents, the
size. A vtable is known by RTTI: in front of it stands the address of its type_info, whose own vtable is of one of the
ABI's three classes. That needs no symbols. A block that only begins with a vtable was an object once; which sizes a
class has tells. The engine knows the forms of containers (`container_bodies.rs`), which name the bodies that they hold;
an object's pointers name what is still unknown if one object in eight has one at the same place.
"""
