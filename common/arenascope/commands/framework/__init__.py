"""What a command is made of.

`command` has the decorator, the context that a command works with, and the door that it answers to. The other files are
steps that several commands take: following a process's copy, saving, redacting, making a process call something.
"""
