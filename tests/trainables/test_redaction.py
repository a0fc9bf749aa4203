"""No password of a URL and no secret of the environment leaves by a text; other texts stay as they are."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus, unquote

import pytest

from trainables.worker.redaction import HIDDEN, holds_secret, redacted

PASSWORD = "hunter2-and-more"
WITH_SECRET = [
    f"postgresql://user:{PASSWORD}@host:5432/db",
    f"postgresql+psycopg://user:{PASSWORD}@[::1]/db?connect_timeout=5",
    f"postgresql://user:p/{PASSWORD}@host/db",
    f"postgresql://user:p@{PASSWORD}@host/db",
    f"postgresql://:{PASSWORD}@host",
    f"http://{PASSWORD}@host:5000",
    f"http://user:{PASSWORD}@host:5000/path?x=1",
    f"http://host/path?token={PASSWORD}&x=1",
    f"postgresql://user@host/db?sslpassword={PASSWORD}",
    f"s3://AKIAEXAMPLE:{PASSWORD}@bucket/x",
    f"s3://{PASSWORD}@bucket/x",
    f"https://host/x?X-Amz-Signature={PASSWORD}",
    f"https://host/x?sv=2020&sig={PASSWORD}",
    f"ray://user:{PASSWORD}@host:10001",
]
WITHOUT = [
    "sqlite:////tmp/a@b:c/sweeps.db",
    "postgresql://user@host/db?connect_timeout=5",
    "http://127.0.0.1:5000",
    "https://example.org/@somebody/x",
    "abfs://container@account.dfs.core.windows.net/x",
    "s3://bucket/records?region=eu-west-1&endpoint_override=localhost:9000",
    "s3://b/token=2024/x.csv",
    "password authentication failed for user",
    "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN",
    "data.columns.token={'low': 0}: expected {low, high}",
]


@pytest.mark.parametrize("url", WITH_SECRET)
@pytest.mark.parametrize("form", ["{}", "store={!r}: expected another", "API request to {}/api failed: (see {})"])
def test_a_secret_in_a_url_is_hidden_in_any_text(url, form):
    shown = redacted(form.format(url, url))
    assert PASSWORD not in shown
    assert HIDDEN in shown
    assert holds_secret(url)


@pytest.mark.parametrize("text", WITHOUT)
def test_other_texts_stay_as_they_are(text):
    assert redacted(text) == text
    assert not holds_secret(text)


@pytest.mark.parametrize(
    "name", ["PGPASSWORD", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY", "MYSQL_PWD", "DB_PASS"]
)
def test_secrets_of_the_environment_are_hidden_wherever_they_stand(name, monkeypatch):
    value = 'a b/c@d:%41"\\\ne\u0301'
    monkeypatch.setenv(name, value)
    told = (repr(value)[1:-1], json.dumps(value)[1:-1])
    for spelling in (value, *told, quote(value, safe=""), quote_plus(value), quote(unquote(value), safe="")):
        assert redacted(f"before {spelling} after") == f"before {HIDDEN} after"


def test_the_password_of_a_known_url_is_hidden_wherever_it_stands(monkeypatch):
    url = f"postgresql://user:{PASSWORD}@host/db"
    assert redacted(f"{PASSWORD}: no such port", url) == f"{HIDDEN}: no such port"
    monkeypatch.setenv("DATABASE_URL", url)
    assert PASSWORD not in redacted(f"invalid port {PASSWORD!r}")


def test_places_and_short_values_are_no_secrets(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/home/user/token-file")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/path/keys")
    monkeypatch.setenv("SOME_TOKEN", "token")
    monkeypatch.setenv("PWD", "/home/user/work")
    text = "token-file in /home/user/token-file, /path/keys, report in /home/user/work/.sweeps"
    assert redacted(text) == text
    url = "postgresql://sweeps:sweeps@host/db"
    assert redacted(f"sweeps resume quick --store {url}", url).startswith("sweeps resume quick --store")
