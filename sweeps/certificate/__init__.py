"""Certificates: a signed document that says what a sweep claims, and from which anybody recomputes the claim.

modes     the arithmetic of each kind of claim: one class each, with plans and ledger rows, recomputed from it alone
document  what a certificate says, typed
signing   Ed25519 by the operator's key, over the bytes of the document
build     from the store to a signed document: which claims one may carry, and how each is counted
verify    from the document alone, with another project's accountant as a second opinion
page      the same for people
"""
