"""The parts that commands are made of.

`command` has the decorator, the context of a command, and the door that it answers to.
"""
