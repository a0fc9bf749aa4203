"""Certificates: a signed document that says what a sweep claims, and from which anybody recomputes the claim.

    canonical    one spelling for every document
    signing      Ed25519 by the operator's key
    fields, claimed, chain, document  what a certificate says, typed
    modes/       the arithmetic of each kind of claim: one file each
    verifying, second_opinion  from the document alone
    approval, judging, gathering, building  from the store to a signed document
    page         the same for people

Nothing outside `gathering` and `building` reads a store.
"""
