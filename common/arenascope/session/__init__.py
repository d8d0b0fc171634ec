"""One image of a process at one moment, and the data that several commands read from it.

A Session reads each part once, when it is first needed: arenas, heaps, bins, caches, mmapped blocks. The other files
compute figures that need more than one part: what is in use, what is resident, what a trim would do, and the problems
that a reader must know.
"""
