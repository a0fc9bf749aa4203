"""Tune looks a trial's trainable up again and again; within a sweep it is looked up once, and never beyond it."""

from __future__ import annotations

from ray import tune
from ray.tune import registry
from ray.tune.experiment import Trial

from sweeps.ray.patches import one_lookup


def test_a_sweep_looks_its_trainable_up_once_and_the_next_sweep_again(monkeypatch):
    lookups: list[str] = []
    plain = registry._global_registry.get
    monkeypatch.setattr(registry._global_registry, "get", lambda kind, name: lookups.append(name) or plain(kind, name))

    def names_of_four_trials() -> set[str]:
        return {Trial("looked-up", stub=False).get_trainable_cls().__name__ for _ in range(4)}

    tune.register_trainable("looked-up", lambda config: None)
    lookups.clear()
    without = names_of_four_trials()
    assert len(lookups) == 4, "Tune itself remembers now: sweeps/ray/patches.py can go"
    for _ in range(2):
        lookups.clear()
        with one_lookup():
            assert names_of_four_trials() == without
        assert lookups == ["looked-up"]
    names_of_four_trials()
    assert len(lookups) == 5
