"""heap leaks: live blocks that nothing leads to."""

from __future__ import annotations

from ..blocks.graph.leaks import find_leaks, rows_of, with_guesses
from ..blocks.graph.pointer_facts import stale_rows
from ..engine import need_engine
from ..present.json_documents.block_records import BlockSum, EncodedPointerBlocks, LeaksDocument, StaleWordsRecord
from ..present.json_documents.record import address
from ..present.screens.leaks import leak_record, lines, some
from ..session.resident import problems_of
from .framework.arguments import RULES
from .framework.command import LIMIT, Answer, Context, always, argument, command, of_heap
from .framework.live_copy import looked

LOST = 1
"""The exit status if something certainly is lost."""


@command(
    "who holds it",
    "Find live blocks that no pointer leads to: they are lost for good. Lists them by type.",
    "leaks --possible",
    "Every pointer is followed from variables, stacks, registers, other mappings, and what epoll and timers keep. A "
    "block that none leads to is lost, unless an encoded pointer (tagged, shifted, unaligned, relative) is found. "
    "Blocks that only lost blocks lead to are added to these, and a cycle counts as one. A block is possibly lost if "
    "only pointers to its inside lead to it. Stale words (contents of stdio buffers, vector registers, numbers by the "
    "program's types) count as pointers here; blocks that only they lead to have lines of their own, which name the "
    "members and arrays. Where this image lacks something that may hold pointers such blocks are not called lost but "
    "unknown. In the shell the exit status is 1 if something is lost. A live process is copied, and runs on meanwhile.",
    arguments=(
        argument("--possible", action="store_true", help="also list what is possibly lost"),
        LIMIT,
        RULES,
    ),
    copies=always,
    whole=always,
)
def leaks_command(context: Context) -> Answer:
    need_engine()
    look = looked(context)
    leaks = find_leaks(look.search, look.lost)
    blocks = look.search.blocks
    strength = "possible" if leaks.unwatched else "definite"
    lost = [] if leaks.unknown else rows_of(look.search, leaks.definite, strength)
    lost = with_guesses(look.search, leaks.definite, lost)
    possible = with_guesses(look.search, leaks.possible, rows_of(look.search, leaks.possible, "possible"))
    stale = stale_rows(look.search) if leaks.stale.blocks else []
    unknown = leaks.definite.blocks() if leaks.unknown else ()
    found = LeaksDocument(
        leaks=[leak_record(each) for each in (*lost, *possible)],
        reached=BlockSum.of(leaks.reached),
        unknown=some(blocks, unknown),
        stale=BlockSum.of(leaks.stale),
        stale_words=[StaleWordsRecord.of(each, samples=[address(block) for block in each.samples]) for each in stale],
        saved=[
            EncodedPointerBlocks.of(some(blocks, each), encoding=encoding) for encoding, each in leaks.saved.items()
        ],
    )
    doubts = leaks.doubts if leaks.definite else ()
    problems = [*look.problems, *doubts, *(each for each in problems_of(look.session) if each not in doubts)]
    asked = context.options
    rows = [*lost, *(possible if asked.possible else ())]
    text = lines(context.style, blocks, leaks, rows, stale=stale, limit=asked.limit, with_possible=asked.possible)
    return Answer(found, of_heap(look.session, text), problems, status=LOST if lost and not leaks.unwatched else 0)
