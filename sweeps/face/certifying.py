"""Keys and verification from Python: what needs no sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue

if TYPE_CHECKING:
    from sweeps.certificate.verifying import Verification


def verify(certificate: str | Path, *, signer: str | Path) -> Verification:
    """Verify a certificate from its document alone: form, signature, hash chain and the arithmetic of its claim.

    signer  file with the public key (PEM) of whom it should be, which came by another way than the certificate

    `.stands` says whether everything holds; `print` of it says what was recomputed and what is the signer's word alone.
    Raises InvalidValue for files that cannot be read.
    """
    from sweeps.certificate.signing import public_key
    from sweeps.certificate.verifying import verify as verified

    try:
        data = Path(certificate).read_bytes()
    except OSError as error:
        raise InvalidValue(
            "--verify", str(certificate), "a certificate that can be read", f"{error.strerror}."
        ) from None
    return verified(data, public_key(Path(signer)))


def new_key(file: str | Path) -> Path:
    """Make an Ed25519 key pair to sign certificates with: `file`, which its owner alone can read, and `file`.pub, whose
    path comes back and which is given away. Raises InvalidValue where there is such a file."""
    from sweeps.certificate.signing import new_key as made

    return made(Path(file))
