"""Who points to whom: roots, live blocks, and what follows from their pointers.

`blocks.py` has the live blocks from one sweep, `roots.py` what a program reaches them from; what bears no mark of
`blocks.py` counts. `root_pointers.py` finds pointers, with numpy or without, the same in both cases. `stale_words.py`
is the table of stale words, `stale_rows.py` fills it. `edges.py` makes the graph: the blocks that each block leads to,
with a bit for pointers to the inside. `dominators.py` finds rings and who alone holds what, `leads.py` main holders,
`owners.py` what each owner holds, `returns.py` which pages would leave memory with it. None of these reads memory,
except `pointer_strength.py`, which judges a pointer to the inside. `leaks.py` marks what is reached, and looks for
encoded pointers (`encodings.py`) to what no plain one leads to.

`holders.py` tells other commands, the page and pprof, `report_sums.py` the report.
`asked_address.py` reads only the blocks that point to the one asked for.
"""
