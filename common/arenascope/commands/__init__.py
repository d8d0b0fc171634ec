"""The commands, a file each and nothing else: each is found by being here."""
