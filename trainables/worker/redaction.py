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
_OPTION = re.compile(r"([?&;#])([^=&;?\s]+)=([^&\s]*)")
_NAMED = re.compile(
    r"pass(?:word|wd|phrase|code)|(?<![a-z])(?:pwd|pass)(?![a-z])|secret|token(?!s|iz)|\bsig\b|signature|credential"
    r"|(?:api|access|account|private|shared|signing)[_-]?key(?!word)|connection_?string",
    re.IGNORECASE,
)
_NAME = r"""[\w.-]* (?: password | passwd | passphrase | secret | token | pwd
    | (?: access | account | api | secret ) [_-]? key )"""
_QUOTED = r"""'(?:[^'\\]|\\.)+' | "(?:[^"\\]|\\.)+" """
_PAIR = re.compile(
    rf"""(?ix) (?<![\w.-]) (?P<name>{_NAME}) (?P<equals>\s*=\s*)
    (?P<value> {_QUOTED} | \{{[^{{}}]*\}} | (?: (?!["')\]}}>.,;:]{{0,8}}(?:\s|\Z)) [^\s,;&)] )+ )"""
)
"""name=value. Closing quotes and stops behind a value are the sentence's."""
_ENTRY = re.compile(
    rf"""(?ix) (?P<key> (["']) {_NAME} \2 \s*[:=]\s* )
    (?: [bru]? (?: {_QUOTED} ) | (?<!token["']:\s) (?<!token["']:) (?=[^\s,;&)}}\]]*\d) [^\s,;&)}}\]["'{{]+ )"""
)
"""'name': 'value', as mappings are printed. Without quotes a value is one with a digit; a number of tokens is none."""
_DEEPEST = 20
"""Pairs within values of pairs that are looked at."""
_SHORT_NUMBER = re.compile(r"[-+]?\d{1,6}(?:\.\d*)?(?:e[-+]?\d+)?(?=/|\Z)", re.IGNORECASE)
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
_PASSWORDS = re.compile(r"pass|pwd", re.IGNORECASE)
_KEYS = re.compile(r"(?:_|^)(?:KEY|AUTH)$", re.IGNORECASE)
"""Ends of names in the environment whose values are secrets too."""
_METHODS = frozenset({"MLFLOW_TRACKING_AUTH"})
"""Names like these that hold the name of a method."""
_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
_SETTINGS = frozenset({"true", "false", "none", "null", "enabled", "disabled"})
COMMON = _SETTINGS | {
    *("sweeps", "postgres", "postgresql", "mysql", "mariadb", "mssql", "oracle", "sqlite", "redis", "http", "https"),
    *("file", "hdfs", "abfs", "wasb", "sftp"),
}
"""Words of every other text: a password that is one of them is hidden in its URL and behind its name alone."""
_WORD = re.compile(r"[a-z]{4,8}")
"""A value that may be a part of other words."""
_SHORTEST_PASSWORD, _SHORTEST_OTHER = 4, 8
"""Characters of a value that is hidden wherever it stands: shorter ones are words and numbers of other texts."""


def redacted(text: str, *urls: str | None) -> str:
    """`text` as it may be read by everybody.

    urls  whose passwords are hidden wherever they stand in it, decoded ones too: those that an error may be about
    """
    known = {value for url in (*sys.argv, *urls) if url for value in _secrets_of(url)} | set(_secrets_of_environment())
    spelled = {spelling for value in known for spelling in _spellings(value) if not _is_common(spelling)}
    return _by_form(_without(text, spelled))


def shown_url(url: str) -> str:
    """The whole text is a URL, spaces included: as it may be read by everybody."""
    return redacted(url, url)


def holds_secret(url: str) -> bool:
    """Whether a password or a token stands in this URL."""
    return _in_urls(url) != url


def _without(text: str, values: Iterable[str]) -> str:
    """What several of them cover together is hidden together: none is looked for in the others' remains."""
    spans = sorted(found.span() for value in values for found in re.finditer(_pattern(value), text))
    kept, end = [], 0
    for start, stop in spans:
        if start >= end:
            kept += [text[end:start], HIDDEN]
        end = max(end, stop)
    return "".join([*kept, text[end:]])


def _is_common(value: str) -> bool:
    return value in COMMON or value.lower() in _SETTINGS


def _pattern(value: str) -> str:
    plain = re.escape(value)
    if not _WORD.fullmatch(value):
        return plain
    # The letters of an encoded sign before it belong to no word.
    return rf"(?:(?<!\w)|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\[nrt])){plain}(?!\w)"


def _by_form(text: str) -> str:
    text = _HEADER.sub(lambda found: found[1] + HIDDEN, _in_urls(text))
    text = _ENTRY.sub(lambda found: found["key"] + HIDDEN, text)
    return _pairs(text)


def _in_urls(text: str) -> str:
    return _URL.sub(lambda found: f"{found[1]}://{_user(found[1].lower(), _options(found[2]))}", text)


def _pairs(text: str, depth: int = 0) -> str:
    return _PAIR.sub(lambda found: found["name"] + found["equals"] + _value(found, depth), text)


def _value(found: re.Match[str], depth: int) -> str:
    """The value of a pair: itself where it is none that opens anything, but for the pairs in it."""
    name, value = found["name"].lower(), found["value"]
    if HIDDEN in value:
        return value
    # /name=value/ is a folder of a divided table.
    folder = found.start() > 0 and found.string[found.start() - 1] == "/" and "/" in value
    number = name.endswith("token") and _SHORT_NUMBER.match(value)
    # In the options of ODBC braces are the quotes of a password.
    structure = value[0] in "[{" and not name.endswith("pwd")
    here = name.upper() in _FOLDERS and value.startswith("/")
    if depth < _DEEPEST and (folder or number or structure or here or value.lower() in _SETTINGS):
        return _pairs(value, depth + 1)
    return HIDDEN


def _user(scheme: str, body: str) -> str:
    user, at, rest = body.rpartition("@")
    if not at or user.startswith("/"):
        return body
    name, colon, _ = user.partition(":")
    if _ends_in_path(scheme, user):
        return body
    if colon:
        return f"{name}:{HIDDEN}@{rest}" if scheme not in ("s3", "gs", "gcs") else f"{HIDDEN}@{rest}"
    return body if _NAMES_AS_USERS.match(scheme) else f"{HIDDEN}@{rest}"


def _ends_in_path(scheme: str, user: str) -> bool:
    """Whether what stands before the @ is the beginning of a path, colons included. Another URL in it is none."""
    name, colon, _ = user.partition(":")
    return scheme in _PATHS_WITH_AT and "/" in name and not (colon and ("?" in user or "://" in user))


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
        if "@" not in body or user.startswith("/") or _ends_in_path(scheme, user):
            continue
        name, colon, password = user.partition(":")
        if colon:
            # One that is the user's name too is hidden in the URL alone: elsewhere it is a word like others.
            if password != name:
                found.append(password)
            # A password that was not encoded: whoever parses the URL takes a part of it for host, port or path.
            if re.search(r"[@/?#]", password):
                found += [part for marks in ("@", "@/", "@/?#", "@/?#:") for part in re.split(f"[{marks}]", password)]
        elif not _NAMES_AS_USERS.match(scheme):
            found.append(name)
    found += [value for name, value in re.findall(r"[?&;#]([^=&;?]+)=([^&]*)", body) if _NAMED.search(unquote(name))]
    yield from (value for value in found if len(value) >= _SHORTEST_PASSWORD)


def _secrets_of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if "://" in value:
            yield from _secrets_of(value)
        if not (_NAMED.search(name) or _KEYS.search(name)) or _PLACES.search(name) or name in _FOLDERS | _METHODS:
            continue
        password = bool(_PASSWORDS.search(name))
        if len(value) >= (_SHORTEST_PASSWORD if password else _SHORTEST_OTHER) and not _is_place(value, password):
            yield value


def _is_place(value: str, password: bool) -> bool:
    """Whether an absolute path is where a secret is kept. Passwords and keys in base64 may begin with a / too."""
    if not value.startswith(("/", "~/")):
        return False
    return os.path.exists(os.path.expanduser(value)) or not (password or _BASE64.fullmatch(value))


def _spellings(value: str) -> Iterator[str]:
    for plain in {value, unquote(value), unquote_plus(value)}:
        yield from (plain, quote(plain, safe=""), quote(plain), quote(plain, safe=_KEPT), quote_plus(plain))
        yield from (json.dumps(plain)[1:-1], repr(plain)[1:-1])
