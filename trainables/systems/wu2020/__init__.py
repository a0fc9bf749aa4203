"""Bayesian samplers and ordinary optimisers without protection: the methods whose membership leakage was compared.

    sgd       theta -= r g                                       g: mean gradient of the batch
    rmsprop   V = a V + (1-a) g^2;  theta -= r g / (sqrt(V) + c)
    dropout   sgd on the net with dropout behind every hidden unit
    sgld      theta -= (e/2) G;  theta += N(0, e)                G = theta / v + n g: gradient of -ln posterior
    psgld     V = a V + (1-a) G^2;  P = 1/(sqrt(V) + c);  theta -= (e/2) P G;  theta += N(0, e P)
    sghmc     w = (1-f) w - e G + N(0, 2 f e);  theta += w

Source      Wu et al. (2020), section "Evaluation"; SGLD Welling & Teh (2011), pSGLD Li et al. (2016, curvature term
            dropped), SGHMC Chen, Fox & Guestrin (2014), RMSprop Tieleman & Hinton (2012).
Claim       NOTHING. The gradients are not clipped, so no finite epsilon holds, whatever noise a sampler adds. Epsilon
            is infinite, and a spec has to say why such a trial may run (`privacy.allow_unprotected`). The paper's
            bounds are on membership leakage, conditional on a converged sampler, and vacuous for losses above 0.35
            (`dpcore.papers.membership`). The protected relatives are `clipped-sgld` and `dp-sgld`.
Metrics     The paper's: accuracy on training and validation records and their gap; AUC, F1 and accuracy of the
            threshold attack that is given the mean training loss; and for samplers the leakage Mpl. All but accuracy
            and loss on the validation records are computed from training records, without noise.
Ensembles   `average: K` averages the predicted probabilities of the last K iterates: the paper's `+` methods, K = 3.
            Metrics `last_*` are those of the last iterate alone: one training serves SGLD and SGLD+.
Departures  The rate halves every `halve_every` epochs, as the paper's set-up says; elsewhere it says that the rate is
            constant. Where it leaves open on which gradient pSGLD's V is built, it is G.
"""
