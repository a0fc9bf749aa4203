"""Both noise sources are standard normal in the middle, in the tails and between coordinates.

The secure source cannot be seeded, so its tests can fail by chance: each with probability at most 1e-9.
"""

import copy
import inspect
import os
import pickle

import numpy as np
import pytest
import torch
from scipy import stats

from dpcore.noise import Keystream, PseudorandomNoise, SecureNoise
from dpcore.randomness import Purpose, Streams

torch.set_num_threads(1)
ALARM = 1e-9
N = 400_001


def pseudorandom() -> PseudorandomNoise:
    streams = Streams(secret=bytes(range(32)), seed=0, key="noise-test")
    return PseudorandomNoise(streams.torch(Purpose.NOISE))


def faults(source, dtype=torch.float64, draws: int = N) -> list[str]:
    x = source.fill_(torch.empty(draws, dtype=dtype)).double().numpy()
    found = []
    if stats.kstest(x, "norm").pvalue < ALARM:
        found.append("Kolmogorov-Smirnov")
    if stats.chi2.sf((x**2).sum(), draws) < ALARM or stats.chi2.cdf((x**2).sum(), draws) < ALARM:
        found.append("variance")
    edges = np.array([-np.inf, -4.5, -4, -3.5, -3, -2, 2, 3, 3.5, 4, 4.5, np.inf])
    expected = draws * np.diff(stats.norm.cdf(edges))
    observed = np.histogram(x, bins=edges)[0]
    pvalues = [stats.binomtest(int(o), draws, e / draws).pvalue for o, e in zip(observed, expected, strict=True)]
    if min(pvalues) < ALARM / len(pvalues):
        found.append("tails")
    limit = stats.norm.isf(ALARM / 20)
    for lag in (1, 2, 3, 7, draws // 2, 16384, 32768):
        for left, right in ((x[:-lag], x[lag:]), (x[:-lag] ** 2 - 1, x[lag:] ** 2 - 1)):
            z = (left * right).sum() / (np.sqrt(len(left)) * left.std() * right.std())
            if abs(z) > limit:
                found.append(f"lag {lag}")
    if len(np.unique(x)) < 0.999 * draws and dtype == torch.float64:
        found.append("repeats")
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [pseudorandom, SecureNoise])
def test_standard_normal(make, dtype):
    assert faults(make(), dtype) == []


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (7, 5), (32769,)])
@pytest.mark.parametrize("make", [pseudorandom, SecureNoise])
def test_any_shape_is_filled_in_place(make, shape):
    tensor = torch.full(shape, float("nan"), dtype=torch.float64)
    assert make().fill_(tensor) is tensor
    assert bool(torch.isfinite(tensor).all())
    if tensor.numel() > 1:
        assert len(tensor.unique()) == tensor.numel()


def test_nobody_can_seed_copy_or_restore_the_secure_source():
    assert list(inspect.signature(SecureNoise).parameters) == []
    torch.manual_seed(0)
    one = SecureNoise().fill_(torch.empty(8))
    torch.manual_seed(0)
    two = SecureNoise().fill_(torch.empty(8))
    assert not torch.equal(one, two)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="repeat its noise"):
            attempt(SecureNoise())


def test_a_forked_process_draws_other_noise():
    source = SecureNoise()
    source.fill_(torch.empty(4))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.fill_(torch.empty(4, dtype=torch.float64)).numpy().tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    theirs = np.frombuffer(os.read(reader, 32))
    os.close(reader)
    ours = source.fill_(torch.empty(4, dtype=torch.float64)).numpy()
    assert len(theirs) == 4
    assert not np.array_equal(ours, theirs)


def test_a_keystream_of_one_key_is_aes_in_counter_mode():
    """The first counter is 0: AES-256 of sixteen zero bytes under a key of zeros, as in the Galois/counter mode's test
    case 13 (McGrew & Viega 2005), where it is the hash key."""
    assert Keystream.derived(bytes(32)).words(2).tobytes().hex() == "dc95c078a2408989ad48a21492842087"


def test_a_keystream_can_be_had_again_from_its_key_and_from_nothing_else():
    one, two = Keystream.derived(b"k" * 32), Keystream.derived(b"k" * 32)
    whole = two.words(300)
    assert np.array_equal(np.concatenate([one.words(1), one.words(299)]), whole)
    assert not np.array_equal(Keystream.derived(b"l" * 32).words(300), whole)
    assert not np.array_equal(Keystream().words(4), Keystream().words(4))
    with pytest.raises(ValueError, match="31 bytes, expected 32"):
        Keystream.derived(bytes(31))
    uniform = one.random(100_000)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert stats.kstest(uniform, "uniform").pvalue > ALARM
