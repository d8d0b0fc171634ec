"""Code that every other package may use, and that imports none of them.

It has records and the model of a heap, errors, the progress bar, work in the background, and text that is safe to
print. Optional libraries are found here, too.
"""
