"""A Secret leaks in none of the ways in which Python shows values."""

import copy
import json
import logging
import pickle
import traceback

import pytest

from affidavit.broker.secret import Secret, SecretWiped, overwrite

VALUE = b"planted-secret-4711"


def test_lends_its_bytes_and_only_for_the_call() -> None:
    secret = Secret(bytearray(VALUE))
    kept: list[memoryview] = []
    assert secret.use(bytes) == VALUE
    secret.use(kept.append)
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])


def test_the_lent_view_cannot_be_written() -> None:
    secret = Secret(bytearray(VALUE))
    with pytest.raises(TypeError):
        secret.use(lambda lent: lent.__setitem__(0, 0))


def test_no_way_of_printing_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(VALUE)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r}", "%s %r" % (secret, secret), f"{[secret]}"]  # noqa: UP031 - one of the ways
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").debug("%s %r", secret, secret)
    for text in [*shown, caplog.text]:
        assert "planted" not in text
    assert repr(secret) == "Secret()"
    with pytest.raises(TypeError):
        format(secret, "x")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret(VALUE), protocol)


def test_is_not_copied_or_taken_apart() -> None:
    secret = Secret(VALUE)
    for way in (copy.copy, copy.deepcopy, vars, json.dumps, bytes, list, lambda s: s.__getstate__()):
        with pytest.raises(TypeError):
            way(secret)  # type: ignore[operator]


def test_is_not_compared_or_hashed() -> None:
    for way in (lambda s: s == Secret(VALUE), lambda s: s != VALUE, lambda s: s in [VALUE], hash, lambda s: {s}):
        with pytest.raises(TypeError):
            way(Secret(VALUE))  # type: ignore[no-untyped-call]


def test_a_traceback_with_locals_shows_nothing() -> None:
    def fail(lent: memoryview) -> None:
        raise RuntimeError("inside")

    secret = Secret(VALUE)
    try:
        secret.use(fail)
    except RuntimeError as error:
        whole = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "inside" in whole
    assert "lent" in whole
    assert "planted" not in whole


def test_takes_a_bytearray_over_and_overwrites_it() -> None:
    value = bytearray(VALUE)
    secret = Secret(value)
    secret.wipe()
    secret.wipe()
    assert value == bytes(len(VALUE))
    with pytest.raises(SecretWiped):
        secret.use(bytes)


def test_leaving_a_with_block_or_being_collected_wipes() -> None:
    first, second = bytearray(VALUE), bytearray(VALUE)
    with Secret(first):
        assert first == VALUE
    held = Secret(second)
    del held
    assert not any(first)
    assert not any(second)


def test_a_copy_outlives_its_original() -> None:
    secret = Secret(VALUE)
    other = secret.copy()
    secret.wipe()
    assert other.use(bytes) == VALUE


def test_text_is_refused() -> None:
    with pytest.raises(TypeError):
        Secret("text")  # type: ignore[arg-type]


def test_overwrite_keeps_the_length() -> None:
    value = bytearray(b"abc")
    overwrite(value)
    assert value == b"\0\0\0"
