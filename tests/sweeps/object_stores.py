"""A real S3-compatible server (moto's) with users and rights, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

BUCKET = "records"
# Serves on a free port until its standard input ends.
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}
READING = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*", "s3:Head*"], "Resource": "*"}


@dataclass
class ObjectStore:
    """One bucket, its administrator, and a worker whose rights the tests change."""

    url: str
    admin: dict[str, str]
    process: subprocess.Popen[str]
    worker: dict[str, str] = field(default_factory=dict)

    def environment(self, **changes: str) -> dict[str, str]:
        """What a worker's environment holds."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.worker,
            **changes,
        }

    def client(self, service: str = "s3") -> Any:
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.admin["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.admin["AWS_SECRET_ACCESS_KEY"],
        )

    def allow(self, statement: dict[str, object]) -> None:
        """The worker's rights from now on."""
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client("iam").put_user_policy(UserName="worker", PolicyName="rights", PolicyDocument=document)

    def keys(self, prefix: str = "") -> list[str]:
        """Names of the bucket's objects."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def pause(self) -> None:
        """The server accepts, and answers nothing."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    # Two users with their keys and rights, and the bucket: from the eighth request on, rights are enforced.
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "7"},
    )
    assert process.stdout is not None
    try:
        nobody = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
        store = ObjectStore(process.stdout.readline().strip(), nobody, process)
        iam, keys = store.client("iam"), {}
        store.client().create_bucket(Bucket=BUCKET)
        for user in ("admin", "worker"):
            iam.create_user(UserName=user)
            document = json.dumps({"Version": "2012-10-17", "Statement": [EVERYTHING]})
            iam.put_user_policy(UserName=user, PolicyName="rights", PolicyDocument=document)
            key = iam.create_access_key(UserName=user)["AccessKey"]
            keys[user] = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        store.admin, store.worker = keys["admin"], keys["worker"]
        yield store
    finally:
        process.kill()
        process.wait()
