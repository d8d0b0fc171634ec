"""What blocks are by the program's own debug information, from typed variables on.

The tracer follows the pointers of typed variables, locals and containers to blocks, and makes a claim about each: this
block is a `Session`, for the member `table.buckets[3]` of that one leads to it. A layout is a type flattened into the
slots that can lead to blocks. Each standard library's containers have a file: a container proves itself by its own
words, and claims its nodes and bodies. No file here knows a debugger: types come from a TypeSource
(`sources/debug_info_types.py`), memory from a Reader.
"""
