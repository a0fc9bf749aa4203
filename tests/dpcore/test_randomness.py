"""Named streams: reproducible, independent by name, never built on a guessable seed."""

import hashlib
import hmac

import numpy as np
import pytest
import torch

from dpcore.checks import InvalidValue
from dpcore.randomness import Purpose, Streams, seeded_generator, twister_words

SECRET = bytes(range(32))


def streams(**changes: object) -> Streams:
    return Streams(**{"secret": SECRET, "seed": 7, "key": "sweep-3", "attempt": 1, **changes})  # type: ignore[arg-type]


def test_every_name_has_its_own_seed():
    seeds = [streams().derived_seed(purpose, step) for purpose in Purpose for step in (None, 0, 1)]
    seeds += [streams(key="sweep-4").derived_seed(purpose) for purpose in Purpose]
    seeds += [streams(attempt=2).derived_seed(Purpose.NOISE), streams(attempt=2).derived_seed(Purpose.SAMPLING)]
    assert len(set(seeds)) == len(seeds)
    assert all(len(seed) == 32 for seed in seeds)


def test_derivation_is_hkdf_sha256():
    """RFC 5869 with one output block, spelled out; a change would break the resume of every old sweep."""
    info = b"".join(len(p).to_bytes(4, "big") + p for p in (b"noise", b"sweep-3", b"1", b"all"))
    prk = hmac.new(b"dpcore.randomness.1", SECRET, hashlib.sha256).digest()
    assert streams().derived_seed(Purpose.NOISE) == hmac.new(prk, info + b"\x01", hashlib.sha256).digest()


def test_secret_purposes_depend_on_secret_and_attempt_only_and_public_ones_on_the_seed():
    for purpose in (Purpose.NOISE, Purpose.SAMPLING):
        assert streams().derived_seed(purpose) != streams(secret=SECRET[::-1]).derived_seed(purpose)
        assert streams().derived_seed(purpose) != streams(attempt=2).derived_seed(purpose)
        assert streams().derived_seed(purpose) == streams(seed=8).derived_seed(purpose)
    public = Purpose.INITIALISATION
    assert streams().derived_seed(public) == streams(secret=SECRET[::-1], attempt=2).derived_seed(public)
    assert streams().derived_seed(public) != streams(seed=8).derived_seed(public)


def test_the_secret_is_never_printed():
    assert repr(SECRET) not in repr(streams())
    with pytest.raises(InvalidValue) as caught:
        streams(secret=b"hunter2")
    assert "hunter2" not in str(caught.value)


def test_generators_repeat_and_touch_no_global_state():
    torch_before = torch.get_rng_state()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = (streams().torch(Purpose.NOISE) for _ in range(2))
    assert torch.equal(torch.randn(64, generator=one), torch.randn(64, generator=two))
    assert np.array_equal(streams().numpy(Purpose.NOISE).random(9), streams().numpy(Purpose.NOISE).random(9))
    assert torch.equal(torch_before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_the_torch_generator_is_mersenne_twister_with_the_whole_state_derived():
    """Oracle: NumPy's MT19937 given the same 624 words; manual_seed alone would keep 32 bits."""
    seed = streams().derived_seed(Purpose.NOISE)
    twister = np.random.MT19937(0)
    state = twister.state
    state["state"] = {"key": twister_words(seed).astype(np.uint32), "pos": 624}
    twister.state = state
    words = twister.random_raw(2 * 700).astype(np.uint64)
    expected = ((words[0::2] << np.uint64(32)) | words[1::2]) & np.uint64(2**63 - 1)
    found = torch.empty(700, dtype=torch.int64).random_(generator=seeded_generator(seed))
    assert np.array_equal(found.numpy().astype(np.uint64), expected)
