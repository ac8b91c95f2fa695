"""Samples are taken by turns, in an order that changes, on a clock that the test moves."""

from __future__ import annotations

from side_by_side import side_by_side


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_is_done_once_a_round_and_warming_does_not_count() -> None:
    clock = Clock()
    done: list[str] = []

    def takes(name: str, seconds: float) -> None:
        done.append(name)
        clock.now += seconds

    things = {"a": lambda: takes("a", 1.0), "b": lambda: takes("b", 2.0), "c": lambda: takes("c", 3.0)}
    samples = side_by_side(things, rounds=20, warming=5, clock=clock)
    assert samples == {"a": [1.0] * 20, "b": [2.0] * 20, "c": [3.0] * 20}
    rounds = [tuple(done[at : at + 3]) for at in range(0, len(done), 3)]
    assert len(rounds) == 25
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 1


def test_a_thing_that_times_itself_is_believed() -> None:
    clock = Clock()

    def itself() -> float:
        clock.now += 10.0
        return 0.25

    assert side_by_side({"a": itself}, rounds=2, warming=0, clock=clock) == {"a": [0.25, 0.25]}
