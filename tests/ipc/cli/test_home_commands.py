"""Commands that work on the home by themselves: `init`, `audit verify`, `contract check`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from affidavit.broker.home import HomeLock, HomeState, Places
from affidavit.broker.vault import vault as vault_module
from affidavit.broker.vault.keys import KdfParams
from affidavit.ipc.demo import tamper
from affidavit.journal import Draft, Journal

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli

CONTRACT = """
id = "practice.read"
[match]
kind = "http"
method = ["GET"]
url = "https://api.example.com/v1/*"
[effect]
kind = "read"
"""


@pytest.fixture
def initialised(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("AFFIDAVIT_KEYRING", "off")
    cheap = KdfParams(memory_kib=64, iterations=1, lanes=1)
    monkeypatch.setitem(vault_module.Vault.create.__func__.__kwdefaults__, "kdf", cheap)
    ran = cli("init", "--passphrase-fd", cli.fd(b"open sesame\n"))
    assert ran.status == 0, ran.err
    assert "affidavit tray" in ran.text
    assert "data/device.key" in ran.text
    return cli


def test_init_makes_a_private_home_and_never_a_second_one(initialised: Cli) -> None:
    for path in initialised.home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    before = {path: path.read_bytes() for path in initialised.home.rglob("*.db")}
    ran = initialised("init", "--passphrase-fd", initialised.fd(b"other\n"), "--json")
    assert ran.status == 1
    assert ran.json["error"]["code"] == "exists"
    assert {path: path.read_bytes() for path in initialised.home.rglob("*.db")} == before


def test_without_its_journal_no_vault_is_left(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("AFFIDAVIT_KEYRING", "off")
    cheap = KdfParams(memory_kib=64, iterations=1, lanes=1)
    monkeypatch.setitem(vault_module.Vault.create.__func__.__kwdefaults__, "kdf", cheap)
    with monkeypatch.context() as broken:
        broken.setattr("affidavit.journal.journal.sync_directory", full)
        ran = cli("init", "--passphrase-fd", cli.fd(b"open sesame\n"), "--json")
    assert (ran.status, ran.json["error"]["code"]) == (1, "journal")
    assert "No space left" in ran.json["error"]["message"]
    assert sorted(path.name for path in (home / "data").iterdir()) == ["lock", "results"]
    assert cli("init", "--passphrase-fd", cli.fd(b"open sesame\n")).status == 0


@pytest.mark.parametrize(("blocks", "code"), [(0, "not_writable"), (1, "unavailable")])
def test_a_disk_without_room_is_a_refusal_of_init_and_leaves_no_part(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, code: str
) -> None:
    """No file may grow beyond so many blocks, which a system refuses as it refuses a full disk."""
    monkeypatch.setenv("AFFIDAVIT_KEYRING", "off")
    reading = cli.fd(b"open sesame\n")
    init = f"exec {shlex.quote(sys.executable)} -m affidavit.ipc.cli init --json --passphrase-fd {reading}"
    line = ["sh", "-c", f"ulimit -f {blocks}; {init}"]
    ran = subprocess.run(line, pass_fds=[int(reading)], capture_output=True, timeout=60, check=False)
    assert (ran.returncode, json.loads(ran.stdout)["error"]["code"]) == (1, code)
    assert b"Traceback" not in ran.stderr
    assert sorted(path.name for path in (home / "data").iterdir()) == ["lock", "results"]
    assert Places.at(home).state is HomeState.ABSENT


def test_init_leaves_a_home_alone_that_another_process_makes(cli: Cli, home: Path) -> None:
    places = Places.at(home)
    places.prepare()
    with HomeLock(places, program="another"):
        ran = cli("init", "--passphrase-fd", cli.fd(b"pw\n"))
    assert ran.status == 1
    assert "in use by another" in ran.err


def test_init_refuses_a_lax_directory_with_its_fix(cli: Cli, home: Path) -> None:
    Places.at(home).prepare()
    (home / "data").chmod(0o755)
    ran = cli("init", "--passphrase-fd", cli.fd(b"pw\n"))
    assert ran.status == 1
    assert f"chmod 700 {home / 'data'}" in ran.err


async def test_verify_needs_no_passphrase_and_names_the_first_broken_record(initialised: Cli) -> None:
    from affidavit.ipc.cli.audit import journal_key

    assert initialised("audit", "verify").status == 0
    places = Places.at(initialised.home)
    journal = Journal.open(places.journal, bytes(journal_key(places)))
    for number in range(6):
        receipt = journal.append([Draft("BROKER_STARTED", None, {"number": number}, at=number)], barrier=True)
        await receipt.durable()
    journal.close()
    whole = initialised("audit", "verify", "--json")
    assert whole.status == 0
    assert whole.json["intact"]
    assert whole.json["records"] >= 6
    changed = tamper.change_one_byte(places)
    broken = initialised("audit", "verify", "--json")
    assert broken.status == 1
    assert broken.json["broken"] == {"record": changed, "fault": "changed"}
    assert f"Record {changed} was changed" in initialised("audit", "verify").text


def test_contract_check_tells_the_answers_or_each_problem(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "practice.toml"
    file.write_text(CONTRACT)
    ran = cli("contract", "check", str(file))
    assert ran.status == 0
    assert "It matches nothing until it is adopted" in ran.text
    assert "Contract: practice.read" in ran.text
    assert "(as checked)" in ran.text
    assert "(adopted)" not in ran.text
    assert "A repeat is bound by:" in ran.text
    file.write_text(CONTRACT + 'sort = "x"\n[nonsense]\n')
    ran = cli("contract", "check", str(file), "--json")
    assert ran.status == 1
    assert [(problem["line"], problem["key"]) for problem in ran.json["problems"]] == [
        (9, "effect.sort"),
        (10, "nonsense"),
    ]
    assert "practice.toml:9: `effect.sort`" in cli("contract", "check", str(file)).text


def test_adopt_checks_before_it_asks_for_a_passphrase(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "practice.toml"
    file.write_text(CONTRACT + 'sort = "x"\n[nonsense]\n')
    ran = cli("contract", "adopt", str(file))
    assert ran.status == 1
    assert [line.partition("`")[0] for line in ran.err.splitlines()[:2]] == ["practice.toml:9: ", "practice.toml:10: "]
    assert "U+000A" not in ran.err
    assert [each["line"] for each in cli("contract", "adopt", str(file), "--json").json["problems"]] == [9, 10]
    assert "Nothing was adopted" in ran.err
