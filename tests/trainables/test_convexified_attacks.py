"""Shadow attacks: what they must find, what they must not, and that targets stay out of their training."""

import numpy as np
import pytest
from scipy.special import softmax

from dpcore.audit.attacks import attack_examples, disjoint_splits
from dpcore.checks import InvalidValue
from trainables.systems.lu2021.shadow import AttackModel, train_attack, train_shadows

CLASSES = 4


def predictions(labels, inside, rng, confidence):
    """Probabilities of a model that favours the true class by `confidence` for members, and by 1 for others."""
    logits = rng.normal(size=(*inside.shape, CLASSES))
    favour = np.where(inside, confidence, 1.0)[..., None]
    logits += favour * np.eye(CLASSES)[labels]
    return softmax(logits, axis=-1)


def attack_on(confidence, seed=0, examples=400, shadows=6):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, examples)
    found = train_shadows(
        lambda inside: predictions(labels, inside, rng, confidence),
        labels,
        shadows=shadows,
        size=examples // 2,
        rng=np.random.default_rng(seed + 1),
    )
    return train_attack(found, seed=0, epochs=10)


def leak(attack, confidence, seed, records=4000):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, records)
    sides = [predictions(labels, np.full(records, inside), rng, confidence) for inside in (True, False)]
    return attack.priv_leak(sides[0], labels, sides[1], labels)


def test_members_that_are_better_predicted_are_found():
    """The true class's logit moves by 3 standard deviations: the best threshold on it alone gives 0.86 or more."""
    assert 0.75 < leak(attack_on(4.0), 4.0, seed=9) < 1


def test_nothing_is_found_where_there_is_nothing():
    """Members and others alike: TPR - FPR of 4,000 each has a standard error of 0.011; wrong once in 10,000 seeds."""
    assert abs(leak(attack_on(4.0), 1.0, seed=10)) < 4 * 0.0112
    assert abs(leak(attack_on(1.0), 1.0, seed=11)) < 4 * 0.0112


def test_the_attack_is_a_function_of_its_seeds_and_survives_a_checkpoint():
    one, same = attack_on(2.0), attack_on(2.0)
    probabilities = softmax(np.random.default_rng(0).normal(size=(50, CLASSES)), axis=1)
    labels = np.arange(50) % CLASSES
    assert np.array_equal(one.scores(probabilities, labels), same.scores(probabilities, labels))
    restored = AttackModel.from_state(one.state())
    assert np.array_equal(one.scores(probabilities, labels), restored.scores(probabilities, labels))
    assert restored.top == CLASSES


def test_certain_and_hopeless_predictions_are_scored_all_the_same():
    """Probabilities of 0 and 1, as large noise makes them, lie outside what shadows showed."""
    attack = attack_on(2.0)
    scores = attack.scores(np.eye(CLASSES)[[0, 1, 2]], np.array([0, 2, 3]))
    assert np.all(np.isfinite(scores))
    assert np.all((scores >= 0) & (scores <= 1))


def test_shadows_train_on_halves_and_are_asked_about_both():
    rng, seen = np.random.default_rng(3), []
    labels = rng.integers(0, CLASSES, 100)

    def fit(inside):
        seen.append(inside)
        return predictions(labels, inside, rng, 2.0)

    found = train_shadows(fit, labels, shadows=5, size=30, rng=np.random.default_rng(4))
    assert seen[0].shape == (5, 100)
    assert np.all(seen[0].sum(axis=1) == 30)
    assert (len(found.members), found.members.sum()) == (5 * 60, 5 * 30)
    splits = disjoint_splits(100, 30, 5, np.random.default_rng(4))
    again = attack_examples(predictions(labels, seen[0], np.random.default_rng(3), 2.0), labels, splits, CLASSES)
    assert np.array_equal(found.members, again.members)
    # All probabilities in decreasing order, then the loss of the true class.
    assert np.all(np.diff(found.features[:, :CLASSES], axis=1) <= 0)


def test_too_large_shadows_are_refused():
    with pytest.raises(InvalidValue, match="half of the examples"):
        train_shadows(lambda inside: inside, np.zeros(10, dtype=int), shadows=2, size=6, rng=np.random.default_rng(0))
    with pytest.raises(InvalidValue, match="rows of probabilities"):
        train_shadows(
            lambda inside: np.ones((*inside.shape, CLASSES)),
            np.zeros(10, dtype=int),
            shadows=2,
            size=5,
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize("name", ["hidden", "batch_size", "epochs"])
def test_senseless_sizes_of_the_network_are_refused(name):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 20)
    found = train_shadows(
        lambda inside: predictions(labels, inside, rng, 2.0), labels, shadows=1, size=5, rng=np.random.default_rng(0)
    )
    with pytest.raises(InvalidValue) as refused:
        train_attack(found, seed=0, **{name: 0})
    assert refused.value.name == name
