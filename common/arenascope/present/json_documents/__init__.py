"""What JSON is made of: typed records (`record.py`), whose fields are both JSON and its schema, and snapshot files.

A record stands in the file that makes it, mostly a command's; `shared_records.py` has those that several commands make.
`cli/json_schemas.py` makes docs/schema/arenascope.json from all.
"""
