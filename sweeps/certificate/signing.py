"""Ed25519 signatures of documents by the operator's key (RFC 8032, through the `cryptography` package).

The private key is a PEM file of the operator's own (PKCS 8), which `certify` reads once and keeps nowhere. The public
key is what people are given beforehand, by another way than the certificate: a signature shows that a document is of
the key's owner, never who that is. So verification takes the public key from outside, and the one inside a certificate
only says which key to look for.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpcore.checks import InvalidValue

DOMAIN = b"private-sweeps certificate, version 1\n"
"""Before the signed bytes: a key that signs other things too has signed no certificate by that."""
PUBLIC = ".pub"
"""What the file of the public key is called besides."""
SIGNATURE = ".sig"
"""Likewise that of a signature: it lies beside the document."""


def new_key(path: Path) -> Path:
    """Make a key pair: the private key at `path`, readable by its owner alone, the public one beside it, as `path`.pub.

    Returns the latter. Raises InvalidValue where either file is there already: a key is never written over.
    """
    public = path.with_name(path.name + PUBLIC)
    for one in (path, public):
        if one.exists():
            raise InvalidValue(
                "--new-key", str(one), "a file that is not there yet", "Certificates rest on the old one."
            )
    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    given = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, content, mode in ((path, secret, 0o600), (public, given, 0o644)):
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    return public


def private_key(path: Path) -> Ed25519PrivateKey:
    """The key in a PEM file of one's own, without a passphrase. Raises InvalidValue."""
    expected = "an Ed25519 private key as PEM (PKCS 8) without a passphrase"
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = f"{type(error).__name__}: `sweeps certify --new-key FILE` makes one."
        raise InvalidValue("--key", str(path), expected, reason) from None
    if not isinstance(found, Ed25519PrivateKey):
        raise InvalidValue("--key", str(path), expected, "`sweeps certify --new-key FILE` makes one.")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise InvalidValue("--key", str(path), "a file that its owner alone can read", f"chmod 600 {path}")
    return found


def public_key(path: Path) -> Ed25519PublicKey:
    """The key in a PEM file of whose owner one expects a certificate. Raises InvalidValue."""
    expected = "the signer's Ed25519 public key as PEM"
    try:
        found = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise InvalidValue("--signer", str(path), expected, f"{type(error).__name__}.") from None
    if not isinstance(found, Ed25519PublicKey):
        raise InvalidValue("--signer", str(path), expected)
    return found


def key_text(key: Ed25519PublicKey) -> str:
    """Its 32 bytes in hex."""
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()


def signed(key: Ed25519PrivateKey, content: bytes) -> str:
    """The signature of `content` in hex, 64 bytes."""
    return key.sign(DOMAIN + content).hex()


def is_signed(key: Ed25519PublicKey, content: bytes, signature: str) -> bool:
    """Whether `signature`, in hex, is of `content` by the owner of `key`."""
    try:
        key.verify(bytes.fromhex(signature), DOMAIN + content)
    except (InvalidSignature, ValueError):
        return False
    return True
