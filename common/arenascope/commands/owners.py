"""heap owners: whose memory it is."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Iterator, Mapping, Optional, Sequence

from ..base.errors import UsageError
from ..base.heap_model import Statement
from ..base.whole_file import write_whole
from ..blocks.declared.matching_objects import matching_objects
from ..blocks.graph.holders import HolderNode, Paths, costs_by_type, grown, kinds_of_all
from ..blocks.graph.main_holders import blocks_by_owner, only_with
from ..blocks.graph.pointers_to import ImageSearch
from ..blocks.graph.returns import owned
from ..blocks.graph.unreached import types_of
from ..blocks.python_objects import python_containers, python_waste
from ..present.json_documents.record import Document, Size, StatementRecord, statement_record
from ..present.json_documents.shared_records import Written
from ..present.pages.fill_page import filled, title_of
from ..present.pprof import Sample, ValueType, profile
from ..present.screens.owner_lines import OwnerRow, OwnersScreen, lines, lines_by_type, python_text, summary
from ..present.screens.type_lines import name_of
from ..present.shared_text.lines_and_tables import NO_HEAP, UNKNOWN, Style
from ..present.shared_text.missing_symbols import unnamed_variables, unnamed_variables_text
from ..present.shared_text.problem_sentences import sentences
from ..session.problems import problems_of
from ..session.resident import pages_of
from ..session.session import Session
from .framework.arguments import RULES
from .framework.command import LIMIT, WITH_VALUES, Answer, Context, always, argument, command, of_heap
from .framework.live_copy import looked
from .framework.where import WHERE, WhereRecord, asked_where, where_key, where_line
from .map import page_facts


class OwnersDocument(Document, command="owners"):
    """The answer of owners."""

    owners: Sequence[OwnerRow]
    """Whose memory it is, the largest first; with those that are left out, held_bytes sum to live_bytes."""
    left_out: Size
    """How many more owners there are."""
    live_bytes: Size
    """All live blocks."""
    notes: Sequence[Annotated[StatementRecord, "A note"]]
    """Which files lack symbols, so that all their unnamed variables are one owner (`names.owner`), and the command that
    brings the names (`names.command`); of CPython's objects the containers that hold much (`names.path`), three at
    most, and what nothing but cycles leads to."""
    html: Optional[Written]
    """The page that was written."""
    pprof: Optional[Written]
    """The profile that was written."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The owners are those that hold any, those with most first."""


def page(facts: Mapping[str, object], nodes: Sequence[HolderNode]) -> bytes:
    """The nodes of the page, as the template's script reads them."""
    rows = [
        (each.name, each.kind, each.above, each.held_blocks, each.held_bytes, each.resident, each.returns)
        for each in nodes
    ]
    return filled("owners", {**facts, "nodes": rows}, title_of("whose memory it is", facts))


TYPES = (
    ValueType("blocks", "count"),
    ValueType("resident", "bytes"),
    ValueType("would_return", "bytes"),
    ValueType("holds", "bytes"),
)


def profile_of(rows: Sequence[HolderNode], comments: Sequence[str]) -> bytes:
    """The profile for pprof, which sums up what each node has itself. Unknown sizes are 0."""
    sums = [[each.held_blocks, each.resident or 0, each.returns or 0, each.held_bytes] for each in rows]
    own = [*sums]
    for at, row in enumerate(rows):
        if row.above >= 0:
            own[row.above] = [one - other for one, other in zip(own[row.above], sums[at])]
    names = list(dict.fromkeys(row.name for row in rows))
    numbers = {name: number for number, name in enumerate(names)}
    samples = []
    for at, values in enumerate(own):
        if any(values):
            stack = []
            node = at
            while node >= 0:
                stack.append(numbers[rows[node].name])
                node = rows[node].above
            samples.append(Sample(stack, values))
    return profile(names, TYPES, samples, comments)


@command(
    "who holds it",
    "owners --limit 10",
    arguments=(
        argument("--by", choices=("type",), help="below each owner: what one block of each type costs"),
        argument("--html", metavar="FILE", help="also write a page for a browser"),
        WHERE,
        argument("--pprof", metavar="FILE", help="also write a profile for pprof (go tool pprof, speedscope)"),
        LIMIT,
        WITH_VALUES,
        RULES,
    ),
    copies=always,
    whole=always,
)
def owners_command(context: Context) -> Answer:
    """List who holds memory: what each variable, thread or mapping holds, what of it alone, and what would return.

    Each block has one main holder, and the rows sum to all live blocks. If several owners lead to a block, the main
    holder is the first of these kinds: the program's variables, libc's variables, thread-local variables, what the
    kernel keeps, heaps of runtimes, other mappings, pointers that are only kept to be handed back (void *), local
    variables, the rest of stacks and registers, stale words; within a kind, the one with the fewest pointers to more
    than 32 bytes inside a block, then with the fewest steps. Local variables of main rank with the program's variables
    if a library or the kernel got its pointers from them. If others are as good holders, the row says: also reached
    from. What an owner holds alone is reached from no other: if the owner were cleared, it could be freed. What would
    return are the pages that would then leave memory after malloc_trim(0). --where shows only owners of blocks with
    objects for which a condition holds, by the bytes of these. --by type tells what one object costs: below each owner,
    by type, how many blocks there are, and what they take with all that only each of them leads to. --html writes a
    page with the types below the owner that holds them, to fold and unfold; it needs no network and holds no user data.
    --pprof writes the same for pprof's flame graphs and lists. CPython's heap is one owner: which containers hold most
    of Python's objects is said below. A live process is copied, and runs on meanwhile.
    """
    asked = asked_where(context)
    options = context.options
    if asked is not None and (options.by or options.html or options.pprof):
        raise UsageError("--where chooses rows: --by, --html and --pprof have all", "give one of them")
    target, look = context.target, looked(context)
    search = look.search
    found = owned(search)
    matching, matches = None, None
    if asked is not None and look.session.started:
        matching = matching_objects(look.session, asked)
        matches = blocks_by_owner(search, found.owners, matching.blocks)
        found = found._replace(owners=only_with(found.owners, matches))
    ranking = found.owners
    types = types_of(search, [step.block for each in ranking.holdings for step in each.way])
    shown = OwnersScreen(search, found, types, Paths(search, context.user_data))
    shown.matches = matches
    if options.by and look.session.started:
        shown.costs = costs_by_type(search)
    limit = options.limit if options.limit > 0 else None
    if asked is None and any(each.owner.kind == "runtime" for each in ranking.holdings):
        shown.python = [*_of_python(search)]
    held = [(each.owner.name, each.bytes) for each in ranking.holdings]
    shown.notes = unnamed_variables(target, look.session.target, held)
    problems = [*look.problems, *problems_of(look.session)]
    html = pprof = None
    if options.html or options.pprof:
        # release first: a debugger may hold the process still
        files = _files(context, shown, problems, live=target.kind == "live")
        context.door.release()
        html, pprof = _write(options.html, files["html"]), _write(options.pprof, files["pprof"])
    document = OwnersDocument.of(
        None,
        owners=[shown.record(each) for each in ranking.holdings[:limit]],
        left_out=len(ranking.holdings[limit:]) if limit else 0,
        live_bytes=search.blocks.bytes,
        notes=[
            *(statement_record(each, unnamed_variables_text(each)) for each in shown.notes),
            *(statement_record(each, python_text(Style(), each)) for each in shown.python),
        ],
        html=html,
        pprof=pprof,
        **where_key(matching),
    )
    style = context.style
    first = summary(style, shown, _resident(look.session, search.blocks.bytes))
    head = [style.bold(where_line(matching) if matching is not None else first)]
    head += [f"{each.file}: {style.size(each.bytes)} written" for each in (html, pprof) if each is not None]
    show = lines if shown.costs is None else lines_by_type
    text = chain(head, [""], show(style, shown, options.limit))
    return Answer(document, of_heap(look.session, text), problems)


OF_PYTHON, PART = 3, 100
"""So many of Python's containers are named, if they hold such a part of the live bytes."""


def _of_python(search: ImageSearch) -> Iterator[Statement]:
    """What holds most of Python's objects: cycles that nothing else leads to, and containers that lie in none that is
    named before."""
    least = search.blocks.bytes // PART
    cycles = sum(each.unused for each in python_waste(search) if each.reason == "cycle")
    if cycles >= max(least, 1):
        yield Statement("python-cycles", {"held_bytes": cycles})
    named: list[str] = []
    for row in python_containers(search):
        lies_below = any(row.path.startswith((f"{path}.", f"{path}[")) for path in named)
        if row.held_bytes >= least and len(named) < OF_PYTHON and not lies_below:
            named.append(row.path)
            figures = {"held_bytes": row.held_bytes, "elements": row.elements.number}
            yield Statement("python-container", figures, {"path": row.path, "type": row.type})


def _resident(session: Session, live: int) -> Optional[int]:
    """An upper bound of the blocks' bytes in memory: a large block may be resident in part or not at all."""
    pages = pages_of(session, session.mmapped)
    if session.residency is None or None in pages:
        return None
    return live - sum(block.bytes - each.resident for block, each in zip(session.mmapped, pages) if each is not None)


def _write(path: Optional[str], data: bytes) -> Optional[Written]:
    if path is None:
        return None
    write_whole(path, data)
    return Written(file=path, bytes=len(data))


def _files(context: Context, shown: OwnersScreen, problems: Sequence[Statement], live: bool) -> dict[str, bytes]:
    """Writes the files of --html and --pprof."""
    search = shown.search
    kinds = [name_of(each) if each is not None else UNKNOWN for each in kinds_of_all(search)]
    started = search.session.started
    nodes = grown(search, shown.owners, kinds, shown.plain_words) if started else []
    said = summary(context.style._replace(exact=False), shown) if started else NO_HEAP
    facts = page_facts(search.session, [said], sentences(problems), context.seen if live else None)
    return {"html": page(facts, nodes), "pprof": profile_of(nodes, [said])}
