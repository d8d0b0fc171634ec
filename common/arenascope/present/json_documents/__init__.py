"""The meaning and type of each key of each document, from which docs/schema/arenascope.json is made.

Each answer is a typed record (`record.py`, and the files named `..._records`): its fields are both its JSON and its
schema. A command needs only its record; `make docs` and the tests load the rest.
"""
