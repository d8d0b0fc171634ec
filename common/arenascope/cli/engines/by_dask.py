"""Runs looks on dask.distributed: on an existing cluster, or on this machine's processors."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any, Iterator, Optional, Sequence

from ...analysis.diff import Document
from ..several_subjects import document
from .starting import starting
from .worker import ERRORS, TRIES, Task, engine_errors, lost

PATIENCE = "20s"
"""How long to wait for a scheduler."""


class Dask:
    def __init__(self, client: Any) -> None:
        self._client = client

    def results(self, task: Task, cores: Sequence[str]) -> Iterator[Document]:
        """The documents of the cores, as they become ready. If a worker dies, its core is tried again."""
        distributed: Any = import_module("distributed")
        with engine_errors("Dask takes no work"):
            # not pure: tomorrow the path may be another core
            futures = {
                self._client.submit(document, core, task.command, task.program, pure=False, retries=TRIES): core
                for core in cores
            }
            ready = distributed.as_completed(list(futures))
        while futures:
            with engine_errors("Dask lost its scheduler"):
                future = next(ready)
                error = future.exception()
                core = futures.pop(future)
                result: Document = future.result() if error is None else lost(core, task.command, error)
                future.release()
            yield result


@contextmanager
def open(address: Optional[str], workers: Optional[int]) -> Iterator[Dask]:
    with ExitStack() as opened:
        with starting("Dask", address):
            dask: Any = import_module("dask")
            distributed: Any = import_module("distributed")
            # silence the library: we report errors in one line
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
            opened.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": TRIES}))
            if address is not None:
                with engine_errors(f"no Dask scheduler answers at {address}"):
                    client = distributed.Client(address, timeout=PATIENCE)
            else:
                # one thread per worker; no port is open beyond this machine
                here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
                with engine_errors("Dask cannot start workers here"):
                    cluster = distributed.LocalCluster(workers, 1, silence_logs=logging.CRITICAL, **here)
                    opened.enter_context(_closed(cluster))
                    client = distributed.Client(cluster, timeout=PATIENCE)
            opened.enter_context(_closed(client))
        yield Dask(client)


@contextmanager
def _closed(opened: Any) -> Iterator[Any]:
    """Closes the object at the end. An error in closing must not hide the result or an earlier error."""
    try:
        yield opened
    finally:
        with suppress(*ERRORS):
            opened.close()
