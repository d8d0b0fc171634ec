"""What each document says: every key's meaning and type, in one place, from which docs/schema/ is made.

Each answer is a typed record (`record.py`, and the files named `..._records`): its fields are both its JSON and its
schema. A command needs only its record, and `snapshot_keys.py`, which says what a snapshot keeps; `make docs` and the
tests load the rest.
"""
