"""What a sweep costs the people in its records, what may leave it, and what may be said of that.

claims, ledger, totals         what trials promise, and what all of them spent together
charge, privacy_filter         one budget for a whole sweep, and whether a launch fits
population, heldout            one budget for all sweeps over the same people; test records
release, published_store, wording  what the world may see, and in which words
"""
