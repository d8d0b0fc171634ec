"""What each document says: every key's meaning and type, in one place, from which docs/schema/ is made.

`make docs` and the tests load these; a command needs only `kept.py`, which says what a snapshot keeps.
"""
