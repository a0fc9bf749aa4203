"""Membership attacks that have to train something: shadow models and the network that learns from them.

    examples = train_shadows(fit, labels, shadows=20, size=1000, rng=rng)     # fit trains all shadows as one group
    attack = train_attack(examples, seed=0)
    attack.priv_leak(member_probabilities, member_labels, other_probabilities, other_labels)

Source  Shokri, Stronati, Song & Shmatikov (2017); Priv_Leak is TPR - FPR (Lu et al. 2021, equation 32). The scoring is
        in `dpcore.audit.attacks`. What such an attack does not find may be there: a small Priv_Leak proves nothing.
"""

from __future__ import annotations

from trainables.attacks.shadow import AttackModel, FitMany, train_attack, train_shadows

__all__ = ["AttackModel", "FitMany", "train_attack", "train_shadows"]
