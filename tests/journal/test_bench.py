"""The measurements run and count rightly; what they show is not asserted on a clock."""

from __future__ import annotations

from affidavit.journal.bench import measure_commit, measure_group, measure_recovery


def test_commit(tmp_path):
    cost = measure_commit(tmp_path, commits=20)
    assert 1 <= cost.frames <= 4
    assert min(cost.ratio, cost.call_ratio) > 0


def test_group(tmp_path):
    cost = measure_group(tmp_path, callers=8, rounds=3)
    assert (cost.callers, cost.events) == (8, 24)
    assert 0 < cost.commits_per_event <= 1


def test_recovery(tmp_path):
    costs = measure_recovery(tmp_path, events=(100, 500), open_actions=3, rounds=2)
    assert [(cost.events, cost.open_actions) for cost in costs] == [(100, 3), (500, 3)]
    assert all(cost.ratio > 0 for cost in costs)
