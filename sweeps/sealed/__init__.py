"""Private selection: many trials run sealed, the best of them leaves, and one price covers the whole search.

How many trials there are is drawn once, in secret. What is not the winner is never written where anybody reads it.

    law       the law of the number of trials that a spec asks for
    planning  plans of all configurations under one price: two-point calibration
    coordinates  where configurations lie, for workers that follow results
    led       what it costs that results lead the search
    preview   what the search costs and may find, before it runs
"""
