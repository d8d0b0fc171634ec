"""Files that are written whole or not at all."""

from __future__ import annotations

import os

from .errors import ArenascopeError


def write_whole(path: str, data: bytes) -> None:
    """Under another name first: who reads `path` sees the old file or the new one."""
    import tempfile  # half a dozen modules, which a debugger that only loads us does without

    partial = ""
    try:
        descriptor, partial = tempfile.mkstemp(prefix=".arenascope-", dir=os.path.dirname(os.path.abspath(path)))
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except OSError as error:
        if os.path.exists(partial):
            os.unlink(partial)
        raise ArenascopeError(f"cannot write {path}: {error.strerror}") from error
