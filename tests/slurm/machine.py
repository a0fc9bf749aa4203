"""A whole Slurm on this machine: a control host and two nodes, each with its own network, name, disk and processes.

Hosts are made of Linux namespaces. All that a host runs lives in its process space and ends with it, and so does its
end of the cable to the control host's bridge: what remains afterwards is a folder, which is removed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.harness import Journal

ROOT = Path(__file__).parents[2]
CONTROL, NODES = "control", ("first", "second")
ADDRESSES = {CONTROL: "10.213.79.1", "first": "10.213.79.2", "second": "10.213.79.3"}
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
PATIENCE_SECONDS = float(os.environ.get("SWEEPS_CHAOS_PATIENCE_SECONDS", "480"))
KILL_WAIT_SECONDS, REQUEUE_SECONDS = 20, 20
"""From Slurm's SIGTERM to its SIGKILL (30 by default), and from a requeue to the next start (120 by default)."""

CONFIGURATION = """
ClusterName=sweeps
SlurmctldHost=control({control})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={requeue}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
# Without control groups a process that leaves its parent is lost to Slurm: the script has to end what it started.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=5,sched_interval=5
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
KillWait={kill_wait}
NodeName=first NodeAddr={first} CPUs={cpus} State=UNKNOWN
NodeName=second NodeAddr={second} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES State=UP
"""

# A host calls itself by its loopback, as Debian's do. Its /tmp is its own, but for what the tests need of this one's.
SET_UP = """
hostname "$1"; mount --bind "$2/hosts.$1" /etc/hosts
disk="$2/disk.$1"
for path in $3; do
    case $path in /tmp/*) mkdir -p "$disk${path#/tmp}"; mount --bind "$path" "$disk${path#/tmp}" ;; esac
done
mount --rbind "$disk" /tmp; mount -t tmpfs tmpfs /dev/shm; ip link set lo up; echo up > "$2/up.$1"
sleep infinity & wait
"""


def lacking() -> str | None:
    """What this machine lacks for it, in words; None when it has all."""
    if missing := [name for name in DAEMONS if shutil.which(name) is None]:
        return f"{', '.join(missing)} not installed (Debian's slurm-wlm and munge; `make slurm` installs them)"
    made = subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "true"], capture_output=True)
    return None if made.returncode == 0 else f"this machine lets nobody make hosts: {made.stderr.decode().strip()}"


class Slurm(Journal):
    """Use as a context manager; `folder` is what all hosts share, `disk.<node>` in it what a node sees as /tmp."""

    longest_seconds = PATIENCE_SECONDS

    def __init__(self, cpus: int = 2) -> None:
        super().__init__()
        self.cpus = cpus
        self.hosts: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Slurm:
        # Not below /tmp, which every node has for itself; short, since sockets lie in it.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm", dir="/var/tmp"))
        self.folder.chmod(0o755)
        try:
            self._configure()
            for name in (CONTROL, *NODES):
                self.boot(name)
            self.until("both nodes are idle", self._idle)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        # The control host last: it holds the bridge.
        for name in [*reversed(self.hosts)]:
            self.power_off(name)
        shutil.rmtree(self.folder)

    def _idle(self) -> bool:
        return self.slurm("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(NODES)

    def _configure(self) -> None:
        values = {"folder": self.folder, "cpus": self.cpus, "kill_wait": KILL_WAIT_SECONDS, "requeue": REQUEUE_SECONDS}
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**values, **ADDRESSES))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for name in ADDRESSES:
            known = {**ADDRESSES, name: "127.0.1.1"}
            lines = ["127.0.0.1 localhost", *(f"{address} {host}" for host, address in known.items())]
            (self.folder / f"hosts.{name}").write_text("\n".join(lines) + "\n")
            (self.folder / f"disk.{name}").mkdir()
            (self.folder / f"disk.{name}").chmod(0o1777)
        (self.folder / "state").mkdir()

    # -- hosts --------------------------------------------------------------------------------------------

    def boot(self, name: str) -> None:
        """Start a host and its daemons."""
        kept = " ".join(sorted({str(ROOT), sys.prefix, sys.base_prefix}))
        (self.folder / f"up.{name}").unlink(missing_ok=True)
        spaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words = ["sh", "-ec", SET_UP, "sh", name, str(self.folder), kept]
        self.hosts[name] = subprocess.Popen([*spaces, *words], stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 30
        while not (self.folder / f"up.{name}").exists():
            assert self.hosts[name].poll() is None, f"host {name} did not start"
            assert time.monotonic() < limit, f"host {name} did not start within 30 s"
            time.sleep(0.05)
        configuration = str(self.folder / "slurm.conf")
        if name == CONTROL:
            self.inside(CONTROL, "ip", "link", "add", "bridge", "type", "bridge")
            self.inside(CONTROL, "ip", "address", "add", f"{ADDRESSES[CONTROL]}/24", "dev", "bridge")
            self.inside(CONTROL, "ip", "link", "set", "bridge", "up")
            self._start_munge()
            self._daemon(CONTROL, "slurmctld", "-D", "-f", configuration)
            return
        cable = f"ip link add {name} type veth peer name cable netns {self.first_process(name)}".split()
        network = f"--net=/proc/{self.first_process(CONTROL)}/ns/net"
        _run(["nsenter", network, *cable])
        self.inside(CONTROL, "ip", "link", "set", name, "master", "bridge", "up")
        self.inside(name, "ip", "address", "add", f"{ADDRESSES[name]}/24", "dev", "cable")
        self.inside(name, "ip", "link", "set", "cable", "up")
        self._daemon(name, "slurmd", "-D", "-N", name, "-f", configuration)

    def _start_munge(self) -> None:
        places = {"socket": "munge.socket", "key-file": "munge.key", "log-file": "munged.log"}
        more = {"pid-file": "munged.pid", "seed-file": "munged.seed"}
        options = [f"--{option}={self.folder / file}" for option, file in {**places, **more}.items()]
        self.inside(CONTROL, "munged", "--force", "--num-threads=4", *options)

    def _daemon(self, name: str, *words: str) -> None:
        with (self.folder / f"{words[0]}.{name}.out").open("ab") as output:
            # Without more of this process's environment than its path: jobs inherit none of it either.
            subprocess.Popen(self._enter(name, *words), stdout=output, stderr=output, env={"PATH": os.environ["PATH"]})

    def power_off(self, name: str) -> None:
        """Every process of the host dies at once, and its end of the cable is gone."""
        host = self.hosts.pop(name)
        # Its process space ends with its first process.
        if host.poll() is None:
            os.kill(self.first_process_of(host), signal.SIGKILL)
        host.wait()

    def first_process(self, name: str) -> int:
        return self.first_process_of(self.hosts[name])

    @staticmethod
    def first_process_of(host: subprocess.Popen[bytes]) -> int:
        return int(Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()[0])

    def _enter(self, name: str, *words: str) -> list[str]:
        return ["nsenter", f"--target={self.first_process(name)}", "--net", "--uts", "--mount", "--pid", "--", *words]

    def inside(self, name: str, *words: str, **environment: str) -> str:
        """The output of a command on a host."""
        return _run(self._enter(name, *words), {**os.environ, **environment})

    def processes(self, name: str) -> dict[int, str]:
        """{pid as this process sees it: command line} of a host's processes."""
        space = os.readlink(f"/proc/{self.first_process(name)}/ns/pid")
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == space:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
        return found

    # -- Slurm --------------------------------------------------------------------------------------------

    def slurm(self, *words: str, **environment: str) -> str:
        """The output of one of Slurm's commands on the control host."""
        return self.inside(CONTROL, *words, SLURM_CONF=str(self.folder / "slurm.conf"), **environment)

    def submit(self, *options: str, **environment: str) -> str:
        """Submit the script; the job's number."""
        script = str(ROOT / "infra" / "slurm" / "sweep.sbatch")
        logs = f"--output={self.folder}/log-%j"
        job = self.slurm(
            "sbatch", "--parsable", f"--chdir={self.folder}", logs, *options, script, **environment
        ).strip()
        self.note(f"sbatch {' '.join(options)}: job {job}")
        return job

    def fact(self, job: str, name: str) -> str:
        """What `scontrol show job` says of it, such as JobState, Restarts or ExitCode."""
        words = self.slurm("scontrol", "--oneliner", "show", "job", job).split()
        return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))

    def state(self, job: str) -> str:
        return self.fact(job, "JobState")

    def expire(self, job: str) -> None:
        """Let its time limit be the next full minute of its life."""
        hours, minutes, seconds = (int(part) for part in self.fact(job, "RunTime").rpartition("-")[2].split(":"))
        limit = 60 * hours + minutes + 1
        self.slurm("scontrol", "update", f"JobId={job}", f"TimeLimit={limit}")
        self.note(f"after {60 * minutes + seconds} s its time limit is {limit} min")

    def rays(self, node: str) -> set[str]:
        """The folders of the Ray instances that live on a node."""
        commands = [command for command in self.processes(node).values() if "raylet/raylet" in command]
        return {match[0] for command in commands if (match := re.search(r"/tmp/sweeps-\d+", command))}

    def words(self) -> str:
        """Everything that can explain a failure."""
        logs = [
            f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self.folder.glob("log-*"))
        ]
        queue = self.slurm("squeue", "-a")
        return "\n".join([*self.log, queue, *logs, (self.folder / "slurmctld.log").read_text()[-2000:]])


def _run(words: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}"
    return done.stdout
