"""The page of hosts in words: ways, keys, what is missing, what an import did."""

from __future__ import annotations

from tests.gui.scripted_broker import HOST, NEW_HOST

from affidavit.gui import hosts_view
from affidavit.gui.hosts_view import SHOWN, SKIPPED_SHOWN
from affidavit.gui.runs import plain


def test_an_entry_says_its_way_and_every_key() -> None:
    (row,) = hosts_view.hosts([HOST])
    assert [plain(line) for line in row.way] == [
        "deploy@web-01.example.com:22",
        "through bastion",
        "with deploy-key",
    ]
    assert [(key.algorithm, key.fingerprint) for key in row.keys] == [
        (key["algorithm"], key["fingerprint"]) for key in HOST["host_keys"]
    ]
    assert (row.title, row.policy, row.note) == ("web-01", "Host key policy: strict", "")


def test_an_entry_without_keys_says_what_that_means() -> None:
    lax, strict = hosts_view.hosts([NEW_HOST, {**NEW_HOST, "policy": "strict", "revoked": HOST["host_keys"]}])
    assert [plain(line) for line in lax.way] == ["deploy@[2001:db8::7]:22", "with deploy-key"]
    assert lax.note == "No key is pinned yet: a card shows the one it has at first contact."
    assert strict.note == (
        "No key is pinned: every command for it is refused. 2 keys were revoked; they are never pinned again."
    )


def test_a_hidden_character_is_shown() -> None:
    (row,) = hosts_view.hosts([{**HOST, "user": "a\u202eb"}])
    assert "U+202E" in plain(row.way[0])


def test_a_long_list_is_cut_and_says_so() -> None:
    rows = [HOST] * (SHOWN + 1)
    assert len(hosts_view.hosts(rows)) == SHOWN
    assert hosts_view.count_line(rows) == f"{SHOWN} of {SHOWN + 1} hosts are shown; affidavit host list has them all."
    assert [hosts_view.count_line([HOST] * n) for n in (0, 1, 2)] == ["", "One host", "2 hosts"]


def test_an_import_names_the_first_lines_that_it_skipped() -> None:
    skipped = [{"line": n, "what": "x", "why": "A\u202e."} for n in range(1, SKIPPED_SHOWN + 3)]
    told = hosts_view.imported({"added": [HOST], "changed": [], "skipped": skipped})
    assert told.startswith("One host is added. The keys of 0 hosts changed. Skipped, line 1: AU+202E.")
    assert told.endswith("Skipped, line 5: AU+202E. 2 more lines are skipped.")
