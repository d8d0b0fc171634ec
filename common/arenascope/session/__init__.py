"""One image of a process at one moment, and what several commands read from it.

A Session reads each part once, when it is first asked for: arenas, heaps, bins, caches, blocks served by mmap. The
other files have figures that need more than one part: what is in use, what is resident, what a trim would do, and the
problems that a reader must know.
"""
