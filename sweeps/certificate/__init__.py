"""Certificates: a signed document that says what a sweep claims, and from which anybody recomputes the claim.

checks    what a recomputation came to
plans     plans, ledger rows and profile as a document has them
subject   the sweep that a certificate is about, and which of its claims one may carry
modes, sealed  the arithmetic of each kind of claim: one class each, which is built from the store and recomputed
document  what a certificate says, typed
signing   Ed25519 by the operator's key, over the bytes of the document
build     from the store to a signed document
verify    from the document alone; second_opinion asks another project's accountant
page      the same for people
"""
