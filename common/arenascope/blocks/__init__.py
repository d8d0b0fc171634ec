"""What a block is, and who holds it.

`recognise/` names a block by its own words; the files here sweep the heaps and add what only a holder tells. `graph/`
finds every pointer from the roots to blocks, and from it owners, paths and leaks.
"""
