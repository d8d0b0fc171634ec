"""A command's answer."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.model import REPLACED, Statement
from ...present.json_documents.record import Document
from ...present.shared_text.findings import first_sentences, sentence
from ...present.shared_text.text import NO_HEAP, Style, safe_lines

if TYPE_CHECKING:
    from ...session.session import Session


def of_heap(session: Session, lines: Iterable[str]) -> Iterable[str]:
    """Lines that only make sense once malloc has been called; otherwise a line that says it was not."""
    return lines if session.started else [NO_HEAP]


class Answer(NamedTuple):
    """A command's answer: its document, and its text (made only if it is shown)."""

    found: Union[Document, Mapping[str, object]]
    """A Document; a dict of keys if no command's document is meant (a loop's look, a part of a page)."""
    lines: Iterable[str]
    problems: Sequence[Statement] = ()
    status: int = 0
    rows: Optional[Iterable[str]] = None
    """Text after the lines."""
    exact: bool = False
    """The text is glibc's own, byte for byte: warnings go to standard error, not into it."""
    beside: Mapping[str, object] = {}
    """What a page shows in addition to the keys."""
    told: Sequence[str] = ()
    """Ids of problems that the text itself mentions."""

    @property
    def document(self) -> Document:
        assert isinstance(self.found, Document)
        return self.found

    @property
    def keys(self) -> Mapping[str, object]:
        """The command's own keys, as JSON."""
        return self.found.own() if isinstance(self.found, Document) else self.found

    def text(self, style: Style) -> list[str]:
        """The text, without the rows."""
        shown = chain(() if self.exact else self._before(style), self.lines)
        return [f"{piece}\n" for line in shown for piece in safe_lines(line, style.width)]

    def _before(self, style: Style) -> Iterator[str]:
        """Problems that must precede the text."""
        for each in self.problems:
            if each.id == REPLACED and each.id not in self.told:
                yield style.warn(sentence(each))
                yield ""

    def warnings(self, style: Style) -> list[str]:
        told = self.told if self.exact else (*self.told, REPLACED)
        untold = [each for each in self.problems if each.id not in told]
        said = [style.warn(f"incomplete: {problem}") for problem in first_sentences(untold)]
        return [f"{piece}\n" for line in said for piece in safe_lines(line, style.width)]
