"""The program: bin/arenascope, the console script, the zipapp, and python -m arenascope."""

import gc
import os
import sys

from . import INTERRUPTED, STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    # while the working directory is on the path, import nothing that Python has not loaded by itself
    from typing import NoReturn


def run() -> "NoReturn":
    """Starts and ends faster than plain Python would: each look at a heap is a new program."""
    try:
        _leave_out_the_working_directory()
        # what importing creates stays: there is nothing to collect
        gc.disable()
        from .cli import main

        status = main(loaded=_all_is_loaded)
    except KeyboardInterrupt:
        # while it was loaded, or a second one while main() made an end of the first
        sys.stderr.write(STOPPED)
        status = INTERRUPTED
    # all is written; destroying every object would cost a tenth of the start
    os._exit(status)


def _all_is_loaded() -> None:
    gc.freeze()
    gc.enable()


def _leave_out_the_working_directory() -> None:
    """`python -m` puts it first, an empty word in PYTHONPATH too: its argparse.py would be run, perhaps by root."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    standard = os.path.dirname(os.__file__)
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        # it was removed: nothing can lie in it
        return
    # after the standard library come this Python's own folders, one of which may be the working directory
    ahead = sys.path.index(standard) if standard in sys.path else len(sys.path)
    sys.path[:ahead] = [place for place in sys.path[:ahead] if place == ours or os.path.realpath(place) != here]


if __name__ == "__main__":
    run()
