"""The facts: keys and how they are shown, and that no secret or content is."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from tests.broker.wire.ssh.sshd import keygen, public

from affidavit.broker.secret import Secret
from affidavit.broker.wire.ssh.fields import string
from affidavit.broker.wire.ssh.port import HostKey, PasswordLogin, SshEvidence, SshHop, SshRequest


def test_a_key_is_shown_as_openssh_shows_it(tmp_path: Path) -> None:
    path = keygen(tmp_path / "key")
    shown = subprocess.run(["ssh-keygen", "-lf", f"{path}.pub"], check=True, capture_output=True, text=True).stdout
    key = public(path)
    assert key.algorithm == "ssh-ed25519"
    assert key.fingerprint == shown.split()[1]
    assert key.identity.startswith("sha256:")
    assert len(key.identity) == 7 + 64


@pytest.mark.parametrize(
    "blob", [b"", b"\0\0\0\0", string(b"ssh-ed25519"), string(b"\xff\xfe") + b"x", b"\0\0\xff\xffssh"]
)
def test_what_is_no_key(blob: bytes) -> None:
    with pytest.raises(ValueError, match="not an SSH public key"):
        HostKey.of(blob)


def test_nothing_is_shown_that_may_be_secret() -> None:
    hop = SshHop("h", 22, "u", (), PasswordLogin(Secret(b"hunter2")))
    shown = repr(SshRequest(hop, b"echo hunter2", b"hunter2", (("A", "hunter2"),)))
    assert "hunter2" not in shown
    assert base64.b64encode(b"hunter2").decode() not in shown


def test_the_authority_of_a_hop() -> None:
    login = PasswordLogin(Secret(b""))
    assert SshHop("example.test", 22, "u", (), login).authority == "example.test:22"
    assert SshHop("2001:db8::1", 2222, "u", (), login).authority == "[2001:db8::1]:2222"


def test_what_counts_as_an_answer() -> None:
    assert not SshEvidence(crossed=True, command_sent=True).answered
    assert SshEvidence(exec_accepted=True).answered
    assert SshEvidence(exec_refused=True).answered
    assert SshEvidence(violation="output without a reply to exec").answered
    assert SshEvidence(exit_status=0).exited
    assert SshEvidence(command_sent=True, stdin_complete=True).request_complete
