"""Words, tables, JSON and pages: all that turns figures into what people and scripts read.

`screens/` has text that several commands show, `shared_text/` what all of them share, `pages/` what browsers show,
`json_documents/` JSON, what each key of a document means, and the files of snapshots. Nothing here reads memory.
"""
