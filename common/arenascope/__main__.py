"""The program: bin/arenascope, the console script, the zipapp, and python -m arenascope."""

import gc
import os
import sys

from .base.about import INTERRUPTED, STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    # while the working directory is on the path, import nothing that Python has not loaded by itself
    from typing import NoReturn


def run() -> "NoReturn":
    """Starts and ends faster than plain Python would: each look at a heap is a new program."""
    try:
        _go_first()
        sys.unraisablehook = _heard_again
        _leave_out_other_folders()
        # what importing creates stays: there is nothing to collect
        gc.disable()
        from .cli.main import main

        status = main(loaded=_all_is_loaded)
    except KeyboardInterrupt:
        # while it was loaded, or a second one while main() made an end of the first
        sys.stderr.write(STOPPED)
        status = INTERRUPTED
    # all is written; destroying every object would cost a tenth of the start
    os._exit(status)


def _heard_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C while Python destroyed an object, which it only tells: once it is done with that, it is pressed again."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    from signal import SIGINT, pthread_kill
    from threading import Timer, main_thread

    again = Timer(0.02, pthread_kill, (main_thread().ident, SIGINT))
    again.daemon = True
    again.start()


def _go_first() -> None:
    """Where memory runs out it is this program that the kernel ends, and not what it looks at."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def _all_is_loaded() -> None:
    gc.freeze()
    gc.enable()


def _leave_out_other_folders() -> None:
    """`python -m` puts the working directory first, PYTHONPATH whatever it names: an argparse.py there would be run,
    perhaps by root."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    standard = os.path.dirname(os.__file__)
    named = {_real(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each}
    others = {_real("."), *named}
    # after the standard library come this Python's own folders, one of which may be among those
    ahead = sys.path.index(standard) if standard in sys.path else len(sys.path)
    # unless PYTHONPATH names the standard library as well: more of it may follow
    behind = [place for place in sys.path[ahead:] if _is_own(place) or _real(place) not in named]
    sys.path[:] = [place for place in sys.path[:ahead] if place == ours or _real(place) not in others] + behind


def _is_own(place: str) -> bool:
    """Below where the Python that runs is installed."""
    return any(place.startswith(os.path.join(prefix, "")) for prefix in (sys.prefix, sys.base_prefix))


def _real(place: str) -> str:
    try:
        return os.path.realpath(place)
    except OSError:
        # the working directory was removed: nothing can lie in it
        return place


if __name__ == "__main__":
    run()
