"""Chunk by chunk, in the order of addresses.

The loop in `sweep.py` looks a size word up, keeps it and steps on; what the words mean is worked out afterwards from
the few distinct ones. It yields runs of chunks and gaps (heads, fenceposts, somebody else's sbrk, top,
damage), which together are every byte of a heap. Chunks of thread caches and fastbins look used: a sweep is given
their addresses. A long heap is cut where headers seem to lead on; a cut that the sweep in front of it
does not meet is none.
"""
