"""trim --apply in the shell on aarch64 under a kernel of its own, by the same tests as here: registers, signals, calls.

Its processor has scalable vectors and signs return addresses.
"""

from __future__ import annotations

from typing import Mapping

import pytest
from guest import boot

CALLING, ELSEWHERE = "tests/images/test_calling.py", "tests/images/test_calling_elsewhere.py"
TESTS = (
    f"{ELSEWHERE}::test_another_release[host]",
    f"{CALLING}::test_a_thread_that_computes_is_left_as_it_was",
    f"{CALLING}::test_whoever_waits_goes_on_waiting[host]",
    f"{CALLING}::test_a_guard_that_is_killed_anywhere_leaves_it_sound[top]",
    f"{CALLING}::test_a_guard_that_is_killed_anywhere_leaves_it_sound[trim]",
    f"{CALLING}::test_a_process_that_never_stands_still[own-arenas]",
    f"{CALLING}::test_no_signal_is_lost",
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return boot(TESTS, tmp_path_factory.mktemp("guest"))


@pytest.mark.slow
@pytest.mark.timeout(3300)
@pytest.mark.xdist_group("guest")
@pytest.mark.parametrize("name", TESTS, ids=[each.rpartition("::test_")[2] for each in TESTS])
def test_in_the_guest(seen: Mapping[str, str], name: str) -> None:
    said = seen.get(name, f"it did not run:\n{seen.get('', seen)}")
    if said != "PASSED":
        pytest.fail(said[-8000:], pytrace=False)
