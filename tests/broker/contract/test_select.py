"""Which contract a request falls under, and which two may not stand side by side (interface, 6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from affidavit.broker.contract import DEFAULT_READ, DEFAULT_WRITE, Contract, ContractSet, Standing, explain, parse
from affidavit.broker.contract.select import DEFAULT_READ_UNASSUMED, rank
from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http


def contract(name: str, url: str, rest: str = "", *, effect: str = "write", standing: str = "adopted") -> Contract:
    text = f'id = "{name}"\n[match]\nkind = "http"\nurl = "{url}"\n{rest}\n[effect]\nkind = "{effect}"\n'
    return parse(text, file=f"{name}.toml", standing=Standing(standing))


def command(name: str, host: str, text: str) -> Contract:
    return parse(
        f"id = '{name}'\n[match]\nkind = 'ssh'\nhost = '{host}'\ncommand = '{text}'\n[effect]\nkind = 'write'\n",
        file=f"{name}.toml",
    )


def matched(
    contracts: list[Contract],
    url: str = "https://api.example.com/v1/payments",
    method: str = "POST",
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
) -> str:
    return ContractSet(contracts).match(method, parse_http(url, Limits()), headers, body).id


URL = "https://api.example.com/v1/payments"


def test_defaults() -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        assert matched([], method=method) == "default.read"
    for method in ("POST", "PUT", "PATCH", "DELETE", "PURGE"):
        assert matched([], method=method) == "default.write"
    assert (DEFAULT_READ.idempotent(), DEFAULT_WRITE.idempotent()) == ("assumed", False)
    assert DEFAULT_READ.is_default
    assert len({DEFAULT_READ.digest, DEFAULT_READ_UNASSUMED.digest, DEFAULT_WRITE.digest}) == 3
    unassumed = ContractSet(assume_reads=False).match("GET", parse_http(URL, Limits()), (), b"")
    assert (unassumed.id, unassumed.idempotent()) == ("default.read", False)


def test_each_step_of_being_specific() -> None:
    rising = [
        contract("a.wild-host", "https://*.example.com/v1/payments/**"),
        contract("a.short-path", "https://api.example.com/**"),
        contract("a.longer-path", "https://api.example.com/v1/**"),
        contract("a.fewer-stars", "https://api.example.com/v1/*"),
        contract("a.whole-path", URL),
        contract("a.named-method", URL, 'method = ["POST"]'),
        contract("a.where", URL, 'where = [{ header = "x-kind", equals = "1" }]'),
        contract("a.where-and-method", URL, 'method = ["POST"]\nwhere = [{ header = "x-kind", equals = "1" }]'),
    ]
    for at in range(1, len(rising) + 1):
        assert matched(rising[:at][::-1], headers=(("x-kind", "1"),)) == rising[at - 1].id
    assert ContractSet(rising).conflicts() == ()


@pytest.mark.parametrize(
    ("where", "url", "headers", "body", "holds"),
    [
        ('{ pointer = "/a/b", equals = "x" }', URL, (), b'{"a":{"b":"x"}}', True),
        ('{ pointer = "/a/b", equals = "x" }', URL, (), b'{"a":{"b":"y"}}', False),
        ('{ pointer = "/a", equals = 1 }', URL, (), b'{"a":true}', False),
        ('{ pointer = "/a", equals = true }', URL, (), b'{"a":true}', True),
        ('{ pointer = "/a", equals = "x" }', URL, (), b'{"a":"x","a":"x"}', False),
        ('{ pointer = "/a", equals = "x" }', URL, (), b"a=x", False),
        ('{ pointer = "/a", equals = "x" }', URL, (), b"", False),
        ('{ query = "Action", equals = "Run" }', URL + "?Action=%52un", (), b"", True),
        ('{ query = "Action", equals = "Run" }', URL + "?Action=Run&Action=Stop", (), b"", False),
        ('{ query = "Action", equals = "Run" }', URL + "?Action=Stop&Action=Run", (), b"", False),
        ('{ query = "Action", equals = "Run" }', URL + "?action=Run", (), b"", False),
        ('{ header = "X-Amz-Target", equals = "T" }', URL, (("x-amz-target", "T"),), b"", True),
        ('{ header = "X-Amz-Target", equals = "T" }', URL, (("x-amz-target", "T"), ("x-amz-target", "U")), b"", False),
        ('{ header = "X-Amz-Target", equals = "T" }', URL, (), b"", False),
    ],
)
def test_where(where: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes, holds: bool) -> None:
    found = matched([contract("a.where", URL, f"where = [{where}]")], url, headers=headers, body=body)
    assert found == ("a.where" if holds else "default.write")


def test_every_condition_must_hold() -> None:
    two = contract("a.two", URL, 'where = [{ query = "a", equals = "1" }, { query = "b", equals = "2" }]')
    assert matched([two], URL + "?a=1&b=2") == "a.two"
    assert matched([two], URL + "?a=1") == "default.write"


def test_methods() -> None:
    assert matched([contract("a.any", URL)], method="DELETE") == "a.any"
    assert matched([contract("a.any", URL)], method="PURGE") == "default.write"
    assert matched([contract("a.purge", URL, 'method = ["PURGE"]')], method="PURGE") == "a.purge"
    assert matched([contract("a.post", URL, 'method = ["POST"]')], method="GET") == "default.read"


def test_built_in_contracts_give_way() -> None:
    built_in = contract("vendor.payments", URL, standing="built_in")
    same_id = contract("vendor.payments", "https://api.example.com/v2/payments")
    same_rank = contract("a.mine", URL)
    wider = contract("a.wider", "https://api.example.com/v1/*")
    assert matched([built_in]) == "vendor.payments"
    assert matched([built_in, same_id]) == "default.write"
    assert matched([built_in, same_rank]) == matched([same_rank, built_in]) == "a.mine"
    assert matched([built_in, wider]) == "vendor.payments"
    assert ContractSet([built_in, same_id, same_rank, wider]).conflicts() == ()


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (contract("a.one", URL), contract("a.other", URL), True),
        (contract("a.one", URL), contract("a.one", "https://x.example/"), True),
        (contract("a.one", "https://h.example/*/ab"), contract("a.other", "https://h.example/ab/*"), True),
        (contract("a.one", "https://h.example/*/ab"), contract("a.other", "https://h.example/*/cd"), False),
        (contract("a.one", URL, 'method = ["PUT", "POST"]'), contract("a.other", URL, 'method = ["POST"]'), True),
        (contract("a.one", URL, 'method = ["PUT"]'), contract("a.other", URL, 'method = ["POST"]'), False),
        (contract("a.one", URL), contract("a.other", URL, 'method = ["POST"]'), False),
        (
            contract("a.one", URL, 'where = [{ pointer = "/op", equals = "a" }]'),
            contract("a.other", URL, 'where = [{ pointer = "/op", equals = "b" }]'),
            False,
        ),
        (
            contract("a.one", URL, 'where = [{ pointer = "/op", equals = "a" }]'),
            contract("a.other", URL, 'where = [{ query = "op", equals = "b" }]'),
            True,
        ),
        (command("a.one", "web-*", "ls *"), command("a.other", "*-web", "ls *"), True),
        (command("a.one", "web", "ls *"), command("a.other", "web", "rm *"), False),
        (command("a.one", "web", "ls *"), contract("a.other", URL), False),
    ],
)
def test_conflicts(one: Contract, other: Contract, conflict: bool) -> None:
    found = ContractSet([other, one]).conflicts()
    assert bool(found) is conflict
    for pair in found:
        assert one.id in pair.message
        assert other.id in pair.message
        assert {pair.one, pair.other} == {one.id, other.id}


def test_commands() -> None:
    contracts = ContractSet(
        [command("a.any", "web-*", "*"), command("a.restart", "web-*", "restart *"), command("a.one", "web-1", "*")]
    )
    assert contracts.match_command("web-2", "restart shop").id == "a.restart"
    assert contracts.match_command("web-2", "ls").id == "a.any"
    assert contracts.match_command("web-1", "restart shop").id == "a.one"
    assert contracts.match_command("db-1", "ls").id == "default.write"


def test_access() -> None:
    contracts = ContractSet([contract("b", URL), contract("a", "https://x.example/")])
    assert [each.id for each in contracts] == ["a", "b"]
    assert contracts.get("b") is not None
    assert contracts.get("default.read") is DEFAULT_READ
    assert contracts.get("c") is None
    assert rank(DEFAULT_WRITE) < rank(contract("w", "https://*/"))


def test_explain_names_what_a_where_could_change() -> None:
    contracts = ContractSet(
        [
            contract("a.plain", URL),
            contract("a.less", "https://api.example.com/v1/*", 'where = [{ query = "a", equals = "1" }]'),
            contract("a.more", URL, 'where = [{ query = "a", equals = "1" }]'),
            contract("a.most", URL, 'method = ["POST"]\nwhere = [{ query = "a", equals = "1" }]'),
        ]
    )
    told = explain(contracts, "POST", parse_http(URL, Limits()))
    assert (told["contract"]["id"], told["unless"]) == ("a.plain", ["a.most", "a.more"])
    other = explain(contracts, "GET", parse_http("https://api.example.com/v1/x", Limits()))
    assert (other["contract"]["id"], other["unless"]) == ("default.read", ["a.less"])


def test_a_tie_is_settled_by_neither_order() -> None:
    """A set with conflicts is never adopted; still, one request has one contract however the set was built."""
    one, other = contract("a.one", URL), contract("a.other", URL)
    assert matched([one, other]) == matched([other, one])
    assert replace(one, id="z") != one
