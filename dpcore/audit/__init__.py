"""Audits: lower bounds on epsilon from what an attacker observed, and the verdict on a claim.

coins = toss(1000, rng)                                    # which canaries go into the data
observed = guess(scores, coins, guesses_in=50, guesses_out=50)
audit = Audit(evidence=OneRunFDP(observed=observed), threat_model=ThreatModel.EVERY_UPDATE,
              adjacency=Adjacency.ADD_REMOVE, delta=1e-5)
AuditVerdict(audit=audit, guarantee=claim, audits=3).outcome    # consistent or refuted, never verified

An audit and its verdict are in `audit`, what is counted in `evidence`, scores in `attacks`.
Canaries are synthetic; on real members a score is a new private release.
"""
