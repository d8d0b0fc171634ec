"""Words, tables, JSON and pages: all that turns figures into what people and scripts read.

`screens/` has the text of single commands, `render/` what all of them share, `documents/` what each key of a document
means. Nothing here reads memory.
"""
