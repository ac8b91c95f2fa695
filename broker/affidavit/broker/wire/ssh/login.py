"""Authentication, as paramiko's thread hears of it: one method, one try, and the peer's own word on it (RFC 4252).

paramiko's handler keeps to itself which methods would go on, would answer prompts without limit, and tells a partial
success from a whole one only by an exception. Never an agent, never a key from a directory, never a second method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import paramiko
from paramiko.auth_handler import AuthHandler
from paramiko.common import cMSG_SERVICE_REQUEST, cMSG_USERAUTH_INFO_RESPONSE

from affidavit.broker.wire.ssh.fields import Fields, Malformed, string

PROMPTS = 16
"""Prompts in one round that are looked at. OpenSSH takes 100."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The peer has let us in."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It has not."""

    partial: bool
    """What was shown was good, and it wants more."""
    methods: str
    """Those that may go on, as the peer lists them."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """No signature algorithm that both sides take goes with the key."""


Result = Passed | Failed | Unsupported


class LoginHandler(AuthHandler):  # type: ignore[misc]
    """One login. `post` sends a message from the loop; `told` hears the result, in paramiko's thread."""

    def __init__(
        self, transport: paramiko.Transport, *, post: Callable[[bytes], None], told: Callable[[Result], None]
    ) -> None:
        super().__init__(transport)
        self.password: bytes | None = None
        self.submethods = ""
        self._post = post
        self._told = told
        self._answered = False
        self._wants_more = False

    def by_key(self, user: str, key: paramiko.PKey) -> None:
        self.auth_method, self.username, self.private_key = "publickey", user, key
        self._request_auth()

    def by_password(self, user: str, password: bytes) -> None:
        self.auth_method, self.username, self.password = "password", user, password
        self._request_auth()

    def by_answer(self, user: str, password: bytes) -> None:
        self.auth_method, self.username, self.password = "keyboard-interactive", user, password
        self._request_auth()

    def forget(self) -> None:
        """Let the secret go."""
        self.password = None
        self.private_key = None

    def _request_auth(self) -> None:
        """paramiko's own would go out in the middle of a key exchange too."""
        self._post(cMSG_SERVICE_REQUEST + string(b"ssh-userauth"))

    # -- the peer's messages, in paramiko's thread

    def _parse_service_accept(self, m: paramiko.Message) -> None:
        try:
            super()._parse_service_accept(m)
        except paramiko.AuthenticationException:
            self._told(Unsupported())

    def _parse_userauth_success(self, m: paramiko.Message) -> None:
        super()._parse_userauth_success(m)
        self._told(Passed())

    def _parse_userauth_failure(self, m: paramiko.Message) -> None:
        fields = Fields(m.asbytes())
        methods, partial = fields.text(500), fields.boolean()
        self._told(Failed(partial or self._wants_more, methods))

    def _parse_userauth_banner(self, m: paramiko.Message) -> None:
        """Not shown: it comes from a peer before anything is proven to it."""

    def _parse_userauth_info_request(self, m: paramiko.Message) -> None:
        """Answer one hidden prompt with the password; an empty round is answered, another one is another factor."""
        if self.auth_method != "keyboard-interactive":
            raise paramiko.SSHException("a prompt that nobody asked for")
        fields = Fields(m.asbytes())
        for _ in range(3):  # title, instruction, language
            fields.string()
        count = fields.uint32()
        if count > PROMPTS:
            raise Malformed
        shown = [(bytes(fields.string()), fields.boolean())[1] for _ in range(count)]
        answers: list[bytes] = []
        if shown == [False] and not self._answered:
            self._answered = True
            answers = [self.password or b""]
        elif shown:
            self._wants_more = True
        reply = paramiko.Message()
        reply.add_byte(cMSG_USERAUTH_INFO_RESPONSE)
        reply.add_int(len(answers))
        for answer in answers:
            reply.add_string(answer)
        self.transport._send_message(reply)
