"""Spreads looks over machines by dask.distributed or Ray: on an existing cluster, or on this machine's processors.

While an engine starts or is being connected to, this shows progress and handles Ctrl-C, which its library may lose. A
terminal also sends Ctrl-C to processes that the engine starts, and each would print a traceback. So they get no
standard error, and the signal is blocked in them.
"""

from __future__ import annotations

import _thread
import asyncio
import logging
import os
import select
import signal
import socket
import sys
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Sequence

from ...analysis.compare_snapshots import JsonObject
from ...base import background
from ...base.about import INTERRUPTED, STOPPED
from ...base.errors import ArenascopeError
from ...base.printable import one_line
from ..several_subjects import document, failed
from ..shell import Waiting

TRIES = 3
"""How many workers a core may kill."""
LONGEST = 300
"""The longest error, in characters, that is passed on."""
ERRORS = (OSError, RuntimeError, ValueError, asyncio.TimeoutError)
"""Errors that dask.distributed and Ray raise, besides classes of their own."""
PATIENCE = 20.0
"""Seconds to wait for a scheduler or cluster."""
AHEAD = 4
"""How many looks per processor are submitted to Ray at a time: a hundred thousand would only wait."""
GRACE = 2.0
"""Seconds after Ctrl-C for an engine that is starting to be shut down properly. Afterwards its processes end by
themselves."""
OVER = b"\0"


@contextmanager
def starting(engine: str, address: Optional[str]) -> Iterator[None]:
    """`address`: the engine's, if it is on another machine."""
    what = one_line(f"connecting to {engine} at {address}" if address else f"starting {engine} on this machine")
    sys.stderr.flush()
    with os.fdopen(os.dup(2), "w") as stream, _no_standard_error():
        waiting = Waiting(stream)

        def heard() -> None:
            if not address:
                waiting.begin(f"stopping, once {engine} has started", at_once=True)

        def end() -> None:
            # exit at once: no result was written yet, and inside a library's call the main thread does not notice
            # Ctrl-C
            waiting.end()
            stream.write(STOPPED)
            stream.flush()
            os._exit(INTERRUPTED)

        if not stream.isatty():
            stream.write(f"{what} …\n")
            stream.flush()
        waiting.begin(what, at_once=True)
        try:
            with _interruptible(heard, end, 0.0 if address else GRACE):
                yield
        finally:
            waiting.end()


@contextmanager
def _no_standard_error() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _interruptible(heard: Callable[[], None], end: Callable[[], None], grace: float) -> Iterator[None]:
    """Raises KeyboardInterrupt after the block if Ctrl-C came. If the block then takes longer than `grace`, a thread
    calls `end`."""
    pressed = False
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    done = _thread.allocate_lock()

    def listen() -> None:
        nonlocal pressed
        # Python's wakeup descriptor: whichever thread gets a signal, its number arrives in the pipe
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while (byte := os.read(reading, 1)) != OVER:
            if byte[0] == signal.SIGINT and not pressed:
                pressed = True
                heard()
                if not select.select([reading], [], [], grace)[0]:
                    end()
        done.release()

    handler = signal.signal(signal.SIGINT, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    done.acquire()
    background.start(listen)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.write(writing, OVER)
        done.acquire()
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)
        os.close(reading)
        os.close(writing)
        if pressed:
            raise KeyboardInterrupt


def lost(core: str, command: str, error: BaseException) -> JsonObject:
    """The document of a core that killed its worker and all that replaced it."""
    return failed(core, command, f"the worker was lost: {last_line(error)}")


@contextmanager
def engine_errors(task: str, *own: type[BaseException]) -> Iterator[None]:
    """Turns errors that an engine raises during `task` into one line. `own`: the engine's own classes."""
    expected: tuple[type[BaseException], ...] = (*ERRORS, *own)
    try:
        yield
    except expected as error:
        raise ArenascopeError(f"{task}: {last_line(error)}") from error


def last_line(error: BaseException) -> str:
    """The last line of an error's text, which may be a whole traceback."""
    why = (str(error).strip().splitlines() or [""])[-1]
    return one_line(f"{type(error).__name__}: {why}" if why else type(error).__name__)[:LONGEST]


class Dask:
    def __init__(self, client: Any) -> None:
        self._client = client

    def results(self, command: str, program: str, cores: Sequence[str]) -> Iterator[JsonObject]:
        """The documents of the cores, as they become ready. If a worker dies, its core is tried again."""
        distributed: Any = import_module("distributed")
        with engine_errors("Dask takes no work"):
            # not pure: tomorrow the path may be another core
            futures = {
                self._client.submit(document, core, command, program, pure=False, retries=TRIES): core for core in cores
            }
            ready = distributed.as_completed(list(futures))
        while futures:
            with engine_errors("Dask lost its scheduler"):
                future = next(ready)
                error = future.exception()
                core = futures.pop(future)
                result: JsonObject = future.result() if error is None else lost(core, command, error)
                future.release()
            yield result


@contextmanager
def open_dask(address: Optional[str], workers: Optional[int]) -> Iterator[Dask]:
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


class Ray:
    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def results(self, command: str, program: str, cores: Sequence[str]) -> Iterator[JsonObject]:
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
                    asked[remote.remote(core, command, program)] = core
                    if len(asked) >= limit:
                        break
                ready = ray.wait(list(asked), num_returns=1)[0] if asked else []
                results = [self._result(reference, asked.pop(reference), command) for reference in ready]
            if not results:
                return
            yield from results

    def _result(self, reference: Any, core: str, command: str) -> JsonObject:
        try:
            result: JsonObject = self._ray.get(reference)
            return result
        except self._ray.exceptions.RayError as error:
            return lost(core, command, error)


@contextmanager
def open_ray(address: Optional[str], workers: Optional[int]) -> Iterator[Ray]:
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


ENGINES = {"dask": ("distributed", open_dask), "ray": ("ray", open_ray)}
"""Engines, each with the library that it needs; the first one installed is used."""
