"""Reads a core at a URL: fsspec copies it whole into a temporary file that has no name."""

from __future__ import annotations

import asyncio
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from typing import IO, Any, Callable

from ...base import optional_libraries
from ...base.errors import TargetError
from ...base.progress_bar import MakeMeter

LARGEST = 16 << 20
"""The most bytes of an HTTP answer that is no core: a list of files, or the first bytes of one."""
RESERVE = 64 << 20
"""Bytes of a file system that are left for others."""
SECONDS = 60
"""How long an HTTP server may send nothing."""
OWN_ERRORS = (
    ("aiohttp", "ClientError"),
    ("azure.core.exceptions", "AzureError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("paramiko", "SSHException"),
)
"""Base classes of file systems' errors that are neither an OSError nor a ValueError, by module."""


def load_fsspec() -> Any:
    """Loads fsspec, and limits its HTTP answers. TargetError if it is not installed."""
    fsspec: Any = optional_libraries.load("fsspec")
    if fsspec is None:
        raise TargetError("fsspec, by which files at URLs are read, is not installed", "pip install fsspec")
    aiohttp: Any = optional_libraries.load("aiohttp")
    if aiohttp is not None:
        # a large core takes longer than aiohttp's five minutes
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=SECONDS, sock_read=SECONDS)
        bounded = {"timeout": timeout, "response_class": _bounded(aiohttp.ClientResponse)}
        settings = fsspec.config.conf.setdefault("http", {})
        settings["client_kwargs"] = {**bounded, **settings.get("client_kwargs", {})}
    return fsspec


def _bounded(response: Any) -> Any:
    async def read(self: Any) -> bytes:
        """Reads the whole body; TargetError if it is longer than LARGEST."""
        if self._body is None:
            body = bytearray()
            async for piece in self.content.iter_any():
                body += piece
                if len(body) > LARGEST:
                    self.close()
                    host = f"{self.url.host}:{self.url.port}"
                    raise TargetError(f"{host} answers with more than {LARGEST >> 20} MiB")
            self._body = bytes(body)
        whole: bytes = self._body
        return whole

    return type("BoundedResponse", (response,), {"read": read})


def store_errors() -> tuple[type[BaseException], ...]:
    """Returns the errors of fsspec's loaded file systems, for an `except`."""
    own = (getattr(sys.modules.get(module), name, None) for module, name in OWN_ERRORS)
    archives = (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
    common = (OSError, ImportError, ValueError, NotImplementedError, asyncio.TimeoutError)
    return (*common, *archives, *(each for each in own if each is not None))


def store_error_text(error: BaseException, url: str) -> str:
    """Explains an error at `url`. fsspec's HTTP error has only the URL; the reason is its cause."""
    why = error.__cause__ if error.__cause__ is not None and str(error) == url else error
    text = str(getattr(why, "strerror", None) or getattr(why, "message", None) or why)
    return text if text and text != url else "there is no such file"


def copied(url: str, notice: Callable[[str], None], meter: MakeMeter) -> IO[bytes]:
    """Returns a copy of the file at `url`, which goes when it is closed, or with this process. TargetError if the file
    cannot be read whole, or there is no room for it.

    `notice` takes a line about the copy.
    """
    fsspec = load_fsspec()
    try:
        copy = tempfile.TemporaryFile(prefix="arenascope-")  # noqa: SIM115 closed by whoever takes it
    except OSError as error:
        raise TargetError(f"no temporary file to copy {url} into: {error.strerror or error}") from error
    try:
        system, path = fsspec.url_to_fs(url)
        size = system.info(path)["size"]
        if size is None:
            raise TargetError(f"{url}: its server does not say how large it is", "fetch it yourself, and name the file")
        _check_room(copy.fileno(), url, size)
        notice(f"{url} is copied whole ({size:,} bytes) to {tempfile.gettempdir()}, and removed afterwards\n")
        with meter(f"copying {url}", size) as shown:
            done = 0

            def count(_: object, now: int, **__: object) -> None:
                nonlocal done
                if now > size:
                    raise TargetError(f"{url}: more came than the {size:,} bytes that it has by its server's word")
                before, done = done, now
                shown.advance(now - before)

            callback = fsspec.callbacks.Callback(hooks={"copied": count})
            system.get_file(path, f"/proc/self/fd/{copy.fileno()}", callback=callback)
        got = os.fstat(copy.fileno()).st_size
        if got != size:
            raise TargetError(f"{url}: {got:,} of its {size:,} bytes came")
        return copy
    except store_errors() as error:
        copy.close()
        raise TargetError(f"cannot copy {url}: {store_error_text(error, url)}") from error
    except BaseException:
        # Ctrl-C among them
        copy.close()
        raise


def _check_room(file: int, url: str, size: int) -> None:
    disk = os.fstatvfs(file)
    if disk.f_bavail * disk.f_frsize < size + RESERVE:
        raise TargetError(
            f"there is not enough room in {tempfile.gettempdir()} for {url} ({size:,} bytes)",
            "set TMPDIR to a larger folder",
        )
