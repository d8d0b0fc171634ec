"""Runs inside GDB, with arenascope loaded, where fixtures/containers.cc stands: what its containers claim goes to
answers.json in FOLDER. Memory and live blocks come from GDB and from what the program printed."""

import json
import os
import re
import sys
from pathlib import Path

import gdb

FOLDER = Path(globals()["FOLDER"])
MOST_DAMAGE = 40
"""Words that are damaged of one container, each in several ways."""


class Memory:
    """A Reader. `poked` has words that were overwritten, by address."""

    word_size = 8

    def __init__(self, blocks):
        self.blocks = blocks
        self.poked = {}
        self.names = {}
        self.asked = 0

    def bytes(self, address, size):
        try:
            data = bytearray(gdb.selected_inferior().read_memory(address, size))
        except (gdb.error, OverflowError, ValueError, MemoryError):
            return None
        for place, word in self.poked.items():
            if address <= place and place + 8 <= address + size:
                data[place - address : place - address + 8] = word.to_bytes(8, "little")
            elif place < address + size and address < place + 8:
                whole = word.to_bytes(8, "little")
                for at in range(max(address, place), min(address + size, place + 8)):
                    data[at - address] = whole[at - place]
        return bytes(data)

    def number(self, address, size):
        data = self.bytes(address, size)
        return int.from_bytes(data, "little") if data is not None else None

    def word(self, address):
        return self.number(address, 8)

    def words(self, address, count):
        self.asked += 1
        data = self.bytes(address, 8 * count) if count < 1 << 20 else None
        return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)] if data else data

    def usable(self, address):
        return self.blocks.get(address)

    def holds(self, address, size):
        if address not in self.blocks:
            return False
        usable = self.blocks[address]
        if usable >= 128 << 10:
            return 0 <= usable - size < 4096 + 32
        # the chunk is rounded up to 16 bytes; up to 16 more malloc cannot split off
        return 0 <= usable - max(24, (size + 8 + 15 & ~15) - 8) <= 16

    def _named(self, address):
        if address not in self.names:
            text = gdb.execute(f"info symbol {address}", to_string=True)
            self.names[address] = re.sub(r" in section .*", "", text).strip()
        return self.names[address]

    def symbol(self, address):
        name = self._named(address)
        return name if not re.search(r" \+ \d+$", name) and "No symbol" not in name else None

    def class_of(self, table):
        found = re.fullmatch(r"vtable for (.*) \+ 16", self._named(table))
        return found and found[1]


class Types:
    """A TypeSource's types, and made-up ones, which have negative numbers."""

    def __init__(self, source, facts):
        self.source, self.kind, self.made, self.keys = source, facts, {}, {}

    def facts(self, number):
        return self.made[number] if number < 0 else self.source.facts(number)

    def by_name(self, name):
        return self.source.by_name(name)

    def classes_at(self, code):
        return self.source.classes_at(code)

    def _make(self, facts):
        key = facts.name, facts.size
        if key not in self.keys:
            self.keys[key] = -1 - len(self.keys)
            self.made[self.keys[key]] = facts
        return self.keys[key]

    def pointer_to(self, number):
        if number >= 0:
            return self.source.pointer_to(number)
        return self._make(self.kind(self.facts(number).name + " *", "pointer", 8, target=number))

    def made_up(self, name, size, fields, key=None):
        return self._make(self.kind(name, "struct", size, fields=fields))


class Follower:
    """All that one container claims, and what the containers in it claim."""

    def __init__(self, types, memory, library):
        self.types, self.memory, self.library = types, memory, library
        self.known = {}
        self.blocks = []
        self.refused = []
        self.polymorphic = {}

    def container(self, number):
        if number not in self.known:
            self.known[number] = self.library.container(self.types, number)
        return self.known[number]

    def follow(self, number, address, depth=0):
        facts = self.types.facts(number)
        container = self.container(number) if facts.form == "struct" else None
        if container is not None:
            claims = container.claims(self.memory, address)
            if claims is None:
                self.refused.append(facts.name)
            for claim in claims or ():
                self.claimed(claim, depth)
        elif facts.form == "struct" and depth < 30:
            for field in facts.fields:
                self.follow(field.type, address + field.offset, depth + 1)
        elif facts.form == "array" and depth < 30:
            size = self.types.facts(facts.target).size
            for at in range(min(facts.length or 0, 64)):
                self.follow(facts.target, address + at * size, depth + 1)

    def claimed(self, claim, depth):
        if len(self.blocks) > 20000:
            return
        number = claim.type
        if not claim.inline:
            if claim.strength >= 2 and self.types.facts(number).polymorphic:
                # as the tracer does: the object's own class
                own = self.memory.class_of(self.memory.word(claim.address) or 0)
                number = self.types.by_name(own) if own else None
                if number is None:
                    return
            facts = self.types.facts(number)
            room = claim.capacity if claim.capacity is not None else claim.elements
            size = claim.front + facts.size * (1 if room is None else room)
            if claim.strength >= 2 and not self.memory.holds(claim.address, size):
                return
            self.blocks.append([claim.address, size, facts.name])
        if claim.words:
            size = self.types.facts(number).size
            for at in range(1 if claim.elements is None else claim.elements):
                self.follow(number, claim.address + claim.front + at * size, depth + 1)


def values_of(types, claims):
    """Where a container's own elements lie, in order, by its claims."""
    found = []
    for claim in claims:
        facts = types.facts(claim.type)
        if claim.inline or claim.number is None:
            continue
        for at in range(1 if claim.elements is None else claim.elements):
            place, value = claim.address + claim.front + at * facts.size, facts
            if facts.name.endswith(" node"):
                (whole,) = [field for field in facts.fields if not field.name]
                place, value = claim.address + whole.offset, types.facts(whole.type)
            found.append([place, value.size])
    return found


def main():
    task = json.loads((FOLDER / "task.json").read_text())
    commands = sys.modules["arenascope_gdb"]
    target = commands.GdbDoor("heap", os.path.dirname(commands.__file__)).target()
    from arenascope.blocks.declared.containers import LIBRARIES
    from arenascope.sources.debug_info_types import TypeFacts

    memory = Memory({int(at): usable for at, usable in task["blocks"].items()})
    types = Types(target.types, TypeFacts)
    variables = types.source.variables(list(task["containers"].values()))
    answers = {}

    class Library:
        def container(self, types, number):
            return next((found for found in (each.container(types, number) for each in LIBRARIES) if found), None)

    library = Library()
    for name, address in task["containers"].items():
        number = variables[address].type
        follower = Follower(types, memory, library)
        follower.follow(number, address)
        answer = answers[name] = {"blocks": follower.blocks, "type": types.facts(number).name}
        answer["refused"] = follower.refused
        container = library.container(types, number)
        if container is not None:
            claims = container.claims(memory, address)
            answer["elements"] = container.elements(memory, address)
            answer["values"] = values_of(types, claims) if claims is not None else None
            if task["damage"]:
                answer["damaged"], answer["tried"] = damaged(types, memory, library, number, address, follower.blocks)
    (FOLDER / "answers.json").write_text(json.dumps(answers))


def damaged(types, memory, library, number, address, blocks):
    """What is claimed where a word of the container or of its blocks is another one."""
    size = types.facts(number).size
    words = [address + at for at in range(0, size, 8)]
    for start, length, _ in blocks[:4] + blocks[-2:]:
        words += [start + at for at in range(0, min(length, 64), 8)]
    wrong, tried = [], 0
    starts = [start for start, _, _ in blocks[:3]]
    for place in words[:MOST_DAMAGE]:
        word = memory.word(place)
        others = [0, 1, word + 8, word + 1, word ^ 1 << 40, place, address, (1 << 64) - 1, *starts]
        for other in others:
            if other == word or other >> 64:
                continue
            memory.poked = {place: other}
            memory.asked = 0
            tried += 1
            follower = Follower(types, memory, library)
            follower.known = {}
            follower.follow(number, address)
            if memory.asked > 50000:
                wrong.append([place, other, 0, memory.asked, "asked"])
            wrong += [[place, other, *each] for each in follower.blocks if each not in blocks]
    memory.poked = {}
    return wrong, tried


main()
