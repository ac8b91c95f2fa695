"""Takes samples of several things in one run, by turns, so that a busy machine is busy for all of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

Timed = Callable[[], float | None]
"""Does its thing once. Returns seconds where it timed itself, else None: then the whole call counts."""


def side_by_side(
    things: Mapping[str, Timed],
    *,
    rounds: int,
    warming: int,
    clock: Callable[[], float] = time.perf_counter,
    seed: int = 1,
) -> dict[str, list[float]]:
    """`rounds` samples of each, in seconds, after `warming` rounds that do not count.

    Each round does each thing once, in an order that is drawn anew: none of them always follows the same other.
    """
    order = list(things)
    draw = random.Random(seed)
    samples: dict[str, list[float]] = {name: [] for name in things}
    for number in range(warming + rounds):
        draw.shuffle(order)
        for name in order:
            started = clock()
            own = things[name]()
            taken = clock() - started if own is None else own
            if number >= warming:
                samples[name].append(taken)
    return samples
