"""What a command is made of.

`command` has the decorator, the context that a command works with, and the door that it answers to. `apply_trim` has
what a door lends to change a process.
"""
