"""Private selection: many trials run sealed, the best of them leaves, and one price covers the whole search.

How many trials there are is drawn once, in secret. What is not the winner is never written where anybody reads it.

price    plans of all configurations under one price, and what a claim by it rests on
run      how a search begins, and what leaves it
preview  what the search costs and may find, before it runs
compare  each way to charge for a search, side by side (`sweeps check --modes`)
"""
