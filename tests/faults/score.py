"""Prints what each command says of the fault of each service in fixtures/faults, as a table.

    .venv/bin/python tests/faults/score.py [SERVICE ...] [--ask waste] [--level O1] [--mended] [--rows]

n: it names the container or the type at fault; b: with its bytes, within 5 %; r: with the reason. Of a service without
a fault: how many rows accuse it of more than 5 % of its memory.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter

from fault_services import COMMANDS, Service, accused, ask, builds, commands, report_names, sources, wanting

WORDS = ("named", "bytes", "reason")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("service", nargs="*", help="these alone")
    parser.add_argument("--ask", metavar="COMMAND,...", default=",".join(commands()), help="these commands alone")
    parser.add_argument("--level", default="O2", help="of optimisation (O2)")
    parser.add_argument("--mended", action="store_true", help="without their faults: of these none may be accused")
    parser.add_argument("--rows", action="store_true", help="print the row that says most of each fault")
    options = parser.parse_args()
    unknown = set(options.service) - set(sources())
    if unknown:
        parser.error(f"no such service: {', '.join(sorted(unknown))}")
    asked = [each for each in commands() if each in options.ask.split(",")]
    sums: dict[str, Counter[str]] = {each: Counter() for each in COMMANDS}
    services = 0
    print(f"{'service':12}{'reason':17}{'MB':>7}  " + "".join(f"{each:12}" for each in asked))
    for name in options.service or sources():
        if wanting(name):
            print(f"{name:12}{wanting(name)} is not installed")
            continue
        level = options.level if options.level in builds(name) else builds(name)[-1]
        with Service(name, level, options.mended) as service:
            truth = service.truth._replace(reason=None, bytes=0) if options.mended else service.truth
            line = f"{name:12}{truth.reason or 'none':17}{truth.bytes / 1e6:7.1f}  "
            if truth.reason is None:
                used = service.sums().used
                found = {each: accused(ask(service.pid, each), used) for each in asked}
                print(
                    line + "".join(f"{f'{len(each)} accused' if each else '-':12}" for each in found.values()),
                    flush=True,
                )
                shown = {command: each[0] if each else None for command, each in found.items()}
            else:
                services += 1
                said = report_names(service, asked)
                for command, each in said.items():
                    sums[command].update(word for word, right in zip(WORDS, each[:3]) if right)
                print(line + "".join(f"{each.mark:12}" for each in said.values()), flush=True)
                shown = {command: each.row for command, each in said.items()}
        for command, row in shown.items() if options.rows else ():
            if row:
                print(f"    {command}: {json.dumps(row)[:300]}")
    for word in WORDS:
        counts = "".join(f"{f'{sums[each][word]} of {services}':12}" for each in asked)
        print(f"{word:12}{'':26}{counts}")


if __name__ == "__main__":
    main()
