"""A sweep as a job of a Ray cluster: its controller runs there, and any machine follows it.

parcel.py    what travels: this code, the spec, arguments and tokens, as one folder
jobs.py      the door to the cluster's job server
start.py     what runs on the cluster: `python -m sweeps.submission.start`
command.py   `sweeps submit`
"""
