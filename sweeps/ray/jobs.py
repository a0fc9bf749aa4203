"""The door to a Ray cluster's job server: submit a parcel, follow its words, learn how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import ray
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from dpcore.checks import InvalidValue
from sweeps.ray import patches
from sweeps.ray.cluster import ClusterUnreachable, check_answers, unreachable
from sweeps.ray.job_start import OPERATORS, ORDER_FILE, SPEC_FILE, Order
from sweeps.ray.patches import send_token, server_version
from sweeps.spec.sections import SweepSpec
from sweeps.util.fingerprint import packages
from trainables.worker.redaction import redacted, shown_url

# What it uploads, and that a connection closed, is nothing that a person has to read.
for _name in (*patches.UPLOAD_LOGGERS, patches.TOKEN_LOGGER):
    logging.getLogger(_name).setLevel(logging.ERROR)

READY_SECONDS = 60.0
SETTLE_SECONDS = 30.0
CLIENT_ATTEMPTS = 4
ENTRY = "python -m sweeps.ray.job_start"
CLIENT = "ray://"
HOOK = "sweeps.ray.job_start.load_environment"


@dataclass(frozen=True, slots=True)
class Finished:
    """How a job ended. `code` is its exit status, None when it never ran or was stopped."""

    status: str
    code: int | None
    message: str


class JobServer:
    """The job server at `address`, http://HOST:8265, or of the cluster whose Ray client server is at ray://HOST:10001.

    Raises ClusterUnreachable from every method.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        _check_answers(self.address)
        send_token()
        if self.address.startswith(CLIENT):
            self.address = _dashboard_behind(self.address)
            _check_answers(self.address)
        try:
            self._client = JobSubmissionClient(self.address)
        except AuthenticationError as error:
            raise unreachable(address, _TOKEN) from error
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise unreachable(address, f"no Ray job server answers ({error}). {_EXPECTED}") from error
        there = server_version(self._client)
        if there != ray.__version__:
            raise unreachable(
                address,
                f"the cluster runs Ray {there}, this machine {ray.__version__}: expected the "
                "same. Install the cluster's version here, or upgrade the cluster.",
            )

    def submit(self, folder: Path, job: str, sweep: str, hook: bool) -> str:
        """Send the parcel and start it; the job's id. `hook`: workers take the parcel's environment too."""
        environment: dict[str, object] = {"working_dir": str(folder)}
        if hook:
            environment["worker_process_setup_hook"] = HOOK
        limit = time.monotonic() + READY_SECONDS
        while True:
            try:
                return str(
                    self._client.submit_job(
                        entrypoint=ENTRY, submission_id=job, runtime_env=environment, metadata={"sweep": sweep}
                    )
                )
            except (ConnectionError, RuntimeError, OSError) as error:
                # A head that has just started answers before its agent is ready.
                if "No available agent" not in str(error) or time.monotonic() > limit:
                    raise ClusterUnreachable(
                        f"{shown_url(self.address)}: the job was not taken: {redacted(str(error))}"
                    ) from error
                time.sleep(1.0)

    def follow(self, job: str, say: Callable[[str], None]) -> Finished:
        """Hand on what the job prints until it ends. A connection that breaks is taken up again."""
        handed_on = 0
        while True:
            try:
                handed_on = asyncio.run(self._tail(job, handed_on, say))
            except (RuntimeError, OSError, aiohttp.ClientError) as error:
                say(f"(connection to {shown_url(self.address)} lost, trying again: {redacted(str(error))})\n")
                time.sleep(2.0)
                _check_answers(self.address)
                continue
            ended = self._ended(job)
            if ended is not None:
                return ended

    async def _tail(self, job: str, handed_on: int, say: Callable[[str], None]) -> int:
        """`handed_on` characters came by an earlier connection, which begins at the start each time."""
        read = 0
        async for text in self._client.tail_job_logs(job):
            fresh = text[max(0, handed_on - read) :]
            read += len(text)
            if fresh:
                say(fresh)
                handed_on = max(handed_on, read)
        return handed_on

    def _ended(self, job: str) -> Finished | None:
        limit = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < limit:
            info = self._client.get_job_info(job)
            if info.status.is_terminal():
                code = info.driver_exit_code
                if info.status == JobStatus.SUCCEEDED:
                    code = 0
                return Finished(str(info.status), code, info.message or "")
            time.sleep(0.2)
        return None

    def stop(self, job: str) -> None:
        """Ask the job to end: its controller stops cleanly, as by Ctrl-C."""
        self._client.stop_job(job)


_EXPECTED = (
    "Expected the dashboard of the cluster's head, such as http://HOST:8265, or its Ray client server, such as "
    "ray://HOST:10001."
)


_TOKEN = (
    "the cluster refuses this token, or wants one. Set RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) to the one that it was "
    "started with."
)
_PORTS = {"http": 80, "https": 443, "ray": 10001}


def _dashboard_behind(address: str) -> str:
    """The dashboard of the cluster that a Ray client reaches at `address`, by the host that was reached."""
    for attempt in range(1, CLIENT_ATTEMPTS + 1):
        try:
            with ray.init(address=address) as context:
                dashboard = str(context.dashboard_url)
            break
        except AuthenticationError as error:
            raise unreachable(address, _TOKEN) from error
        except (ConnectionError, RuntimeError, ValueError, OSError, ImportError) as error:
            # The head forks a process for every client, and some die at birth: Ray issue 63202, about one in fourteen.
            if not isinstance(error, ConnectionAbortedError) or attempt == CLIENT_ATTEMPTS:
                raise unreachable(address, f"no Ray client is taken ({error}). {_EXPECTED}") from error
            print(
                f"The head's process for this client died at its start; asking for another ({shown_url(address)}).",
                flush=True,
            )
    # The cluster names itself as its own nodes see it.
    return f"http://{urlsplit(address).hostname}:{urlsplit(f'//{dashboard}').port}"


def _check_answers(address: str) -> None:
    parts = urlsplit(address)
    try:
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https", "ray") or not parts.hostname or not port:
        raise unreachable(address, f"not an address of a job server. {_EXPECTED}")
    check_answers(address, parts.hostname, port, _EXPECTED)


# The parcel that travels to the cluster: this very code, the spec, the arguments and the tokens, in one folder.
#
# The code is that of the process that submits, so a sweep that was started on the cluster may be resumed from here
# and the other way round: the fingerprints agree. Packages of others (Ray, torch, MLflow ...) are the cluster's own.
#
# Arguments and tokens lie in a file of the parcel, not in the job's command or runtime environment: those are shown
# to everybody who can open the cluster's dashboard.

PACKAGES = ("dpcore", "trainables", "sweeps")


def taken_from_here(names: Iterable[str]) -> dict[str, str]:
    """The values of these environment variables. Raises InvalidValue for one that is not set."""
    for name in names:
        if name == OPERATORS:
            raise InvalidValue("env", name, "a variable that is not the cluster operator's own")
        if name not in os.environ:
            raise InvalidValue("env", name, "the name of a variable that is set here", f"Try: export {name}=...")
    return {name: os.environ[name] for name in names}


def check_references(spec: SweepSpec) -> None:
    """Data travel by reference: a path has to mean the same on the cluster. Raises InvalidValue for a relative one."""
    path = spec.data.options().get("path")
    if isinstance(path, str) and "://" not in path and not Path(path).is_absolute():
        remedy = "The cluster reads the data itself; nothing but code and spec is sent."
        raise InvalidValue("data.path", path, "an absolute path on the cluster, or an object-store URL", remedy)


def pack(folder: Path, order: Order, spec: SweepSpec | None, modules: Iterable[str] = ()) -> None:
    """Fill the empty `folder`. `modules` are the user's own, as `SweepSpec.user_modules` names them.

    Raises InvalidValue for a module that is not found here.
    """
    for name, package in {**packages(PACKAGES), **packages(modules, follow=True)}.items():
        if package.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
            shutil.copytree(package, folder / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(package, folder / package.name)
    if spec is not None:
        # JSON is YAML.
        (folder / SPEC_FILE).write_text(json.dumps(spec.canonical(), indent=1))
    descriptor = os.open(folder / ORDER_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(asdict(order), stream)
