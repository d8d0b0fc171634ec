"""Runs looks on Ray: on an existing cluster, or on this machine's processors."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

from ...analysis.diff import Document
from ..several_subjects import document
from .starting import starting
from .worker import TRIES, Task, engine_errors, lost

PATIENCE = 20.0
"""Seconds to wait for a cluster."""
AHEAD = 4
"""How many looks per processor are submitted at a time: a hundred thousand would only wait."""


class Ray:
    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def results(self, task: Task, cores: Sequence[str]) -> Iterator[Document]:
        """The documents of the cores, as they become ready. If a worker dies, its core is tried again."""
        ray = self._ray
        own: type[Exception] = ray.exceptions.RayError
        with engine_errors("Ray takes no work", own):
            remote = ray.remote(num_cpus=1, max_retries=TRIES)(document)
            limit = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        asked: dict[Any, str] = {}
        left = iter(cores)
        while True:
            with engine_errors("Ray lost its cluster", own):
                for core in left:
                    asked[remote.remote(core, task.command, task.program)] = core
                    if len(asked) >= limit:
                        break
                ready = ray.wait(list(asked), num_returns=1)[0] if asked else []
                results = [self._result(reference, asked.pop(reference), task.command) for reference in ready]
            if not results:
                return
            yield from results

    def _result(self, reference: Any, core: str, command: str) -> Document:
        try:
            result: Document = self._ray.get(reference)
            return result
        except self._ray.exceptions.RayError as error:
            return lost(core, command, error)


@contextmanager
def open(address: Optional[str], workers: Optional[int]) -> Iterator[Ray]:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray's C++ part repeats errors on our standard error, and writes more when Ctrl-C ends its workers
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        # no port is open beyond this machine; workers need the path of a checkout's package
        environment = {"env_vars": {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}}
        how.update(num_cpus=workers, include_dashboard=False, _node_ip_address="127.0.0.1", runtime_env=environment)
    with starting("Ray", address):
        ray: Any = import_module("ray")
        with engine_errors(f"no Ray cluster answers at {address or 'this machine'}", ray.exceptions.RayError):
            _check_answers(address or "")
            ray.init(address=address, **how)
    try:
        yield Ray(ray)
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """OSError if nobody answers at the address: Ray itself would wait forever."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
