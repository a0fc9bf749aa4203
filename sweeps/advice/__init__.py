"""What each way to charge for the search would cost this spec, side by side, before it runs (`sweeps check --modes`).

advising     the comparison, from spec and public facts
middle       the configuration that all modes are compared by, and its plan for any budget
laws         laws of the number of trials, at an equal chance of a good one
open_modes   every trial leaves: one run, `scope: trial`, composition
sealed_modes  one trial leaves: the best, the first that meets a target
parted_modes  tuning and the final run on different records: holdout, public proxy data
proxy        what a sweep on public records lets one expect
comparison   the rows, as values
words, picture  the same as text and as a plot
"""
