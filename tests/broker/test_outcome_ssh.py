"""The SSH rows of the verdict tables, a case for each, and what holds for any evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker import outcome as oc
from affidavit.broker.outcome import ExitMeaning, Meaning
from affidavit.broker.terms import Code, Outcome, Phase, Retry, Stage
from affidavit.broker.wire.port import Connection, Fault, SetupFault, SetupStop
from affidavit.broker.wire.ssh.port import ExitSignal, SshEvidence

PLAIN = Meaning(idempotent=False, keyed=False)
KEYED = Meaning(idempotent=False, keyed=True)
IDEMPOTENT = Meaning(idempotent=True, keyed=False)

C, R, U = Outcome.COMMITTED, Outcome.REJECTED, Outcome.UNKNOWN

SETUP_CASES = [
    (Stage.DNS, SetupFault.NOT_FOUND, "DNS_FAILED", "after_correction"),
    (Stage.DNS, SetupFault.TEMPORARY, "DNS_FAILED", "backoff"),
    (Stage.DNS, SetupFault.LIMIT, "DNS_FAILED", "backoff"),
    (Stage.DNS, SetupFault.BLOCKED, "TARGET_BLOCKED", "after_correction"),
    (Stage.TCP_CONNECT, SetupFault.REFUSED, "CONNECT_FAILED", "backoff"),
    (Stage.TCP_CONNECT, SetupFault.LIMIT, "CONNECT_TIMEOUT", "backoff"),
    (Stage.SSH_VERSION, SetupFault.LIMIT, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_VERSION, SetupFault.REFUSED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_VERSION, SetupFault.GARBLED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_VERSION, SetupFault.INCOMPATIBLE, "SSH_TRANSPORT_FAILED", "after_correction"),
    (Stage.SSH_KEX, SetupFault.LIMIT, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_KEX, SetupFault.REFUSED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_KEX, SetupFault.GARBLED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_KEX, SetupFault.INCOMPATIBLE, "SSH_TRANSPORT_FAILED", "after_correction"),
    (Stage.HOST_KEY, SetupFault.HOST_KEY_UNKNOWN, "HOST_KEY_UNKNOWN", "after_correction"),
    (Stage.HOST_KEY, SetupFault.HOST_KEY_DIFFERS, "HOST_KEY_MISMATCH", "after_correction"),
    (Stage.SSH_AUTH, SetupFault.AUTH_REFUSED, "SSH_AUTH_FAILED", "after_correction"),
    (Stage.SSH_AUTH, SetupFault.AUTH_PARTIAL, "SSH_AUTH_FAILED", "after_correction"),
    (Stage.SSH_AUTH, SetupFault.LIMIT, "SSH_AUTH_FAILED", "backoff"),
    (Stage.SSH_AUTH, SetupFault.REFUSED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_AUTH, SetupFault.GARBLED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_CHANNEL, SetupFault.CHANNEL_SHORTAGE, "SSH_CHANNEL_REFUSED", "backoff"),
    (Stage.SSH_CHANNEL, SetupFault.CHANNEL_PROHIBITED, "SSH_CHANNEL_REFUSED", "after_correction"),
    (Stage.SSH_CHANNEL, SetupFault.LIMIT, "SSH_CHANNEL_REFUSED", "backoff"),
    (Stage.SSH_CHANNEL, SetupFault.REFUSED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_CHANNEL, SetupFault.GARBLED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_ENVIRONMENT, SetupFault.VARIABLE_REFUSED, "SSH_ENV_REFUSED", "after_correction"),
    (Stage.SSH_ENVIRONMENT, SetupFault.LIMIT, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_ENVIRONMENT, SetupFault.REFUSED, "SSH_TRANSPORT_FAILED", "backoff"),
    (Stage.SSH_ENVIRONMENT, SetupFault.GARBLED, "SSH_TRANSPORT_FAILED", "backoff"),
]


@pytest.mark.parametrize(("stage", "fault", "code", "retry"), SETUP_CASES)
def test_setup_rows(stage: Stage, fault: SetupFault, code: str, retry: str) -> None:
    verdict = oc.setup_verdict(SetupStop(None, stage, fault, "X"))
    assert (verdict.phase, verdict.outcome, verdict.code, verdict.retry) == (
        Phase.CONNECTION_SETUP,
        Outcome.NOT_ATTEMPTED,
        code,
        retry,
    )


@pytest.mark.parametrize(("stage", "fault", "code", "retry"), SETUP_CASES)
def test_setup_is_tried_again_where_it_may_help_but_never_a_login(
    stage: Stage, fault: SetupFault, code: str, retry: str
) -> None:
    verdict = oc.setup_verdict(SetupStop(None, stage, fault, "X"))
    assert oc.setup_may_repeat(verdict) == (retry == "backoff" and code != "SSH_AUTH_FAILED")


CROSSED = SshEvidence(crossed=True, connection=Connection("c-1", "127.0.0.1:22"), command_sent=True)
RUNS = replace(CROSSED, exec_accepted=True, stdin_complete=True)
ENDED = replace(RUNS, eof=True, closed=True, complete=True, completion="exit+eof+close")
SEGV = ExitSignal("SEGV", True, "")
REFUSED = replace(CROSSED, exec_refused=True, complete=True, completion="refused")

# evidence, outcome, code, retry if known idempotent, retry otherwise
RESULT_CASES = [
    (REFUSED, R, "SSH_EXEC_REFUSED", "after_correction", "after_correction"),
    (replace(ENDED, exit_status=0), C, "REMOTE_RESULT", "never", "never"),
    (replace(ENDED, exit_status=0, closed=False, completion="exit+eof"), C, "REMOTE_RESULT", "never", "never"),
    (replace(ENDED, exit_status=7), C, "REMOTE_RESULT", "backoff", "reconcile"),
    (replace(ENDED, exit_status=255), C, "REMOTE_RESULT", "backoff", "reconcile"),
    (replace(ENDED, exit_status=4294967295), C, "REMOTE_RESULT", "backoff", "reconcile"),
    (replace(ENDED, exit_signal=SEGV), C, "REMOTE_RESULT", "backoff", "reconcile"),
    (replace(RUNS, exit_status=0, fault=Fault.RESET), C, "REMOTE_RESULT_INCOMPLETE", "backoff", "never"),
    (replace(RUNS, exit_status=3, fault=Fault.CLOSED), C, "REMOTE_RESULT_INCOMPLETE", "backoff", "reconcile"),
    (replace(RUNS, exit_signal=SEGV, fault=Fault.SILENT), C, "REMOTE_RESULT_INCOMPLETE", "backoff", "reconcile"),
    (replace(RUNS, exit_status=0, fault=Fault.ABANDONED), C, "REMOTE_RESULT_INCOMPLETE", "backoff", "never"),
]


@pytest.mark.parametrize(("evidence", "outcome", "code", "idempotent", "otherwise"), RESULT_CASES)
def test_result_rows(evidence: SshEvidence, outcome: Outcome, code: str, idempotent: str, otherwise: str) -> None:
    for meaning, retry in ((PLAIN, otherwise), (KEYED, otherwise), (IDEMPOTENT, idempotent)):
        verdict = oc.ssh_verdict(evidence, meaning, {})
        assert (verdict.phase, verdict.outcome, verdict.code, verdict.retry) == (
            Phase.REMOTE_EXECUTION,
            outcome,
            code,
            retry,
        )


UNKNOWN_CASES = [
    replace(CROSSED, fault=Fault.CLOSED, observation="closed by peer"),
    replace(CROSSED, fault=Fault.ABANDONED, command_sent=False),
    replace(RUNS, fault=Fault.RESET),
    replace(RUNS, fault=Fault.MALFORMED),
    replace(RUNS, fault=Fault.SILENT),
    replace(RUNS, eof=True, closed=True, fault=Fault.CLOSED),
    replace(RUNS, closed=True, fault=Fault.CLOSED),
    replace(RUNS, violation="a second exit status", fault=Fault.CONTRADICTION, exit_status=0, eof=True, closed=True),
    replace(CROSSED, violation="output without a reply to exec", fault=Fault.CONTRADICTION, exit_status=0),
    replace(CROSSED, violation="an exit status after exec was refused", fault=Fault.CONTRADICTION, exec_refused=True),
    replace(CROSSED, exec_refused=True, fault=Fault.ABANDONED),
]


@pytest.mark.parametrize("evidence", UNKNOWN_CASES)
def test_what_does_not_decide_is_unknown(evidence: SshEvidence) -> None:
    for meaning, retry in ((PLAIN, "reconcile"), (KEYED, "same_idempotency_key"), (IDEMPOTENT, "backoff")):
        verdict = oc.ssh_verdict(evidence, meaning, {})
        assert (verdict.phase, verdict.outcome, verdict.code, verdict.retry) == (
            Phase.REMOTE_EXECUTION,
            U,
            "REMOTE_RESULT_INCOMPLETE",
            retry,
        )
        assert verdict.observation


def test_a_violation_is_what_was_observed() -> None:
    verdict = oc.ssh_verdict(UNKNOWN_CASES[7], PLAIN, {})
    assert verdict.observation == "a second exit status"


def test_the_contract_says_what_an_exit_status_means() -> None:
    exits = {
        75: ExitMeaning(R, Retry.BACKOFF),
        3: ExitMeaning(C, Retry.NEVER),
        4: ExitMeaning(C),
        5: ExitMeaning(R),
        0: ExitMeaning(C, Retry.BACKOFF),
    }

    def of(status: int) -> tuple[Outcome, Code, Retry]:
        verdict = oc.ssh_verdict(replace(ENDED, exit_status=status), PLAIN, exits)
        return verdict.outcome, verdict.code, verdict.retry

    assert of(75) == (R, Code.REMOTE_REJECTED, Retry.BACKOFF)
    assert of(3) == (C, Code.REMOTE_RESULT, Retry.NEVER)
    assert of(4) == (C, Code.REMOTE_RESULT, Retry.RECONCILE)
    assert of(5) == (R, Code.REMOTE_REJECTED, Retry.RECONCILE)
    assert of(0) == (C, Code.REMOTE_RESULT, Retry.NEVER)
    assert of(9) == (C, Code.REMOTE_RESULT, Retry.RECONCILE)


def test_the_contract_does_not_speak_of_a_cut_result_or_a_signal() -> None:
    exits = {75: ExitMeaning(R, Retry.BACKOFF)}
    cut = replace(RUNS, exit_status=75, fault=Fault.RESET)
    assert oc.ssh_verdict(cut, PLAIN, exits).outcome is C
    assert oc.ssh_verdict(replace(ENDED, exit_signal=SEGV), PLAIN, exits).retry is Retry.RECONCILE


MARKED_CASES = [
    (replace(RUNS, eof=True, closed=True, fault=Fault.CLOSED), C, "REMOTE_RESULT", "marker+eof+close"),
    (replace(RUNS, eof=True, fault=Fault.RESET), C, "REMOTE_RESULT", "marker+eof"),
    (replace(RUNS, closed=True, fault=Fault.CLOSED), C, "REMOTE_RESULT_INCOMPLETE", "marker"),
    (replace(RUNS, fault=Fault.RESET), C, "REMOTE_RESULT_INCOMPLETE", "marker"),
    (replace(RUNS, fault=Fault.ABANDONED), C, "REMOTE_RESULT_INCOMPLETE", "marker"),
]


@pytest.mark.parametrize(("evidence", "outcome", "code", "completion"), MARKED_CASES)
@pytest.mark.parametrize("meaning", [PLAIN, KEYED, IDEMPOTENT])
def test_a_marker_stands_in_for_an_exit_status(
    evidence: SshEvidence, outcome: Outcome, code: str, completion: str, meaning: Meaning
) -> None:
    verdict = oc.ssh_verdict(evidence, meaning, {}, marked=True)
    assert (verdict.outcome, verdict.code, verdict.retry) == (outcome, code, "never")
    assert oc.ssh_completion(evidence) == completion
    assert (completion in oc.CUT_SHORT) == (code == "REMOTE_RESULT_INCOMPLETE")


@pytest.mark.parametrize(
    "evidence",
    [
        REFUSED,
        replace(ENDED, exit_status=7),
        replace(ENDED, exit_signal=SEGV),
        replace(RUNS, exit_status=3, fault=Fault.CLOSED),
        replace(RUNS, violation="output after its end", fault=Fault.CONTRADICTION, eof=True),
    ],
)
def test_a_marker_changes_nothing_where_more_is_known(evidence: SshEvidence) -> None:
    assert oc.ssh_verdict(evidence, PLAIN, {}, marked=True) == oc.ssh_verdict(evidence, PLAIN, {})


def test_what_ended_a_cut_output_is_named() -> None:
    assert oc.ssh_completion(replace(RUNS, exit_status=3)) == "exit"
    assert oc.ssh_completion(replace(RUNS, exit_signal=SEGV)) == "signal"


@pytest.mark.parametrize(("eof", "code"), [(True, "REMOTE_RESULT"), (False, "REMOTE_RESULT_INCOMPLETE")])
def test_a_marker_at_the_deadline(eof: bool, code: str) -> None:
    verdict = oc.ssh_deadline_verdict(replace(RUNS, eof=eof), PLAIN, {}, caller_gone=False, marked=True)
    assert (verdict.outcome, verdict.code) == (C, code)
    unmarked = oc.ssh_deadline_verdict(replace(RUNS, eof=eof), PLAIN, {}, caller_gone=False)
    assert unmarked.code is Code.REMOTE_DEADLINE


def test_deadline_rows() -> None:
    def of(evidence: SshEvidence, *, gone: bool = False) -> tuple[Outcome, Code, Retry]:
        verdict = oc.ssh_deadline_verdict(evidence, PLAIN, {}, caller_gone=gone)
        return verdict.outcome, verdict.code, verdict.retry

    assert of(CROSSED) == (U, Code.REMOTE_DEADLINE, Retry.RECONCILE)
    assert of(RUNS) == (U, Code.REMOTE_DEADLINE, Retry.RECONCILE)
    assert of(replace(RUNS, stdout_bytes=9)) == (U, Code.REMOTE_DEADLINE, Retry.RECONCILE)
    assert of(CROSSED, gone=True) == (U, Code.CALLER_CANCELLED, Retry.RECONCILE)
    assert of(RUNS, gone=True) == (U, Code.REMOTE_DEADLINE, Retry.RECONCILE)
    assert of(replace(RUNS, exit_status=0)) == (C, Code.REMOTE_RESULT_INCOMPLETE, Retry.NEVER)
    assert of(replace(RUNS, exit_status=1)) == (C, Code.REMOTE_RESULT_INCOMPLETE, Retry.RECONCILE)
    assert of(replace(RUNS, exit_status=0, eof=True)) == (C, Code.REMOTE_RESULT, Retry.NEVER)
    assert of(replace(RUNS, exit_status=0, eof=True, violation="x")) == (
        U,
        Code.REMOTE_RESULT_INCOMPLETE,
        Retry.RECONCILE,
    )
    assert of(replace(RUNS, violation="x")) == (U, Code.REMOTE_RESULT_INCOMPLETE, Retry.RECONCILE)
    assert of(replace(ENDED, exit_status=0)) == (C, Code.REMOTE_RESULT, Retry.NEVER)
    assert of(replace(RUNS, fault=Fault.RESET)) == (U, Code.REMOTE_RESULT_INCOMPLETE, Retry.RECONCILE)
    assert of(replace(CROSSED, exec_refused=True)) == (U, Code.REMOTE_DEADLINE, Retry.RECONCILE)


EVIDENCE = st.builds(
    SshEvidence,
    crossed=st.just(True),
    stopped=st.just(None),
    connection=st.just(None),
    command_sent=st.booleans(),
    stdin_complete=st.booleans(),
    exec_accepted=st.booleans(),
    exec_refused=st.booleans(),
    stdout_bytes=st.integers(0, 2),
    stderr_bytes=st.integers(0, 2),
    exit_status=st.none() | st.integers(0, 4294967295),
    exit_signal=st.none() | st.just(SEGV),
    eof=st.booleans(),
    closed=st.booleans(),
    violation=st.none() | st.just("a second exit status"),
    complete=st.booleans(),
    fault=st.none() | st.sampled_from(list(Fault)),
)
MEANINGS = st.builds(Meaning, idempotent=st.booleans(), keyed=st.booleans())
EXITS = st.dictionaries(
    st.integers(0, 255),
    st.builds(ExitMeaning, outcome=st.sampled_from((C, R)), retry=st.none() | st.sampled_from(list(Retry))),
    max_size=3,
)


@given(EVIDENCE, MEANINGS, EXITS, st.booleans(), st.booleans())
def test_rejected_and_committed_take_what_decides_and_not_attempted_never_follows_the_line(
    evidence: SshEvidence, meaning: Meaning, exits: dict[int, ExitMeaning], deadline: bool, gone: bool
) -> None:
    if deadline:
        verdict = oc.ssh_deadline_verdict(evidence, meaning, exits, caller_gone=gone)
    else:
        verdict = oc.ssh_verdict(evidence, meaning, exits)
    assert verdict.outcome is not Outcome.NOT_ATTEMPTED
    assert verdict.phase is Phase.REMOTE_EXECUTION
    if evidence.violation is not None:
        assert verdict.outcome is U
    if verdict.outcome is R:
        assert evidence.complete or (deadline and evidence.exited and evidence.eof)
        assert evidence.exec_refused or evidence.exit_status in exits
    if verdict.outcome is C:
        assert evidence.exited
    if verdict.outcome is U:
        assert verdict.observation
        assert verdict.retry is oc.advice_unknown(meaning)
