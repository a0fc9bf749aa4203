"""Validation records: public by declaration, or private and then reported through noised histograms alone.

declaration  what a spec says of them under `data.validation`
reports      the releases of one trial, as its plan carries them
planning     a system's plan with those releases inside the budget
judgements   what a model does on each record
cells        the histogram that a task is judged by, and what its counts say
grouped_cells  the same for each declared group of records
layouts      which of them a task is judged by
judging      the metrics of one report
"""
