"""Pure functions over the model: no memory, no target, no text.

`arena_usage.py` counts what arenas hold, `trim_prediction.py` plans what malloc_trim would do,
`resident_parts.py` splits RSS into parts that sum to it, `held_sums.py` has who holds it.
`causes.py` and `advice.py` conclude from these figures; each advice is taken and measured in a test.
"""
