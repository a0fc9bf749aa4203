"""The one door of every text that is printed, logged or kept: what opens something becomes ***.

Hidden are the passwords and tokens of URLs where they stand, and, wherever they stand, the values of the environment's
variables that are named like a secret, and the passwords of URLs in the environment or known to the caller.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"

_SECRET = re.compile(
    r"pass(?:word|wd|phrase)|(?<![a-z])(?:pwd|pass)(?![a-z])|secret|token(?!s|iz)|\bsig\b|signature|credential"
    r"|(?:_|^)auth$|(?:api|access|account|private)[_-]?key|_key$|connection_?string",
    re.IGNORECASE,
)
"""How secrets are named, in options of URLs and in the environment."""
_NO_SECRETS = re.compile(
    r"(?:_|^)(?:path|file|dir|folder|mode|credentials)$|^(?:OLD)?PWD$|^MLFLOW_TRACKING_AUTH$", re.I
)
"""Names of places where secrets lie, and of ways to use them."""
_SCHEME = re.compile(r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://?)")
"""How a URL begins; written as a path it has one slash."""
_OPTION = re.compile(r"([?&;#])([^=&;?\s]+)=([^&\s'\"]+)")
_NAMES_AS_USERS = ("postgres", "mysql", "mariadb", "mssql", "oracle", "sqlite", "hdfs", "abfs", "wasb", "ssh", "git")
"""Beginnings of schemes whose user, where it stands alone, is a name. Another one's is a key."""
_KEYS_AS_USERS = ("s3", "gs", "gcs")
_SHORTEST = 6
"""Characters of a value that is hidden wherever it stands: shorter ones are words and numbers of other texts."""
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    lambda value: repr(value)[1:-1],
    lambda value: json.dumps(value)[1:-1],
    partial(quote, safe=""),
    quote,
    quote_plus,
)
"""How a value stands in texts: as it is, as Python and JSON write it, and in URLs."""


def redacted(text: str, *urls: str | None) -> str:
    """`text` as it may be read by everybody.

    urls  whose passwords are hidden wherever they stand in it, decoded ones too: those that an error may be about
    """
    known = {secret for url in (*os.environ.values(), *urls) if url and "://" in url for secret in _in_urls(url)[1]}
    known |= {value for name, value in os.environ.items() if _SECRET.search(name) and not _NO_SECRETS.search(name)}
    meant = {way(value) for value in known if len(value) >= _SHORTEST for way in (str, unquote, unquote_plus)}
    spelled = {way(value) for value in meant for way in _SPELLINGS}
    # The longest first: none is looked for in the remains of another.
    for value in sorted(spelled, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)" if value.isalpha() else re.escape(value), HIDDEN, text)
    return _in_urls(text)[0]


def shown_url(url: str) -> str:
    """The whole text is a URL, spaces included: as it may be read by everybody."""
    return redacted(url, url)


def holds_secret(url: str) -> bool:
    """Whether a password or a token stands in this URL."""
    return _in_urls(url)[0] != url


def _in_urls(text: str) -> tuple[str, set[str]]:
    """The text without the passwords of its URLs, and these: each URL goes on to the next space, or to the next one."""
    found = set()

    def option(part: re.Match[str]) -> str:
        if not _SECRET.search(unquote(part[2])):
            return part[0]
        found.add(part[3])
        return f"{part[1]}{part[2]}={HIDDEN}"

    before, *parts = _SCHEME.split(text)
    shown = [before]
    for scheme, rest in zip(parts[::2], parts[1::2], strict=True):
        user, name, password = _user(scheme, rest)
        if user is not None:
            hidden = f"{name}:{HIDDEN}" if password and not scheme.startswith(_KEYS_AS_USERS) else HIDDEN
            rest = hidden + rest[len(user) :]
            if password != name:
                found.add(password or name)
        shown.append(scheme + _OPTION.sub(option, rest))
    return "".join(shown), found


def _user(scheme: str, rest: str) -> tuple[str | None, str, str]:
    """What stands before the @ of a URL, with its name and its password; None where nothing there is secret."""
    body = rest.split(maxsplit=1)[0] if rest[:1].strip() else ""
    authority = body.partition("?")[0]
    user, at, _ = (authority if "@" in authority else body).rpartition("@")
    name, colon, password = user.partition(":")
    if not at or "/" in name or (not colon and scheme.startswith(_NAMES_AS_USERS)):
        return None, "", ""
    return user, name, password
