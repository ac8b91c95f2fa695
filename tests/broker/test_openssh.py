"""OpenSSH's files: what is read, what is skipped and named, and that any text gives a result."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.vault import ssh_keys

from affidavit.broker.openssh import BadKey, ConfigHost, is_config, known_hosts, public_key, ssh_config

KEY = ssh_keys.new()
LINE = ssh_keys.line(KEY)
BLOB = LINE.split()[1]
RSA = ssh_keys.line(rsa.generate_private_key(65537, 2048))
ECDSA = ssh_keys.line(ec.generate_private_key(ec.SECP256R1()))


# -- public keys


@pytest.mark.parametrize("line", [LINE, RSA, ECDSA, f"  {LINE}\tada@laptop and more "])
def test_a_public_key(line: str) -> None:
    key = public_key(line)
    assert key.line == " ".join(line.split()[:2])
    assert key.algorithm == line.split()[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its kind and its base64"),
        ("ssh-ed25519", "its kind and its base64"),
        (f"ssh-dss {BLOB}", "not spoken"),
        (f"sk-ssh-ed25519@openssh.com {BLOB}", "not spoken"),
        ("ssh-ed25519 not/base64!", "damaged"),
        ("ssh-ed25519 ä", "damaged"),
        (f"ssh-ed25519 {BLOB[:-4]}", "damaged"),
        (f"ssh-ed25519 {base64.b64encode(base64.b64decode(BLOB) + b'x').decode()}", "damaged"),
        (f"ssh-ed25519 {RSA.split()[1]}", "damaged"),
        (f"ssh-rsa {BLOB}", "damaged"),
        (ssh_keys.line(rsa.generate_private_key(65537, 1024)), "less than 2048 bits"),
    ],
)
def test_what_is_no_public_key_says_why(text: str, why: str) -> None:
    with pytest.raises(BadKey, match=why):
        public_key(text)


# -- known_hosts


def test_names_ports_and_several_keys() -> None:
    text = f"# ours\n\nDb.example.com,192.0.2.7 {LINE} a comment\n[db.example.com]:2222 {RSA}\n2001:db8::7\t{ECDSA}\r\n"
    found, skipped = known_hosts(text)
    assert skipped == ()
    assert [(known.line, known.key.algorithm, known.revoked) for known in found] == [
        (3, "ssh-ed25519", False),
        (4, "ssh-rsa", False),
        (5, "ecdsa-sha2-nistp256", False),
    ]
    servers = [("db.example.com", 22), ("192.0.2.7", 22), ("db.example.com", 2222), ("2001:db8::7", 22), ("b", 22)]
    assert [[known.is_of(*server) for server in servers] for known in found] == [
        [True, True, False, False, False],
        [False, False, True, False, False],
        [False, False, False, True, False],
    ]


def test_hashed_names() -> None:
    text = f"{ssh_keys.hashed('db.example.com')} {LINE}\n{ssh_keys.hashed('[db.example.com]:2222')} {LINE}\n"
    found, skipped = known_hosts(text)
    assert skipped == ()
    assert [known.is_of("db.example.com", 22) for known in found] == [True, False]
    assert [known.is_of("db.example.com", 2222) for known in found] == [False, True]
    assert not any(known.is_of("other.example.com", 22) for known in found)


def test_names_that_ssh_keygen_hashed(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"db.example.com {LINE}\n[db.example.com]:2222 {RSA}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    text = file.read_text()
    assert "example" not in text
    found, skipped = known_hosts(text)
    assert skipped == ()
    assert [known.is_of("db.example.com", 22) for known in found] == [True, False]
    assert [known.is_of("db.example.com", 2222) for known in found] == [False, True]


@pytest.mark.parametrize(
    ("line", "what", "why"),
    [
        (f"@cert-authority *.example.com {LINE}", "*.example.com", "certificates are not spoken"),
        (f"@other db {LINE}", "db", "no such marker"),
        ("@revoked", "@revoked", "names, a kind of key"),
        ("db", "db", "names, a kind of key"),
        ("db ssh-ed25519", "db", "names, a kind of key"),
        ("db ssh-ed25519 AAAA", "db", "damaged"),
        (f"db ssh-dss {BLOB}", "db", "not spoken"),
        (f"*.example.com {LINE}", "*.example.com", "exact names"),
        (f"db? {LINE}", "db?", "exact names"),
        (f"!db {LINE}", "!db", "left out"),
        (f"|1|x|y {LINE}", "|1|x|y", "damaged"),
        (f"|1|{ssh_keys.hashed('a')[3:]}|AAAA {LINE}", f"{ssh_keys.hashed('a')}|AAAA", "damaged"),
        (f"@revoked ! {LINE}", "!", "empty"),
    ],
)
def test_a_bad_line_is_named_and_the_others_count(line: str, what: str, why: str) -> None:
    found, (skipped,) = known_hosts(f"a {LINE}\n{line}\nb {LINE}\n")
    assert [known.names for known in found] == [("a",), ("b",)]
    assert (skipped.line, skipped.what) == (2, what)
    assert why in skipped.why


def test_a_line_keeps_the_names_that_are_exact() -> None:
    (known,), skipped = known_hosts(f"db,*.example.com,!x,,[a]:22 {LINE}")
    assert known.names == ("db", "[a]:22")
    assert [each.what for each in skipped] == ["*.example.com", "!x", ""]


@pytest.mark.parametrize(
    ("names", "address", "port", "revoked"),
    [
        ("*", "db.example.com", 2222, True),
        ("*.example.com", "db.example.com", 22, True),
        ("*.example.com", "db.example.org", 22, False),
        ("db?.example.com", "db1.example.com", 22, True),
        ("[*]:2222", "db.example.com", 2222, True),
        ("[*]:2222", "db.example.com", 22, False),
        (ssh_keys.hashed("db.example.com"), "db.example.com", 22, True),
    ],
)
def test_a_revoked_key_counts_for_patterns_too(names: str, address: str, port: int, revoked: bool) -> None:
    (known,), _ = known_hosts(f"@revoked {names} {LINE}")
    assert known.revoked
    assert known.is_of(address, port) is revoked


# -- ssh_config


def test_a_config() -> None:
    text = """\
# mine
Host db db-old
    HostName db.example.com
    Port=2222
    User "deploy user"   # who
    IdentityFile ~/.ssh/id_db
    identityfile ~/.ssh/id_rsa
    ProxyJump gate
    ForwardAgent yes
    User other
Host gate
    HostName %h.example.com
    ProxyCommand none
Host odd
    ProxyCommand nc %h %p
Host db
    User late
    ProxyJump late
"""
    hosts, skipped = ssh_config(text)
    assert skipped == ()
    db = ConfigHost(
        2, "db", "db.example.com", "2222", "deploy user", ("~/.ssh/id_db", "~/.ssh/id_rsa"), proxy_jump="gate"
    )
    assert hosts[0] == db
    assert [(host.line, host.alias, host.address, host.proxy_command) for host in hosts[1:]] == [
        (2, "db-old", "db.example.com", False),
        (11, "gate", "gate.example.com", False),
        (14, "odd", "odd", True),
    ]


def test_what_a_config_leaves_out_is_named() -> None:
    text = """\
User everybody
ServerAliveInterval 5
Include other
Host a *.example.com !b
    User
    Port "22
    User ada
Match host a
    Port 2222
Host
    Port 2223
"""
    (host,), skipped = ssh_config(text)
    assert host == ConfigHost(4, "a", user="ada")
    assert [(each.line, each.what) for each in skipped] == [
        (1, "User everybody"),
        (3, "Include other"),
        (4, "Host *.example.com"),
        (4, "Host !b"),
        (5, "User"),
        (6, 'Port "22'),
        (8, "Match host a"),
        (10, "Host"),
    ]
    assert all(each.why for each in skipped)


def test_a_long_line_is_cut_where_it_is_named() -> None:
    _, (skipped,) = ssh_config(f"Include {'x' * 200}")
    assert len(skipped.what) == 80


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("Host a\n", True),
        ("# x\n  host=a\n", True),
        ("User x\nMatch all\n", True),
        ("Include y", True),
        (f"a {LINE}\n", False),
        (f"host {LINE}\n", False),
        (f"@revoked * {LINE}\n", False),
        ("", False),
        ("User x\n", False),
    ],
)
def test_which_file_it_is(text: str, config: bool) -> None:
    assert is_config(text) is config


# -- any text

PIECES = st.sampled_from(
    ["Host", "Match", "Include", "User", "ProxyJump", "Port", "=", '"', "#", "*", "!", "@revoked", "@cert-authority",
     "|1|", "AAAA", "|1|AAAA|AAAA", ssh_keys.hashed("a"), "a,b", "[a]:22", "[", " ", "\t", "\n", "\r\n", "\0", "\u2028",
     "\ud800", LINE, RSA, "ssh-rsa", BLOB]
)  # fmt: skip
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=4)).map("".join) | st.lists(PIECES).map(" ".join)


@given(TEXTS)
def test_any_text_is_a_known_hosts_in_some_way(text: str) -> None:
    found, skipped = known_hosts(text)
    lines = [line.strip() for line in text.split("\n")]
    told = {each.line for each in (*found, *skipped)}
    assert told == {n for n, line in enumerate(lines, 1) if line and not line.startswith("#")}
    for known in found:
        assert known.names
        assert public_key(known.key.line) == known.key
        assert known.is_of("b", 22) in (True, False)


@given(TEXTS)
def test_any_text_is_a_config_in_some_way(text: str) -> None:
    assert is_config(text) in (True, False)
    hosts, skipped = ssh_config(text)
    aliases = [host.alias for host in hosts]
    assert len(set(aliases)) == len(aliases)
    assert not any(sign in alias for alias in aliases for sign in "*?!")
    assert all(1 <= each.line <= text.count("\n") + 1 for each in (*hosts, *skipped))
