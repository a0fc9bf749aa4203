"""What a sweep costs the people in its records, what may leave it, and what may be said of that.

claims, ledger, totals, holdout_guarantee  what trials promise, and what all of them spent together
charge, sweep_budget, privacy_filter  one budget for a whole sweep, and whether a launch fits
population  one budget for all sweeps over the same people
release, published_store, quoting, wording  what the world may see, and in which words
"""
