"""The practice service's contracts are contracts, and cover what the demo asks for."""

from __future__ import annotations

from affidavit.broker.contract import ContractSet, answers, parse
from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http
from affidavit.resources.practice import contracts


def test_each_file_is_the_contract_that_it_is_named_for() -> None:
    texts = contracts(4711, 4712)
    parsed = {name: parse(text, file=name) for name, text in texts.items()}
    assert {name: contract.id for name, contract in parsed.items()} == {
        "practice.payments.create.toml": "practice.payments.create",
        "practice.transfers.create.toml": "practice.transfers.create",
        "practice.account.read.toml": "practice.account.read",
        "practice.closed.read.toml": "practice.closed.read",
    }
    force = ContractSet(parsed.values())
    assert force.conflicts() == ()
    for method, url, name in (
        ("POST", "http://127.0.0.1:4711/v1/payments", "practice.payments.create"),
        ("POST", "http://127.0.0.1:4711/v1/transfers", "practice.transfers.create"),
        ("GET", "http://127.0.0.1:4711/v1/account", "practice.account.read"),
        ("GET", "http://127.0.0.1:4712/v1/account", "practice.closed.read"),
        ("POST", "http://127.0.0.1:4712/v1/payments", "default.write"),
    ):
        assert force.match(method, parse_http(url, Limits()), (), b"").id == name


def test_a_payment_has_a_key_and_no_look_up_and_a_transfer_has_neither() -> None:
    texts = contracts(4711, 4712)
    given = {}
    for name in ("payments", "transfers"):
        file = f"practice.{name}.create.toml"
        three = answers(parse(texts[file], file=file))
        given[name] = [three.binds_retries.present, three.lookup.present, three.on_connection_death.present]
    assert given == {"payments": [True, False, True], "transfers": [False] * 3}
