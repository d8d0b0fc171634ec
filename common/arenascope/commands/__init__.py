"""The commands, one file each and nothing else: a command is found by being here."""
