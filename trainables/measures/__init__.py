"""What can be learnt of a trial beyond its own metrics: audits, membership attacks, and the twins that they run.

protocols, watching   what a system offers, and where it lets itself be watched
twins                 runs of a trial's plan that are never released
gradient_canaries     canaries in the gradients of the system's own training
evidence              counts for `dpcore.audit`, by one run or by many
membership, lira      membership attacks
quality, judged_quality  how good a released model is on public validation records
own_metrics           functions of the user's own on public validation records
objectives            the measures that a spec may name
"""
