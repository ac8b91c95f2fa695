"""A host key's fingerprint as a person compares it: in groups, and against what was pasted. Plain data, no Qt."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPENSSH = re.compile(r"SHA256:([A-Za-z0-9+/]+)")
_GROUP = 4


@dataclass(frozen=True, slots=True)
class HostKeyView:
    """`about`: whose key it is and of which kind. `value`: base64, without `SHA256:` and padding."""

    about: str
    value: str

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.value[at : at + _GROUP] for at in range(0, len(self.value), _GROUP))

    def same_as(self, pasted: str) -> bool | None:
        """Whether a pasted text holds this fingerprint: bare, in groups, or as `ssh-keygen -l` prints it. None where
        nothing is pasted."""
        found = _OPENSSH.search(pasted)
        bare = found[1] if found else "".join(pasted.split()).rstrip("=")
        return bare == self.value if bare else None
