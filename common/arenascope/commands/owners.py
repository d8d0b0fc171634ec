"""heap owners: whose memory it is."""

from __future__ import annotations

from ..command import LIMIT, Answer, Context, always, command
from ..gather.problems import problems_of


@command(
    "whose it is",
    "Tell whose memory it is: what each variable, thread or mapping alone keeps, and what of it would go back.",
    "owners --limit 10",
    "What only one owner leads to is its own: were that cleared, all of it could be freed. Stacks and registers own "
    "what no variable leads to, other mappings what neither does; what several lead to is shared. The rows sum to all "
    "live blocks. What would go back are the pages on which nothing else is, after malloc_trim(0). A live process is "
    "copied, and runs on meanwhile.",
    (LIMIT,),
    whole=always,
)
def owners_command(context: Context) -> Answer:
    # as in refs
    from ..apart import looked
    from ..graph.owners import find_owners
    from ..graph.returns import returns
    from ..screens.owners import Shown, lines

    _ = context.target
    found = looked(context)
    search = found.search
    found_owners = find_owners(search)
    numbers = 1 + max((each.number for each in found_owners.holdings), default=0)
    kept = returns(found.session, search.blocks, found_owners.whose, numbers)
    shown = Shown(search, found_owners, kept)
    limit = context.options.limit if context.options.limit > 0 else None
    keys = {
        "owners": [shown.json(each) for each in found_owners.holdings[:limit]],
        "left_out": len(found_owners.holdings[limit:]) if limit else 0,
        "live_bytes": search.blocks.bytes,
    }
    problems = [*found.problems, *problems_of(found.session)]
    return Answer(keys, lines(context.style, shown, context.options.limit), problems)
