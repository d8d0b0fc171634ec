"""dask.distributed: a cluster that there is, or one of this machine's processors."""

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
"""For a scheduler to answer."""


class Dask:
    def __init__(self, client: Any) -> None:
        self._client = client

    def results(self, task: Task, cores: Sequence[str]) -> Iterator[Document]:
        """The documents of the cores as they are ready. A core is looked at again where its worker died."""
        distributed: Any = import_module("distributed")
        with engine_errors("Dask takes no work"):
            # the same path can hold another core tomorrow
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
            # what it is to be told of is an error of ours, in one line
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
            opened.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": TRIES}))
            if address is not None:
                with engine_errors(f"no Dask scheduler answers at {address}"):
                    client = distributed.Client(address, timeout=PATIENCE)
            else:
                # a look is one thread's work; nothing listens beyond this machine
                here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
                with engine_errors("Dask cannot start workers here"):
                    cluster = distributed.LocalCluster(workers, 1, silence_logs=logging.CRITICAL, **here)
                    opened.enter_context(_closed(cluster))
                    client = distributed.Client(cluster, timeout=PATIENCE)
            opened.enter_context(_closed(client))
        yield Dask(client)


@contextmanager
def _closed(opened: Any) -> Iterator[Any]:
    """Closes it at the end; what goes wrong then hides neither the result nor why there is none."""
    try:
        yield opened
    finally:
        with suppress(*ERRORS):
            opened.close()
