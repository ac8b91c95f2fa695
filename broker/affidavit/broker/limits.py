"""Defaults and limits, in one place; `session.hello` tells those in force (interface, section 7)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, durations in seconds, counts as they are."""

    deadline_http_s: float = 30.0
    deadline_ssh_s: float = 300.0
    deadline_min_s: float = 0.1
    deadline_max_s: float = 3600.0
    wait_s: float = 45.0
    wait_max_s: float = 600.0
    recovery_s: float = 600.0
    key_window_s: float = 600.0
    dns_s: float = 5.0
    tcp_connect_s: float = 10.0
    tls_handshake_s: float = 10.0
    proxy_tunnel_s: float = 10.0
    setup_tries: int = 3
    attempts: int = 3
    connections: int = 64
    line: int = 16 * MIB
    batch_calls: int = 32
    body: int = 8 * MIB
    request_head: int = 64 * KIB
    url: int = 8 * KIB
    ssh_command: int = 32_000
    reason_chars: int = 500
    response_head: int = 64 * KIB
    inline_body: int = 256 * KIB
    result: int = 2 * GIB
    ssh_output: int = 32 * MIB
    """Stored of each stream; what is over it is drained."""
    chunk: int = 256 * KIB
    open_actions: int = 64
    open_actions_session: int = 16
    actions_per_s: float = 20.0
    actions_burst: int = 100
    kept_reading: int = 64
    loop_count: int = 5
    loop_window_s: float = 60.0
    loop_delay_s: float = 1.0
    loop_delay_max_s: float = 30.0
    card_shown_s: float = 120.0
    card_unshown_s: float = 600.0
    card_headless_s: float = 600.0
    cards_session: int = 5
    grant_s: float = 1800.0
    lease_s: float = 60.0
    result_days: float = 30.0
    diagnostic: int = 4 * KIB
    free_space: int = 2 * GIB
    free_space_share: float = 0.05
    quit_s: float = 10.0

    def told(self) -> dict[str, float]:
        """As `session.hello` gives them."""
        return dict(zip(_NAMES, _values(self), strict=True))


_NAMES = tuple(f.name for f in fields(Limits))
_values = attrgetter(*_NAMES)
