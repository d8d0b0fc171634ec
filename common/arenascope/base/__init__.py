"""What every other package may use, and what imports none of them.

Records and the model of a heap, errors, the meter that counts long work, worker pools, and text that is safe to print.
Optional libraries are found here, too.
"""
