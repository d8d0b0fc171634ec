"""Who points to whom: roots, live blocks, and what follows from their pointers.

`blocks.py` has the engine sweep the heaps into the table of live blocks, `roots.py` has what a program reaches them
from, `pointers_to.py` their pointers to blocks. `stale_words.py` is the table of words that hold no pointers,
`stale_rows.py` fills it. `edges.py` has the engine make the graph: the blocks that each block leads to, with a bit
for pointers to the inside. What follows from it the engine finds as well: what is reached (`unreached.py`), what hangs
together, who holds what (`main_holders.py`, with the pointers that owners have from `leads.py`, and those that are
borrowed from `borrowed_pointers.py`), what would leave memory with it (`returns.py`).
`pointer_strength.py` judges a pointer to the inside; encoded pointers are looked for where no plain one leads.

`holders.py` tells other commands, the page and pprof. `asked_address.py` reads only the blocks that point to the one
asked for.
"""
