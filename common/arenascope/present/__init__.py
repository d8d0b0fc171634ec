"""Words, tables, JSON and pages: all that turns figures into what people and scripts read.

`screens/` has the text of single commands, `shared_text/` what all of them share, `pages/` what browsers show,
`json_documents/` JSON and what each key of a document means. Nothing here reads memory.
"""
