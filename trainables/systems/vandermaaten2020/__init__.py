"""Private prediction: four systems of van der Maaten & Hannun 2020, on linear models (votes: on any model).

    model-sensitivity         noise on the minimiser, once; any number of queries
    loss-perturbation         noise in the objective, once; any number of queries
    prediction-sensitivity    noise on the logits of each of B queries; query B+1 is refused
    subsample-and-aggregate   a soft vote of M models for each of B queries; query B+1 is refused

(The fifth method of the paper, DP-SGD, is `noisy-sgd`.)

Source      van der Maaten & Hannun (2020), Theorems 1-8.
Claim       Gaussian noise: the exact composition of `queries` Gaussians. Pure noise and votes: the optimal composition
            of equal pure releases (Kairouz, Oh & Viswanath 2015), or zCDP for votes where that is less.
Departures  Inputs are cut to norm 1 one by one. Minimisers are certified by their gradient, and what the certificate
            leaves open is charged: `proved`, not an assumed exact minimiser. Loss perturbation counts replace-one with
            twice the gradient shift and hides how the optimiser stopped by output noise of its own share; its
            Gaussian form has the repaired scale. Votes use the exact loss of one vote; networks that vote are
            trained without flips and crops. `composition: standard` and `advanced` solve the noise as the paper
            does; the claim is the exact one, and the paper's stands beside it.
As printed  `composition: published` votes at the refuted beta = epsilon/B, and `noise: gaussian-published` perturbs the
            loss at the scale of Theorem 4. The headline is then the paper's claim with its status; the ledger is
            charged what is proved to be spent, and that stands beside it.
A query is one step. Prediction methods answer the first `queries` validation records of a publicly seeded order, so
their accuracy is a fact about the private answers alone.
"""
