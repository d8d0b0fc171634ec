"""Heaps that tests share: one that has everything once, and random ones."""

from __future__ import annotations

import random
from typing import Union

from heapbuilder import HeapImage, Row


def everything(row: Union[Row, str], **options: int) -> HeapImage:
    """Three arenas of threads (one left by its threads), a retired heap and a shrunk one, every kind of list."""
    image = HeapImage(row, **options)
    row = image.row
    page = row.page_size
    main, first, second, third = image.main, image.thread(1), image.thread(2), image.arena()
    for arena in (main, first.arena, second.arena, third):
        arena.used(0x100)
        arena.free(0x2000)
        arena.used(0x40)
        arena.free(0x200)
        arena.free(0x200, into="bin")
        arena.free(0x600, into="bin")
        arena.free(0x640, into="bin")
        arena.free(0x600, into="bin")
        arena.used(0x30)
        if row.has_fastbins:
            for size in (0x20, 0x20, row.max_fast, 0x20):
                arena.fast(size)
    if row.has_tcache:
        for thread, arena in ((image.thread(0), main), (first, first.arena), (second, second.arena)):
            for size in (0x40, 0x40, 0x40, 0x100):
                thread.cached(size)
            # whatever arena the thread freed a block of
            thread.cached(0x60, of=third if arena is main else main)
    first.arena.new_heap()
    first.arena.used(0x5000)
    first.arena.free(0x800)
    first.arena.used(0x80)
    second.arena.used(3 * page)
    second.arena.shrunk(4 * page)
    image.thread(4, arena=first.arena)
    image.thread(5, arena=None)
    for size in (200000, 300000):
        image.mmapped(size)
    image.mmapped(150000, apart=True)
    return image


def random_image(row: Union[Row, str], seed: int) -> HeapImage:
    """Arenas, heaps, lists and blocks by chance, the same for the same seed."""
    rng = random.Random(f"image {seed}")
    image = HeapImage(row, seed=seed, brk_offset=rng.choice((0, 0, 0x6C0)))
    arenas = [image.main, *(image.thread(number).arena for number in range(1, rng.randrange(1, 5)))]
    arenas += [image.arena() for _ in range(rng.randrange(2))]
    for arena in arenas:
        arena.mix(rng.randrange(40))
    grown = rng.choice(arenas)
    if grown is image.main:
        image.main.foreign_sbrk(16 * rng.randrange(1, 2000), remainder=rng.choice(("unsorted", "bin")))
    else:
        grown.new_heap(remainder=rng.choice(("unsorted", "bin")))
    grown.mix(rng.randrange(30))
    for thread in list(image.threads.values()) if image.row.has_tcache else []:
        for _ in range(rng.randrange(12)):
            size = image.row.request2size(rng.randrange(8, 500))
            if thread.accepts(size):
                thread.cached(size, of=rng.choice(arenas))
    for _ in range(rng.randrange(4)):
        image.mmapped(rng.randrange(128 << 10, 2 << 20), apart=rng.random() < 0.3)
    return image
