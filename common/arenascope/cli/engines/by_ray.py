"""Ray: a cluster that there is, or one of this machine's processors."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

from .engine_errors import engine_errors
from .starting import starting
from .which_cores import Core
from .worker import TRIES, Result, Task, look_at, lost

PATIENCE = 20.0
"""Seconds for a cluster to answer."""
AHEAD = 4
"""So many looks for each processor are asked for at a time: a hundred thousand would only wait."""


class Ray:
    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def results(self, task: Task, cores: Sequence[Core]) -> Iterator[tuple[Core, Result]]:
        """As they are ready. A core is looked at again where its worker died."""
        ray = self._ray
        with engine_errors("Ray takes no work"):
            remote = ray.remote(num_cpus=1, max_retries=TRIES)(look_at)
            limit = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        asked: dict[Any, Core] = {}
        left = iter(cores)
        while True:
            with engine_errors("Ray lost its cluster"):
                for core in left:
                    asked[remote.remote(task, core)] = core
                    if len(asked) >= limit:
                        break
                ready = ray.wait(list(asked), num_returns=1)[0] if asked else []
                results = [(asked.pop(reference), self._result(reference)) for reference in ready]
            if not results:
                return
            yield from results

    def _result(self, reference: Any) -> Result:
        try:
            result: Result = self._ray.get(reference)
            return result
        except self._ray.exceptions.RayError as error:
            return lost(error)


@contextmanager
def open(address: Optional[str], workers: Optional[int]) -> Iterator[Ray]:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # its C++ part writes to our standard error what Python is told as well, and more where a terminal ends its workers
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        # nothing listens beyond this machine; a checkout's package is where its workers do not look by themselves
        environment = {"env_vars": {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}}
        how.update(num_cpus=workers, include_dashboard=False, _node_ip_address="127.0.0.1", runtime_env=environment)
    with starting("Ray", address), engine_errors(f"no Ray cluster answers at {address or 'this machine'}"):
        ray: Any = import_module("ray")
        _check_answers(address or "")
        ray.init(address=address, **how)
    try:
        yield Ray(ray)
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """OSError where nobody does: Ray itself would wait for ever."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
