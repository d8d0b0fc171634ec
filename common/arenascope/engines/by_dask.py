"""dask.distributed: a cluster that there is, or one of this machine's processors."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import Any, Iterator, Optional, Sequence

from ..errors import ArenascopeError
from .cores import Core
from .work import TRIES, Result, Task, look_at, lost

PATIENCE = "20s"
"""For a scheduler to answer."""


class Dask:
    def __init__(self, client: Any) -> None:
        self._client = client

    def results(self, task: Task, cores: Sequence[Core]) -> Iterator[tuple[Core, Result]]:
        """As they are ready. A core is looked at again where its worker died."""
        distributed: Any = import_module("distributed")
        # the same path can hold another core tomorrow
        futures = {self._client.submit(look_at, task, core, pure=False, retries=TRIES): core for core in cores}
        for future in distributed.as_completed(list(futures)):
            core = futures.pop(future)
            error = future.exception()
            yield core, (lost(error) if error is not None else future.result())
            future.release()


@contextmanager
def open(address: Optional[str], workers: Optional[int]) -> Iterator[Dask]:
    dask: Any = import_module("dask")
    distributed: Any = import_module("distributed")
    with dask.config.set({"distributed.scheduler.allowed-failures": TRIES}):
        if address is not None:
            try:
                client = distributed.Client(address, timeout=PATIENCE)
            except (OSError, ValueError) as error:
                raise ArenascopeError(f"no Dask scheduler answers at {address}: {error}") from error
            with client:
                yield Dask(client)
            return
        # a look is one thread's work; nothing listens beyond this machine
        how = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
        try:
            cluster = distributed.LocalCluster(n_workers=workers, **how)
        except (OSError, RuntimeError) as error:
            raise ArenascopeError(f"Dask cannot start workers here: {error}") from error
        with cluster, distributed.Client(cluster) as client:
            yield Dask(client)
