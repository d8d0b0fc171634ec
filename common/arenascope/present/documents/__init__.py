"""What each document says: every key's meaning and type, in one place, from which docs/schema/ is made.

Nothing that a command needs: `make docs` and the tests load this, the shell never does.
"""
