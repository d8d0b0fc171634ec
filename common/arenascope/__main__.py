"""The program: python -m arenascope, and the console script."""

import gc
import os
from typing import NoReturn


def run() -> NoReturn:
    """Starts and ends sooner than Python by itself would: each look at a heap is a new program."""
    # what loading makes stays: there is nothing in it to be collected
    gc.disable()
    from .cli import main

    gc.freeze()
    gc.enable()
    status = main()
    # all is written; taking every object apart would cost a tenth of the start
    os._exit(status)


if __name__ == "__main__":
    run()
