"""What the operator changes: the passphrase first, a record after, nothing secret."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.broker.conftest import PASSPHRASE, World
from tests.broker.recovery import contract
from tests.broker.vault import ssh_keys
from tests.broker.vault.authority import Authority

from affidavit.broker.api import OperatorRefused
from affidavit.broker.moment import SystemClock
from affidavit.broker.operator import OperatorSide
from affidavit.broker.terms import Kind
from affidavit.journal import JournalPoisoned

NOW = SystemClock().wall()
CA = Authority("corp", NOW)
TARGET = ["https://api.example.com/**"]
HOST = {"name": "db", "address": "db.example.com", "user": "deploy", "credential": "key", "jump": None}
NO_PROXY: dict[str, Any] = {"credential": None, "no_proxy": (), "trusted": False}


def words() -> bytearray:
    return bytearray(PASSPHRASE)


class Changes:
    """Every OPERATOR_CHANGED record from now on."""

    def __init__(self, world: World) -> None:
        self.seen: list[dict[str, Any]] = []
        projection = world.broker.core.projection
        note = projection.note

        def noting(kind: Kind, payload: Any, **more: Any) -> Any:
            if kind is Kind.OPERATOR_CHANGED:
                self.seen.append(dict(payload))
            return note(kind, payload, **more)

        projection.note = noting  # type: ignore[method-assign]

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [(each["what"], each["name"], each["how"]) for each in self.seen]

    def digests(self, at: int) -> tuple[bool, bool]:
        return self.seen[at]["digest_before"] is not None, self.seen[at]["digest_after"] is not None


@pytest.fixture
def changes(world: World) -> Changes:
    return Changes(world)


async def test_trust(world: World, changes: Changes) -> None:
    operator = world.broker.operator
    added = await operator.trust_add("corp", CA.pem, ["https://a.example"], words())
    assert (added["targets"], added["subjects"]) == (["https://a.example/**"], ["CN=corp"])
    assert (await operator.trust_list(words()))["trust"] == [added]
    assert await operator.trust_remove("corp", words()) == {"name": "corp", "removed": True}
    assert (await operator.trust_list(words()))["trust"] == []
    assert changes.told == [("trust", "corp", "added"), ("trust", "corp", "removed")]
    assert (changes.digests(0), changes.digests(1)) == ((False, True), (True, False))
    assert changes.seen[0]["digest_after"] == changes.seen[1]["digest_before"] == added["digest"]


async def test_proxy(world: World, changes: Changes) -> None:
    operator = world.broker.operator
    params = {"name": "corp", "kind": "basic", "targets": TARGET, "username": "ada"}
    await operator.credential_add(params, bytearray(b"planted-secret"), words())
    none = {"url": None, "credential": None, "no_proxy": [], "trusted": False, "set_at": None}
    assert await operator.proxy_show(words()) == none
    given = {"credential": "corp", "no_proxy": ("a.example",), "trusted": True}
    found = await operator.proxy_set("http://proxy.example:3128", passphrase=words(), **given)
    assert (found["url"], found["credential"], found["no_proxy"], found["trusted"]) == (
        "http://proxy.example:3128",
        "corp",
        ["a.example"],
        True,
    )
    assert "without TLS" in found["warnings"][0]
    shown = await operator.proxy_show(words())
    assert shown == {name: value for name, value in found.items() if name != "warnings"}
    assert (await operator.proxy_set("https://p.example:443", passphrase=words(), **NO_PROXY))["warnings"] == []
    assert await operator.proxy_off(words()) == none
    await operator.proxy_off(words())
    assert changes.told[1:] == [
        ("proxy", "http://proxy.example:3128", "set"),
        ("proxy", "https://p.example:443", "set"),
        ("proxy", "https://p.example:443", "off"),
    ]
    assert [changes.digests(n) for n in (1, 2, 3)] == [(False, True), (True, True), (True, False)]
    assert changes.seen[2]["digest_before"] == changes.seen[1]["digest_after"]
    assert "planted" not in str(changes.seen)


async def add_key(operator: OperatorSide) -> None:
    params = {"name": "key", "kind": "ssh-key", "targets": ["*.example.com"]}
    value = bytearray(ssh_keys.file(ssh_keys.new(), ssh_keys.PASSPHRASE))
    added = await operator.credential_add(params, value, words(), key_passphrase=bytearray(ssh_keys.PASSPHRASE))
    assert added["options"]["encrypted"] is True


async def test_hosts(world: World, changes: Changes) -> None:
    operator = world.broker.operator
    await add_key(operator)
    line = ssh_keys.line(ssh_keys.new())
    key = {"algorithm": "ssh-ed25519", "fingerprint": ssh_keys.HostKey.of(ssh_keys.blob(line)).fingerprint}
    added = await operator.host_add({**HOST, "port": 2222, "host_keys": [line], "policy": "strict"}, words())
    assert added["warnings"] == []
    (listed,) = (await operator.host_list(words()))["hosts"]
    assert listed == {name: value for name, value in added.items() if name != "warnings"}
    assert (listed["credential"], listed["port"], listed["host_keys"]) == ("key", 2222, [key])
    assert await operator.hosts() == [listed]
    assert "HOST_KEY_UNKNOWN" in (await operator.host_add({**HOST, "name": "b"}, words()))["warnings"][0]
    assert (await operator.host_add({**HOST, "name": "c", "policy": "accept-new"}, words()))["warnings"] == []
    assert await operator.host_remove("c", words()) == {"name": "c", "removed": True}
    assert changes.told[1:] == [("host", "db", "added"), ("host", "b", "added"), ("host", "c", "added"),
                                ("host", "c", "removed")]  # fmt: skip
    assert [changes.digests(n) for n in (1, 4)] == [(False, True), (True, False)]
    assert changes.seen[1]["digest_after"] == added["digest"]
    await operator.lock(why="test")
    with pytest.raises(OperatorRefused, match="locked"):
        await operator.hosts()


async def test_an_edit_is_recorded_and_says_which_keys_went(world: World, changes: Changes) -> None:
    operator = world.broker.operator
    await add_key(operator)
    line = ssh_keys.line(ssh_keys.new())
    added = await operator.host_add({**HOST, "host_keys": [line]}, words())
    nothing = await operator.host_edit("db", {"host_keys": (), "forget_keys": (), "user": None}, words())
    assert nothing["digest"] == added["digest"]
    moved = await operator.host_edit("db", {"port": 2222, "policy": "strict"}, words())
    assert (moved["port"], moved["host_keys"], moved["removed"]) == (2222, [], added["host_keys"])
    assert len(moved["warnings"]) == 2
    lax = await operator.host_edit("db", {"policy": "accept-new", "host_keys": (line,)}, words())
    assert (lax["pinned"], lax["warnings"]) == (added["host_keys"], [])
    assert changes.told[1:] == [("host", "db", "added"), ("host", "db", "edited"), ("host", "db", "edited")]
    assert changes.seen[2]["digest_before"] == added["digest"]
    assert changes.seen[3]["digest_after"] == lax["digest"]
    with pytest.raises(OperatorRefused) as refused:
        await operator.host_edit("db", {"address": "a b"}, words())
    assert refused.value.field == "address"


async def test_an_import_is_recorded_entry_by_entry(world: World, changes: Changes) -> None:
    operator = world.broker.operator
    await add_key(operator)
    given: dict[str, Any] = {"credential": "key", "user": "deploy"}
    config = "Host a b\nHostName %h.example.com\nHost b\nProxyJump a\nHost *\nUser x"
    found = await operator.host_import(config, passphrase=words(), **given)
    assert [row["name"] for row in found["added"]] == ["a", "b"]
    assert found["skipped"] == [{"line": 5, "what": "Host *", "why": "A pattern: only literal names are taken."}]
    assert "HOST_KEY_UNKNOWN" in found["warnings"][0]
    key = ssh_keys.new()
    fingerprint = ssh_keys.host_key(key).fingerprint
    shown = {"algorithm": "ssh-ed25519", "fingerprint": fingerprint}
    text = f"a.example.com {ssh_keys.line(key)}\n"
    found = await operator.host_import(text, passphrase=words(), **given)
    assert found["changed"] == [{"name": "a", "pinned": [shown], "removed": [], "revoked": []}]
    found = await operator.host_import(f"@revoked {text}", passphrase=words(), **given)
    assert found["changed"] == [{"name": "a", "pinned": [], "removed": [shown], "revoked": [shown]}]
    assert changes.told[1:] == [
        ("host", "a", "added"),
        ("host", "b", "added"),
        ("host", "a", "keys changed"),
        ("host", "a", "keys changed"),
    ]
    assert changes.seen[3]["digest_after"] == changes.seen[4]["digest_before"] != changes.seen[1]["digest_after"]
    assert changes.seen[3]["digest_before"] == changes.seen[1]["digest_after"]


async def test_both_secrets_of_a_key_go_with_a_wrong_passphrase(world: World) -> None:
    value, phrase = bytearray(b"planted"), bytearray(b"planted")
    with pytest.raises(OperatorRefused):
        await world.broker.operator.credential_add({"name": "k"}, value, bytearray(b"no"), key_passphrase=phrase)
    assert not any(value)
    assert not any(phrase)


async def test_credentials_are_told_by_digests(world: World, changes: Changes) -> None:
    operator = world.broker.operator
    params = {"name": "n", "kind": "oauth2", "targets": TARGET, "refresh": True, "client_id": "4711"}
    params["token_url"] = "https://login.example.com/token"
    added = await operator.credential_add(params, bytearray(b"planted-secret"), words())
    assert added["options"]["token_url"] == "https://login.example.com/token"
    await operator.credential_rotate("n", bytearray(b"planted-secret-2"), words())
    await operator.credential_remove("n", words())
    assert [changes.digests(n) for n in (0, 1, 2)] == [(False, True), (True, True), (True, False)]
    assert changes.seen[0]["digest_after"] == changes.seen[1]["digest_before"]
    assert changes.seen[1]["digest_after"] == changes.seen[2]["digest_before"]
    assert changes.seen[1]["digest_after"] != changes.seen[1]["digest_before"]
    assert "planted" not in str(changes.seen)


async def test_a_new_certificate_comes_with_its_key(world: World) -> None:
    operator = world.broker.operator
    (first, key), (second, other) = CA.client("a", NOW), CA.client("b", NOW)
    params = {"name": "n", "kind": "mtls", "targets": TARGET, "certificate": first}
    added = await operator.credential_add(params, bytearray(key, "ascii"), words())
    assert added["options"]["subject"] == "CN=a"
    assert "certificate" not in added["options"]
    rotated = await operator.credential_rotate("n", bytearray(other, "ascii"), words(), certificate=second)
    assert rotated["options"]["subject"] == "CN=b"
    listed = await operator.credential_list(words())
    assert listed["credentials"][0]["options"]["expires_at"] == rotated["options"]["expires_at"]


CALLS: list[Callable[[OperatorSide, bytearray], Awaitable[Any]]] = [
    lambda operator, wrong: operator.trust_add("corp", CA.pem, ["https://a.example"], wrong),
    lambda operator, wrong: operator.trust_list(wrong),
    lambda operator, wrong: operator.trust_remove("corp", wrong),
    lambda operator, wrong: operator.host_add(HOST, wrong),
    lambda operator, wrong: operator.host_list(wrong),
    lambda operator, wrong: operator.host_remove("db", wrong),
    lambda operator, wrong: operator.host_import("x", credential=None, user=None, passphrase=wrong),
    lambda operator, wrong: operator.proxy_set("http://p.example:1", passphrase=wrong, **NO_PROXY),
    lambda operator, wrong: operator.proxy_show(wrong),
    lambda operator, wrong: operator.proxy_off(wrong),
]


@pytest.mark.parametrize("call", CALLS)
async def test_nothing_goes_without_the_passphrase(
    world: World, changes: Changes, call: Callable[[OperatorSide, bytearray], Awaitable[Any]]
) -> None:
    wrong = bytearray(b"wrong")
    with pytest.raises(OperatorRefused) as refused:
        await call(world.broker.operator, wrong)
    assert refused.value.code == "wrong_passphrase"
    assert not any(wrong)
    assert changes.seen == []
    assert world.broker.core.vault.trust.list() == ()
    assert world.broker.core.vault.proxy.get() is None
    assert world.broker.core.vault.hosts.list() == ()


async def test_a_refusal_names_its_field(world: World, changes: Changes) -> None:
    operator = world.broker.operator
    with pytest.raises(OperatorRefused) as bad_ca:
        await operator.trust_add("corp", "nonsense", ["https://a.example"], words())
    with pytest.raises(OperatorRefused) as bad_url:
        await operator.proxy_set("proxy", passphrase=words(), **NO_PROXY)
    assert [(r.value.code, r.value.field) for r in (bad_ca, bad_url)] == [("invalid", "ca"), ("invalid", "url")]
    assert changes.seen == []


async def test_the_status_tells_the_theme_as_soon_as_it_is_set(world: Any) -> None:
    told: list[str] = []
    stop = world.broker.operator.on_status(lambda status: told.append(status["theme"]))
    assert told == ["system"]
    await world.broker.operator.settings_set("look.theme", "dark", bytearray(PASSPHRASE))
    await world.until(lambda: told[-1] == "dark")
    stop()


async def test_a_change_of_a_setting_tells_what_is_in_force(world: World) -> None:
    """The file can only tighten what the operator says, and does so beside it."""
    core, operator = world.broker.core, world.broker.operator
    core._file_settings = {"approvals": False, "lock.idle_s": 300}
    core.apply_settings()
    told = [
        await operator.settings_set(key, value, words())
        for key, value in (("approvals", "on"), ("lock.idle_s", "200"), ("lock.idle_s", "900"), ("look.theme", "dark"))
    ]
    assert [(each["value"], each["in_force"], each["set_by"]) for each in told] == [
        ("on", "off", ["operator", "file"]),
        ("200", "200", ["operator", "file"]),
        ("900", "300", ["operator", "file"]),
        ("dark", "dark", ["operator"]),
    ]


BEARER = {"name": "api", "kind": "bearer", "targets": TARGET}
SEEN = f"db.example.com {ssh_keys.line(ssh_keys.new())}\n"
EVERY_CHANGE: dict[str, Callable[[OperatorSide], Awaitable[Any]]] = {
    "setting": lambda operator: operator.settings_set("limit.result_days", "7", words()),
    "contract": lambda operator: operator.contract_adopt([("a.toml", contract())], words()),
    "trust_add": lambda operator: operator.trust_add("two", CA.pem, ["https://b.example"], words()),
    "trust_remove": lambda operator: operator.trust_remove("corp", words()),
    "proxy_set": lambda operator: operator.proxy_set("http://q.example:1", passphrase=words(), **NO_PROXY),
    "proxy_off": lambda operator: operator.proxy_off(words()),
    "host_add": lambda operator: operator.host_add({**HOST, "name": "two"}, words()),
    "host_edit": lambda operator: operator.host_edit("db", {"port": 2222}, words()),
    "host_import": lambda operator: operator.host_import(SEEN, credential=None, user=None, passphrase=words()),
    "host_remove": lambda operator: operator.host_remove("db", words()),
    "credential_add": lambda operator: operator.credential_add(BEARER, bytearray(b"planted-secret"), words()),
    "credential_rotate": lambda operator: operator.credential_rotate("old", bytearray(b"planted-next"), words()),
    "credential_remove": lambda operator: operator.credential_remove("old", words()),
}


async def changed_while_no_record_can_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str, *, known: bool
) -> tuple[OperatorRefused, bool]:
    """How such a change is refused, and whether the vault was changed; `known` where the journal is poisoned before."""
    operator, vault = world.broker.operator, world.broker.core.vault
    await add_key(operator)
    await operator.host_add(HOST, words())
    await operator.trust_add("corp", CA.pem, ["https://a.example"], words())
    await operator.proxy_set("http://p.example:1", passphrase=words(), **NO_PROXY)
    await operator.credential_add({**BEARER, "name": "old"}, bytearray(b"planted-secret"), words())

    def held() -> tuple[Any, ...]:
        lists = vault.credentials.list(), vault.trust.list(), vault.hosts.list(), vault.proxy.get()
        return (*lists, vault.operator.settings(), vault.operator.contracts())

    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    before = held()
    monkeypatch.setattr(world.broker.core.journal._ledger, "write", full)
    if known:
        with pytest.raises(JournalPoisoned):
            await world.broker.core.projection.note(Kind.PASSPHRASE_REFUSED, {}, barrier=True).durable()
    with pytest.raises(OperatorRefused) as refused:
        await EVERY_CHANGE[change](operator)
    return refused.value, held() != before


@pytest.mark.parametrize("change", EVERY_CHANGE)
async def test_nothing_is_changed_while_the_journal_is_poisoned(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    refused, changed = await changed_while_no_record_can_be_written(world, monkeypatch, change, known=True)
    assert (refused.code, refused.remedy, changed) == ("poisoned", JournalPoisoned.remedy, False)


@pytest.mark.parametrize("change", EVERY_CHANGE)
async def test_a_change_that_could_not_be_recorded_is_not_answered_as_done(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    refused, changed = await changed_while_no_record_can_be_written(world, monkeypatch, change, known=False)
    assert (refused.code, changed) == ("poisoned", True)
    assert "The change itself was made" in refused.message


async def test_a_secret_that_comes_to_a_poisoned_journal_is_overwritten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, phrase = bytearray(b"planted"), bytearray(b"planted")
    monkeypatch.setitem(
        EVERY_CHANGE, "key", lambda operator: operator.credential_add(BEARER, value, words(), key_passphrase=phrase)
    )
    await changed_while_no_record_can_be_written(world, monkeypatch, "key", known=True)
    assert not any(value)
    assert not any(phrase)
