"""What can be learnt of a trial beyond its own metrics: audits, membership attacks, quality.

quality      how good a released model is on public validation records, and functions of the user's own
audits       counts for `dpcore.audit`, by one run or by many, and membership attacks
canaries     canaries in the gradients of the system's own training
"""
