"""The token of a Ray cluster: found where Ray itself looks, and sent from then on (Ray 2.60)."""

from __future__ import annotations

from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available


def send_token() -> bool:
    """Send the cluster's token from now on, if there is one; whether this process sends one.

    It is that of RAY_AUTH_TOKEN, of the file RAY_AUTH_TOKEN_PATH, or of `~/.ray/auth_token`, where `ray start` left it
    on the head's machine. Ray's own command line does the same. The variable RAY_AUTH_MODE alone would leave what this
    process has read before as it was; where it is set, it decides.
    """
    return bool(maybe_enable_token_auth_if_token_available(warn_if_disabled=False))
