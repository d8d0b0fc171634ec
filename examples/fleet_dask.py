#!/usr/bin/env python3
"""The report over many cores on a Dask cluster, gathered into one Parquet file.

    python examples/fleet_dask.py reports.parquet /cores/core.* [--scheduler tcp://scheduler:8786]

Every worker must see the cores under the same names and have arenascope installed (pip install 'arenascope[fleet]').
Without --scheduler a cluster of this machine's processors is started. Cores that cannot be read become rows too: their
`error` says why.
"""

from __future__ import annotations

import argparse
import sys

import pyarrow
import pyarrow.parquet
from distributed import Client, LocalCluster, as_completed

from arenascope.fleet import document, row


def look(path: str) -> dict:
    return row(document(path))


def gather(client: Client, cores: list[str]) -> pyarrow.Table:
    """A row for each core, in the order in which they were named."""
    # pure=False: the same path can hold another core tomorrow
    futures = client.map(look, cores, pure=False, retries=1)
    place = {future.key: index for index, future in enumerate(futures)}
    rows: list[dict] = [{} for _ in futures]
    for done, future in enumerate(as_completed(futures), 1):
        rows[place[future.key]] = future.result()
        print(f"\r{done} of {len(cores)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return pyarrow.Table.from_pylist(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", metavar="PARQUET")
    parser.add_argument("cores", metavar="CORE", nargs="+")
    parser.add_argument("--scheduler", help="address of a Dask scheduler")
    options = parser.parse_args()
    if options.scheduler:
        client = Client(options.scheduler)
    else:
        # a report is one thread's work; nothing listens beyond this machine
        client = Client(LocalCluster(threads_per_worker=1, host="127.0.0.1", dashboard_address=None))
    with client:
        table = gather(client, options.cores)
    pyarrow.parquet.write_table(table, options.output)
    failed = sum(error is not None for error in table.column("error").to_pylist())
    print(f"{options.output}: {table.num_rows} reports, {failed} of them could not be made")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
