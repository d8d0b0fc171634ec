"""What blocks are by the program's own debug information, from typed variables on.

The engine follows the pointers of typed variables, locals and containers to blocks (`engine/src/types/tracer/`) and
gives tables: this block is a `Session`, for the member `table.buckets[3]` of that one leads to it. The files here tell
it where to begin, and read its tables: ways to blocks, containers, values. None knows a debugger: types come from a
TypeSource (`sources/type_source.py`).
"""
