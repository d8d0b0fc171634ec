"""Pure functions over the model: no memory, no target, no text.

`usage.py` counts arenas, `report.py` splits RSS into parts that sum to it, `trim.py` plans what
malloc_trim would do. `causes.py` and `advice.py` conclude from these figures; each advice is taken and measured in a
test.
"""
