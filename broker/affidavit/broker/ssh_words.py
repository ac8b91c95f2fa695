"""What an SSH peer says in its own words, and what secrets it may say in them: it was sent the passwords. Pure.

Words are a farewell, a refusal, the name and message of a signal. Where they were cut they end with `CUT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from affidavit.broker.hops import Lent
from affidavit.broker.redact import Forms, redact, redact_cut
from affidavit.broker.vault.host_entry import Hop
from affidavit.broker.vault.kinds import SshPasswordOptions
from affidavit.broker.wire.port import SetupStop
from affidavit.broker.wire.ssh.fields import CUT
from affidavit.broker.wire.ssh.port import SshEvidence


def forms_of(way: Sequence[Hop], lent: Sequence[Lent]) -> Forms:
    """What is redacted of whatever comes from this way. A password goes out whole, a key never does."""
    secrets = [each.secret.use(bytes) for each in lent]
    sent = [
        secret
        for hop, secret in zip(way, secrets, strict=True)
        if isinstance(hop.credential.options, SshPasswordOptions)
    ]
    return Forms(secrets, sent)


def redacted(evidence: SshEvidence, forms: Forms) -> SshEvidence:
    """The same evidence, its words redacted."""
    signal, stopped, observation = evidence.exit_signal, evidence.stopped, evidence.observation
    if signal is not None:
        signal = replace(signal, name=_words(signal.name, forms), message=_words(signal.message, forms))
    return replace(
        evidence,
        exit_signal=signal,
        stopped=redacted_stop(stopped, forms) if stopped is not None else None,
        observation=_words(observation, forms) if observation is not None else None,
    )


def redacted_stop(stopped: SetupStop, forms: Forms) -> SetupStop:
    return replace(stopped, detail=_words(stopped.detail, forms))


def _words(text: str, forms: Forms) -> str:
    if text.endswith(CUT):
        return redact_cut(text.removesuffix(CUT).encode(), forms).decode("utf-8", "replace") + CUT
    return redact(text.encode(), forms)[0].decode("utf-8", "replace")
