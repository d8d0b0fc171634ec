"""Pure functions over the model: no memory, no target, no text.

`trim_prediction.py` counts what arenas hold and plans what malloc_trim would do,
`resident_parts.py` splits RSS into parts that sum to it.
`causes.py` and `advice.py` conclude from these figures; each advice is taken and measured in a test.
"""
