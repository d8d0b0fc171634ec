"""The ELF format, and what memory shows of it."""
