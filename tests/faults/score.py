"""Prints what each command says of the fault of each service in fixtures/faults, as a table.

    .venv/bin/python tests/faults/score.py [SERVICE ...]

n: it names the container or the type at fault; b: with its bytes, within 5 %; r: with the reason. Of a service without
a fault: how many rows accuse it of more than 5 % of its memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common"), *(str(ROOT / "tests" / each) for each in ("debuggers", "unit"))]

from fault_services import COMMANDS, Service, accused, asked, builds, sources, told, wanting  # noqa: E402


def main() -> None:
    print(f"{'service':12}{'reason':17}{'MB':>7}  " + "".join(f"{each:12}" for each in COMMANDS))
    for name in sys.argv[1:] or sources():
        if wanting(name):
            print(f"{name:12}{wanting(name)} is not installed")
            continue
        with Service(name, builds(name)[-1]) as service:
            truth, cells = service.truth, []
            for command in COMMANDS:
                document = asked(service.pid, command)
                if truth.reason is None:
                    rows = accused(document, service.sums().used)
                    cells.append(f"{len(rows)} accused" if rows else "-")
                else:
                    cells.append(told(document, truth).mark)
            print(
                f"{name:12}{truth.reason or 'none':17}{truth.bytes / 1e6:7.1f}  "
                + "".join(f"{each:12}" for each in cells)
            )


if __name__ == "__main__":
    main()
