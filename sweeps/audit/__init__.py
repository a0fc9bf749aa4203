"""Audit a trial's claim: twins with canaries, a lower bound on epsilon, and a verdict that is never "verified".

audit_trial(workspace, "first", "3")       # sweeps.audit.audit_trial
audits_of(workspace.folder("first"))       # sweeps.audit.audit_records
"""
