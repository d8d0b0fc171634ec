"""The folder of Parquet files that `fleet` writes: one row a core, and which of them are done."""

from __future__ import annotations

import json
import os
import uuid
from importlib import import_module
from io import BytesIO
from typing import Any, Iterable, Iterator

from ...analysis.report import PARTS
from ...base.errors import UsageError
from ...base.whole_file import write_whole
from ..several_subjects import row
from .which_cores import Core
from .worker import Result

fsspec: Any = import_module("fsspec")
pyarrow: Any = import_module("pyarrow")
parquet: Any = import_module("pyarrow.parquet")
TEXT, NUMBER = pyarrow.string(), pyarrow.int64()
COLUMNS = {
    "url": TEXT,
    "bytes": NUMBER,
    "stamp": TEXT,
    "error": TEXT,
    "lost": pyarrow.bool_(),
    "seconds": pyarrow.float64(),
    "host": TEXT,
    "pid": NUMBER,
    "glibc": TEXT,
    "complete": pyarrow.bool_(),
    "verdict": TEXT,
    "rss_bytes": NUMBER,
    **{f"{name}_bytes": NUMBER for name in PARTS},
    "document": TEXT,
}
"""`document` is the command's whole JSON. A column is the same in each file, so that all are one data set."""
SCHEMA = pyarrow.schema(list(COLUMNS.items()))


class Table:
    def __init__(self, where: str) -> None:
        try:
            self._system, self._folder = fsspec.url_to_fs(where)
            self._system.makedirs(self._folder, exist_ok=True)
        except (OSError, ImportError, ValueError) as error:
            raise UsageError(f"cannot write into {where}: {getattr(error, 'strerror', None) or error}") from error
        self._waiting: list[dict[str, Any]] = []
        self.rows = 0

    def done(self, again: bool) -> set[Core]:
        """What need not be looked at: whatever was read as it is now; `again`: not what could not be read."""
        return {
            Core(each["url"], each["bytes"], each["stamp"])
            for each in self._rows(*Core._fields, "error", "lost")
            if not each["lost"] and not (again and each["error"] is not None)
        }

    def results(self, cores: Iterable[Core]) -> Iterator[tuple[Core, Result]]:
        """What was said of these, as they are now."""
        asked = {*cores}
        for each in self._rows(*Core._fields, "error", "document"):
            core = Core(each["url"], each["bytes"], each["stamp"])
            if core in asked:
                yield core, Result(each["document"] and json.loads(each["document"]), each["error"])

    def _rows(self, *columns: str) -> Iterator[dict[str, Any]]:
        for path in self._system.glob(f"{self._folder}/part-*.parquet"):
            with self._system.open(path, "rb") as file:
                try:
                    yield from parquet.read_table(file, columns=list(columns)).to_pylist()
                except (pyarrow.ArrowException, OSError) as error:
                    raise UsageError(f"{path} is no file that fleet wrote: {error}", "name another --output") from error

    def add(self, core: Core, result: Result) -> None:
        told = {"subject": core.url, **(result.document or {})}
        flat = {name: value for name, value in row(told).items() if name in COLUMNS}
        text = None if result.document is None else json.dumps(result.document, ensure_ascii=False)
        self._waiting.append(
            {
                **flat,
                **core._asdict(),
                "error": result.error,
                "lost": result.lost,
                "seconds": result.seconds,
                "host": result.host,
                "document": text,
            }
        )
        self.rows += 1

    def flush(self) -> None:
        """A file of its own, whole or not at all."""
        if not self._waiting:
            return
        data = BytesIO()
        table = pyarrow.Table.from_pylist(self._waiting, SCHEMA)
        parquet.write_table(table, data, compression="zstd")
        path = f"{self._folder}/part-{uuid.uuid4().hex}.parquet"
        if os.path.isdir(self._folder):
            write_whole(path, data.getvalue())
        else:
            self._system.pipe_file(path, data.getvalue())
        self._waiting = []
