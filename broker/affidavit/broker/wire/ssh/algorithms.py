"""The algorithms that are spoken, best first, and which of them a host is held to.

Left out of what paramiko could speak: 3DES and CBC, MD5 and SHA-1, group exchange (the peer chooses the group there),
and host certificates, which would stand in for the pinned key.
"""

from __future__ import annotations

from affidavit.broker.wire.ssh.port import HostKey

KEX = (
    "mlkem768x25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group14-sha256",
)
CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
MACS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
)
SIGNATURES = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
"""Kind of key -> the signature algorithms that it is used with, the better kind first."""

ALL_SIGNATURES = tuple(name for names in SIGNATURES.values() for name in names)


def pinned(host_keys: tuple[HostKey, ...]) -> tuple[HostKey, ...]:
    """The keys that a host may show: those of the best kind that is pinned.

    One kind alone, so that a host whose better key is wrong cannot pass with another one.
    """
    for kind in SIGNATURES:
        of_kind = tuple(key for key in host_keys if key.algorithm == kind)
        if of_kind:
            return of_kind
    return ()
