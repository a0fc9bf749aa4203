"""`sweeps account`: what a setting spends, or what meets a budget."""

from sweeps.account.account_command import account_app

__all__ = ["account_app"]
