"""How far one record moves the minimiser of a strongly convex empirical risk.

    J(theta) = (1/n) sum_i loss(theta; x_i, y_i) + (modulus/2) ||theta||_F^2,   ||x_i|| <= 1,  n public

Replacing one record moves the gradient by at most 2K/n, adding or removing one (with the divisor n kept) by K/n,
where K is the loss's Lipschitz constant in the logits; strong convexity divides that by the modulus.

Source  Chaudhuri, Monteleoni & Sarwate (2011), Lemma 7 and Corollary 8; van der Maaten & Hannun (2020), Lemma 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcore import checks
from dpcore.events import Adjacency
from dpcore.guarantee import Status

SOFTMAX_LIPSCHITZ = math.sqrt(2.0)
"""Of softmax cross-entropy: ||p - e_y||_2 <= sqrt(2)."""

EXACT_MINIMISER = "The released minimiser is exact."
CERTIFIED_MINIMISER = (
    "The released minimiser is as near to the exact one as its gradient certifies; the rest is charged."
)
UNIT_INPUTS = "Every record is scaled to norm at most 1 by itself, before training; n is a public constant."


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimiserSensitivity:
    """L2 (Frobenius) sensitivity of the minimiser, certificate included.

    n          the public divisor of the objective
    modulus    of strong convexity, above 0 (the regularisation, for 0.5 ||theta||^2)
    tau        public bound on the gradient norm at the released point: it lies within tau / modulus of the minimiser,
               so 2 tau / modulus is added. None: exactness is assumed and the status says so.
    lipschitz  K
    """

    n: int
    modulus: float
    adjacency: Adjacency
    tau: float | None = None
    lipschitz: float = SOFTMAX_LIPSCHITZ

    def __post_init__(self) -> None:
        checks.count(minimum=1, n=self.n)
        checks.positive_finite(modulus=self.modulus, lipschitz=self.lipschitz)
        if self.tau is not None:
            checks.non_negative_finite(tau=self.tau)

    @property
    def exact(self) -> float:
        """Of the exact minimiser: 2K/(modulus n) under replace-one, half of that under add-remove."""
        records = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        return records * self.lipschitz / (self.modulus * self.n)

    @property
    def value(self) -> float:
        """Of the released point."""
        return self.exact + (0.0 if self.tau is None else 2 * self.tau / self.modulus)

    @property
    def status(self) -> Status:
        """`proved` with a certificate."""
        return Status.PROVED_UNDER_ASSUMPTIONS if self.tau is None else Status.PROVED

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a claim on it rests on besides."""
        if self.tau is None:
            return (UNIT_INPUTS, EXACT_MINIMISER)
        return (UNIT_INPUTS, CERTIFIED_MINIMISER)
