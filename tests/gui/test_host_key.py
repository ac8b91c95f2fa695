"""A host key's fingerprint: its groups, and what counts as the same when it is pasted."""

from __future__ import annotations

import pytest

from affidavit.gui.host_key import HostKeyView

VALUE = "7Qm4kV0xPz2r9sLhaT6EwB1dYc8NuJ3fLk2Re5XnGt4"
KEY = HostKeyView("web-02 ssh-ed25519", VALUE)


def test_the_groups_are_the_whole_value() -> None:
    assert "".join(KEY.groups) == VALUE
    assert [len(group) for group in KEY.groups] == [4] * 10 + [3]


@pytest.mark.parametrize(
    "pasted",
    [
        VALUE,
        f"  {VALUE}=\n",
        " ".join(KEY.groups),
        f"SHA256:{VALUE}",
        f"256 SHA256:{VALUE} root@web-02 (ED25519)",
    ],
)
def test_the_same_fingerprint_in_any_dress(pasted: str) -> None:
    assert KEY.same_as(pasted) is True


@pytest.mark.parametrize(
    "pasted",
    [
        VALUE.lower(),
        VALUE[:-1],
        VALUE + "A",
        f"SHA256:{VALUE[:-1]}5",
        f"256 SHA256:{VALUE}A root@{VALUE} (ED25519)",
        "MD5:16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48",
        "SHA256:",
    ],
)
def test_another_fingerprint(pasted: str) -> None:
    assert KEY.same_as(pasted) is False


@pytest.mark.parametrize("pasted", ["", "  ", "\n"])
def test_nothing_pasted_is_no_comparison(pasted: str) -> None:
    assert KEY.same_as(pasted) is None
