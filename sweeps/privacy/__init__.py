"""What a sweep costs the people in its records, what may leave it, and what may be said of that.

ledger, totals       what trials promise, and what all of them spent together
charge               what a launch costs, and whether it fits the one budget of a whole sweep
population, heldout  one budget for all sweeps over the same people; test records
release, wording     what the world may see, and in which words
"""
