"""A terminal's other screen, on which the same lines are drawn in place again and again."""

from __future__ import annotations

import shutil
from typing import Sequence, TextIO

from ..shared_text.text import written

ENTER, LEAVE = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
TO_THE_TOP, REST_OF_LINE, REST_OF_SCREEN = "\033[H", "\033[K", "\033[J"


class OtherScreen:
    """The terminal's other screen. When it is left, the last lines drawn stay on the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._frame: list[str] = []
        stream.write(ENTER)

    def draw(self, lines: Sequence[str], width: int) -> None:
        height = shutil.get_terminal_size().lines
        self._frame = [piece for line in lines for piece in written(line, width)]
        shown = self._frame[: max(1, height - 1)]
        text = "".join(f"{line}{REST_OF_LINE}\n" for line in shown)
        self._stream.write(TO_THE_TOP + text + REST_OF_SCREEN)
        self._stream.flush()

    def close(self) -> None:
        self._stream.write(LEAVE + "".join(f"{line}\n" for line in self._frame))
        self._stream.flush()
