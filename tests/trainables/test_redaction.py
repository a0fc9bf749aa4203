"""No password leaves by a text, whatever URL it stands in and however it is spelt; other texts stay as they are."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.worker.redaction import COMMON, HIDDEN, holds_secret, redacted

PASSWORD = "hunter2-and-more"
WITH_SECRET = [
    f"postgresql://user:{PASSWORD}@host:5432/db",
    f"postgresql+psycopg://user:{PASSWORD}@[::1]/db?connect_timeout=5",
    f"mysql://user:{PASSWORD}@host/db",
    f"nonsense://user:{PASSWORD}@",
    f"postgresql://user:p/{PASSWORD}@host/db",
    f"postgresql://user:p@{PASSWORD}@host/db",
    f"postgresql://user:p#?{PASSWORD}@host:port:port/db",
    f"postgresql://:{PASSWORD}@host",
    f"http://{PASSWORD}@host:5000",
    f"http://user:{PASSWORD}@host:5000/path?x=1",
    f"http://host/path?token={PASSWORD}&x=1",
    f"http://host/path?x=1&pass%77ord={PASSWORD}",
    f"postgresql://user@host/db?sslpassword={PASSWORD}",
    f"postgresql://user@host/db?password={PASSWORD}&application_name=a@b",
    f"s3://AKIAEXAMPLE:{PASSWORD}@bucket/x",
    f"s3://{PASSWORD}@bucket/x",
    f"abfs://account:{PASSWORD}@host/x",
    f"https://host/x?X-Amz-Signature={PASSWORD}",
    f"https://host/x?sv=2020&sig={PASSWORD}",
    f"ray://user:{PASSWORD}@host:10001",
]
WITHOUT = [
    "sqlite:////tmp/a@b:c/sweeps.db",
    "sqlite:///sweeps.db",
    "postgresql://user@host/db?connect_timeout=5",
    "http://127.0.0.1:5000",
    "https://example.org/@somebody/x",
    "abfs://container@account.dfs.core.windows.net/x",
    "s3://bucket/records?region=eu-west-1&endpoint_override=localhost:9000",
    "ray://HOST:10001",
    "/a/plain/path",
    "password authentication failed for user",
    "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN",
    "max_tokens=128, batch_size=256: expected at most 100.",
    "s3://b/token=2024/x.csv",
    "gs://b/2024-01-01T10:30@home/x.csv",
    "https://host/2024-01-01T10:30@home/x.csv",
    "found character '\\t' that cannot start any token\": expected valid YAML.",
    "model='mods:token': expected a function token in mods.",
    "data.columns.token=3: expected {low, high}",
    "data.columns.token=[0, 1]: expected two finite numbers",
    "data.columns.token={'low': 0}: expected {low, high}",
    "data.columns.secret=[0, 1]: expected two finite numbers",
    "max_token=512: expected less",
    "use_token=False, other_secret=None.",
    '{"token": 3}',
    "data.source='/data/token=1/secret=2/x.csv': expected a file",
    "data.source='token=1/secret=2/x.csv': expected a file",
    "TOKENIZER=distilbert-base",
    "PWD=/home/user",
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
    "text",
    [
        f"host=x password={PASSWORD} user=y",
        f"password='{PASSWORD} with spaces'",
        f"{{'password': '{PASSWORD}', 'user': 'x'}}",
        f"Authorization: Bearer {PASSWORD}",
        f"aws_secret_access_key={PASSWORD}",
        f"secret_key={PASSWORD}",
        f"dbpwd={PASSWORD}",
        f"api_key={PASSWORD}",
        f"Server=h;Pwd={PASSWORD};",
        f"Driver=x;PWD={{a; {PASSWORD}}};",
        f"DefaultEndpointsProtocol=https;AccountKey={PASSWORD}==",
        f"password=a'b:c/{PASSWORD}",
        f"--password={PASSWORD}: no such user",
        f"password='it\\'s {PASSWORD}'",
        f"'token': b'{PASSWORD}'",
        f'{{"password": {PASSWORD}}}',
        f"token=1/x?password={PASSWORD}",
        f"token={{password={PASSWORD}}}",
    ],
)
def test_pairs_and_headers_are_hidden_too(text):
    assert PASSWORD not in redacted(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{'password': 12345678}", f"{{'password': {HIDDEN}}}"),
        ("{'password': [0, 1]}", "{'password': [0, 1]}"),
        ("secret_key=abc", f"secret_key={HIDDEN}"),
        ("api_key=abcdef", f"api_key={HIDDEN}"),
        ("Server=h;Pwd=abc;", f"Server=h;Pwd={HIDDEN};"),
        ("token=abcdef: expected another.", f"token={HIDDEN}: expected another."),
        ("file='x/secret=2.csv': expected a file", f"file='x/secret={HIDDEN}': expected a file"),
        ("{'password': 'abc', 'user': 'x'}", f"{{'password': {HIDDEN}, 'user': 'x'}}"),
    ],
)
def test_what_stands_around_a_pair_stays(text, shown):
    assert redacted(text) == shown


@pytest.mark.parametrize("part", ["token=[", "token=1/", "pwd={", "'token': '", "token='", '"'])
def test_a_long_text_of_pairs_within_pairs_is_read_in_time(part):
    assert PASSWORD not in redacted(f"{part * 5000}password={PASSWORD}")


@pytest.mark.parametrize(
    "url",
    [
        f"s3://b/x?endpoint_override=http://user:{PASSWORD}@host",
        f"s3://b/x?endpoint_override=http%3A%2F%2Fuser:{PASSWORD}@host",
        f"https://host/x,https://user:{PASSWORD}@host/x",
        f"https://host/x#access_token={PASSWORD}",
    ],
)
def test_a_path_hides_no_secret_behind_it(url):
    assert PASSWORD not in redacted(url)
    assert PASSWORD not in redacted(PASSWORD, url)
    assert holds_secret(url)


@given(
    password=st.text(min_size=8, max_size=30).filter(lambda text: text.lower() not in COMMON),
    form=st.sampled_from(["{}", "{!r}"]),
)
def test_the_password_of_a_known_url_is_hidden_wherever_it_stands(password, form):
    """Decoded or not: an error about a malformed URL may quote any part of it."""
    for spelling in (password, quote(password, safe=""), quote_plus(password)):
        url = f"postgresql://user:{spelling}@host/db"
        if len(spelling) >= 8:
            assert spelling not in redacted(f"could not connect: {form.format(url)}", url).replace(HIDDEN, "")
            assert spelling not in redacted(f"{spelling}: no such port", url).replace(HIDDEN, "")


@pytest.mark.parametrize("name", ["PGPASSWORD", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"])
def test_secrets_of_the_environment_are_hidden_wherever_they_stand(name, monkeypatch):
    value = "a b/c@d:%41"
    monkeypatch.setenv(name, value)
    for spelling in (value, quote(value, safe=""), quote_plus(value)):
        assert redacted(f"before {spelling} after") == f"before {HIDDEN} after"


def test_a_url_in_the_environment_hides_its_password(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", f"postgresql://user:{PASSWORD}@host/db")
    assert PASSWORD not in redacted(f"invalid port {PASSWORD!r}")


def test_places_and_short_values_are_no_secrets(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/home/user/token-file")
    monkeypatch.setenv("SOME_TOKEN", "token")
    monkeypatch.setenv("MAX_OUTPUT_TOKENS", "1310720000")
    monkeypatch.setenv("PWD", "/home/user/work")
    text = "token-file in /home/user/token-file, 1310720000 tokens, report in /home/user/work/.sweeps"
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("GOOGLE_APPLICATION_CREDENTIALS", "/path/keys", "/path/keys/none.csv: no such file"),
        ("TOKENIZER", "distilbert-base", "model distilbert-base"),
        ("ALLOW_EMPTY_PASSWORD", "true", "expected true or false"),
        ("POSTGRES_PASSWORD", "postgres", "postgresql://postgres@db"),
        ("SWEEPS_STORE", "postgresql://me:sweeps@host/db", "go on with `sweeps resume`"),
        ("POSTGRES_PASSWORD", "admin", "administrators: user_admin"),
        ("MLFLOW_TRACKING_AUTH", "negotiate", "the servers negotiate"),
    ],
)
def test_words_and_places_of_the_environment_stay(name, value, text, monkeypatch):
    monkeypatch.setenv(name, value)
    assert redacted(text) == text


def test_a_password_that_is_a_word_is_hidden_where_it_stands_alone(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter")
    for text in ("the word hunter.", "'hunter'", "x%2Fhunter", r"a\nhunter", "user:hunter@host"):
        assert "hunter" not in redacted(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MYSQL_PWD", "hunter2hunter2"),
        ("MYSQL_PWD", "hunt"),
        ("DB_PASS", "hunter2hunter2"),
        ("REDIS_AUTH", "hunter2hunter2"),
        ("WANDB_KEY", "hunter2hunter2"),
        ("PGPASSWORD", "/hunter2"),
        ("AWS_SECRET_ACCESS_KEY", "/K7MDENGbPxRfiCYEXAMPLEKEYwJalrXUtnFEMI1"),
    ],
)
def test_secrets_under_short_names_and_behind_a_slash_are_hidden(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert redacted(f"before {value} after") == f"before {HIDDEN} after"


def test_a_password_that_is_the_user_s_name_takes_no_words_from_other_texts():
    url = "postgresql://sweeps:sweeps@host/db"
    assert redacted(f"sweeps resume quick --store {url}", url) == (
        f"sweeps resume quick --store postgresql://sweeps:{HIDDEN}@host/db"
    )
