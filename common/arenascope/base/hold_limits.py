"""For how long a process may be held."""

HOLD = 20.0
"""Seconds for which a process is held where nobody said: whoever asks it three times, 10 s apart, hears the third
answer. The free lists of a heap of 50 GB take a quarter of it."""
HOLD_AT_MOST = 120.0
"""And for a call (trim --apply), which is not broken off by half. Nobody may ask for more."""
