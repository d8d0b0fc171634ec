"""Who points to whom: roots, live blocks, and what is found by following their pointers."""
