"""Output perturbation of models trained on the risk-averse loss: two systems of Lu et al. 2021.

    convexified-loss   as published: a tanh network, noise on one sampled output neuron per query. Its claim is REFUTED:
                       with three classes or more one answer tells two neighbouring data sets apart with certainty.
    convexified-head   repaired: a linear head on public features, in a ball, certified, noise on every logit. Proved.

Source      Lu, Asghar, Kaafar, Webb & Dickinson (2021), Algorithm 1, Tables I and IV, equations 22-23 and 30-32.
Claim       convexified-loss prints the publication's epsilon, with status `refuted` and the reason; what its steps
            release is counted as unprotected. convexified-head claims the exact composition of its Gaussian answers.
Departures  The published system sees a query as one step, and its claim covers all queries together, as the
            publication's own composition theorems say (its figures show one query at a time). The repaired one has a
            linear head, a ball, the true weight factor exp(alpha Bl) / (exp(alpha Bl) + n - 1), and charges what its
            certificate leaves open.
A query is one step; query B+1 is refused.
"""
