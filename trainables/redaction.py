"""The one door of every text that is printed, logged or kept: what opens something becomes ***.

Two ways lead to what is hidden. By form: the password of a URL, the value of an option that is named like a secret.
By value: whatever this process's environment calls a secret, and the secrets of URLs in its environment, among its
arguments or known to the caller, in every spelling.
Where a malformed URL can be read in several ways, all of them are hidden: rather too much than a part of a password.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(\S*)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_OPTION = re.compile(r"([?&;])([^=&;?\s]+)=([^&\s]*)")
_NAMED = re.compile(
    r"pass(?:word|wd|phrase|code)|\bpwd\b|\bpass\b|secret|token(?!s)|\bsig\b|signature|credential"
    r"|(?:api|access|account|private|shared|signing)[_-]?key(?!word)|connection_?string",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"""(?ix) \b ( [\w.-]* (?:password|passwd|passphrase|secret|token|access_?key) )
    ( \s*=\s* | ["']\s*[:=]\s* ) ( '[^']*' | "[^"]*" | [^\s,;&)]+ )"""
)
_HEADER = re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic)\s+)[^\s\"']+")
_KEPT = "!#$%&'()*+,/:;=?@[]~"
"""Signs that clients leave as they are when they encode a URL once more."""
_CLOSING = re.compile(r"""['")\].,:;]*$""")
_PLACES = re.compile(r"(?:_|^)(?:PATH|FILE|DIR|FOLDER|MODE)$", re.IGNORECASE)
_NAMES_AS_USERS = re.compile(r"(?:postgres|mysql|mariadb|mssql|oracle|sqlite|hdfs|viewfs|abfs|wasb|ssh|sftp|git|file)")
"""Schemes whose user, where it stands alone, is a name. Another one's is a key."""
_PATHS_WITH_AT = frozenset({"http", "https", "s3", "gs", "gcs"})
"""Schemes whose paths may hold an @: behind a slash it ends no user."""
_FOLDERS = frozenset({"PWD", "OLDPWD"})
"""What every shell calls the folder that it is in and the one before."""
_SHORTEST_PASSWORD, _SHORTEST_OTHER = 4, 8
"""Characters of a value that is hidden wherever it stands: shorter ones are words and numbers of other texts."""


def redacted(text: str, *urls: str | None) -> str:
    """`text` as it may be read by everybody.

    urls  whose passwords are hidden wherever they stand in it, decoded ones too: those that an error may be about
    """
    known = {value for url in (*sys.argv, *urls) if url for value in _secrets_of(url)} | set(_secrets_of_environment())
    spelled = {spelling for value in known for spelling in _spellings(value)}
    return _by_form(_without(text, spelled))


def shown_url(url: str) -> str:
    """The whole text is a URL, spaces included: as it may be read by everybody."""
    return redacted(url, url)


def holds_secret(url: str) -> bool:
    """Whether a password or a token stands in this URL."""
    return "://" in url and _by_form(url) != url


def _without(text: str, values: Iterable[str]) -> str:
    """What several of them cover together is hidden together: none is looked for in the others' remains."""
    spans = sorted((found.start(), found.end()) for value in values for found in re.finditer(re.escape(value), text))
    kept, end = [], 0
    for start, stop in spans:
        if start >= end:
            kept += [text[end:start], HIDDEN]
        end = max(end, stop)
    return "".join([*kept, text[end:]])


def _by_form(text: str) -> str:
    text = _URL.sub(lambda found: f"{found[1]}://{_user(found[1].lower(), _options(found[2]))}", text)
    text = _HEADER.sub(lambda found: found[1] + HIDDEN, text)
    return _PAIR.sub(lambda found: found[0] if HIDDEN in found[3] else f"{found[1]}{found[2]}{HIDDEN}", text)


def _user(scheme: str, body: str) -> str:
    user, at, rest = body.rpartition("@")
    if not at or user.startswith("/"):
        return body
    name, colon, _ = user.partition(":")
    if colon:
        return f"{name}:{HIDDEN}@{rest}" if scheme not in ("s3", "gs", "gcs") else f"{HIDDEN}@{rest}"
    if _NAMES_AS_USERS.match(scheme) or ("/" in user and scheme in _PATHS_WITH_AT):
        return body
    return f"{HIDDEN}@{rest}"


def _options(body: str) -> str:
    def hidden(found: re.Match[str]) -> str:
        if not _NAMED.search(unquote(found[2])):
            return found[0]
        closing = _CLOSING.search(found[3])
        return f"{found[1]}{found[2]}={HIDDEN}{closing[0] if closing else ''}"

    return _OPTION.sub(hidden, body)


def _secrets_of(url: str) -> Iterator[str]:
    """Every reading of the URL's passwords that is long enough to be looked for."""
    if (found_scheme := _SCHEME.search(url)) is None:
        return
    scheme, body = found_scheme[1].lower(), url[found_scheme.end() :]
    authority = re.split(r"[/?#]", body, maxsplit=1)[0]
    found = []
    for user in (body.rpartition("@")[0], body.partition("@")[0], authority.rpartition("@")[0]):
        if "@" not in body or user.startswith("/"):
            continue
        name, colon, password = user.partition(":")
        if colon:
            # One that is the user's name too is hidden in the URL alone: elsewhere it is a word like others.
            if password != name:
                found.append(password)
            # A password that was not encoded: whoever parses the URL takes a part of it for host, port or path.
            if re.search(r"[@/?#]", password):
                found += [part for marks in ("@", "@/", "@/?#", "@/?#:") for part in re.split(f"[{marks}]", password)]
        elif not _NAMES_AS_USERS.match(scheme) and not ("/" in name and scheme in _PATHS_WITH_AT):
            found.append(name)
    found += [value for name, value in re.findall(r"[?&;]([^=&;?]+)=([^&]*)", body) if _NAMED.search(unquote(name))]
    yield from (value for value in found if len(value) >= _SHORTEST_PASSWORD)


def _secrets_of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if "://" in value:
            yield from _secrets_of(value)
        if _NAMED.search(name) and not _PLACES.search(name) and name not in _FOLDERS:
            password = "PASS" in name.upper()
            if len(value) >= (_SHORTEST_PASSWORD if password else _SHORTEST_OTHER):
                yield value


def _spellings(value: str) -> Iterator[str]:
    for plain in {value, unquote(value), unquote_plus(value)}:
        yield from (plain, quote(plain, safe=""), quote(plain), quote(plain, safe=_KEPT), quote_plus(plain))
        yield from (json.dumps(plain)[1:-1], repr(plain)[1:-1])
