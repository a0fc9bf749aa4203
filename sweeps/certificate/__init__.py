"""Certificates: a signed document that says what a sweep claims, and from which anybody recomputes the claim.

plans     plans, ledger rows and profile as a document has them, and checks of what is recomputed
modes     the arithmetic of each kind of claim: one class each, recomputed from the document alone
document  what a certificate says, typed
count     the sweep that a certificate is about, which of its claims one may carry, and how that is counted
signing   Ed25519 by the operator's key, over the bytes of the document
build     from the store to a signed document
verify    from the document alone, with another project's accountant as a second opinion
page      the same for people
"""
