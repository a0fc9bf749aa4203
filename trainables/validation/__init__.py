"""Validation records: public by declaration, or private and then reported through noised histograms alone.

planning        a system's plan with those releases inside the budget
histogram_bins  the histogram that a task is judged by, and what its counts say
evaluate        what a model does on each record, and the metrics of one report, or of a test
"""
