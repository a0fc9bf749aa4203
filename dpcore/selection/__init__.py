"""What a search costs: mathematics alone, from a trial's profile to the price of what leaves the release boundary.

law = Capped(geometric(27), 447)                 # of K, the number of trials; a cap is free
count = draw(law, secrets.SystemRandom())        # once, secret, stored before the first trial
reference = ByReference(law=law, delta=1e-5)
reference.price(EventProfile(event))             # epsilon of the best of K such trials
rule = reference.points(EventProfile(event), 3.0)   # for configurations that differ
rule.exceeds(EventProfile(another))              # at most 0 where a configuration is covered

    counts    laws of K, and its drawing
    profiles  what one trial costs, as a curve in both directions; the Gaussian that dominates it, for a GDP filter
    best      what the random number of trials adds; the best of K is released; configurations that differ, at one price
    ladder    the first trial that meets a public target, of the cheapest of several budgets, or word that none did
    front     several public orders are answered from one search
    filters   every trial is released: reserve, and stop before the budget is exceeded
"""
