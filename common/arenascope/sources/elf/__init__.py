"""The ELF format, in files and in memory."""
