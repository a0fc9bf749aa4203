"""Random settings far into the corners of the accountant: who answers, in what time, with what memory, and whether
anything certified elsewhere contradicts it.

    python -m tests.benchmarks.torture --out FILE [--settings 400] [--calibrations 100] [--seed 0] [--only KEY ...]

Each setting is one to three of plain Gaussians, Poisson-sampled Gaussians, pure releases (Laplace among them) and
Poisson-sampled pure releases, many times over, under one of the two adjacencies. It is asked for epsilon at a delta
and for delta at an epsilon; calibrations solve the noise of sampled Gaussians. Every question runs in a child process
with cold caches: its wall and processor seconds and its peak memory are the child's. A second child asks everything
else that is certified about the same event (`tests.benchmarks.torture_checks`). Answers are appended to the file one
by one, and those that stand there are not asked again.

An answer is the privacy-loss accountant's, or another proved accountant's under its name, or a refusal. Children end
after `LONGEST` processor seconds: that is a fault of the accountant here, and no rule of its own.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import math
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dpcore import accounting, calibrate
from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accounting import APART
from dpcore.events import Adjacency, Composed, Event, Gaussian, PoissonSampled, PureDP, Repeated, to_dict
from dpcore.guarantee import Guarantee
from tests.benchmarks.torture_checks import contradictions

Asked = Literal["epsilon", "delta", "noise"]
LONGEST, CHECK_LONGEST = 300, 5
"""Processor seconds of a child."""
MOST_MEMORY = 6 << 30
GOAL_SECONDS, GOAL_MB = 5.0, 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """epsilon at `delta`, delta at `epsilon`, or the noise of `steps` sampled steps that meets both.

    event  None for noise, which has rate and steps instead
    """

    number: int
    asked: Asked
    adjacency: Adjacency
    event: Event | None = None
    rate: float = math.nan
    steps: int = 0
    epsilon: float = math.nan
    delta: float = math.nan

    @property
    def key(self) -> str:
        return f"{self.asked}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a child found. value: epsilon, delta or noise; None where refused. lower: certified lower end, where known.

    counted  epsilon of the solved noise by the headline, for calibrations
    apart    whether the privacy-loss accountant's bounds are farther apart than asked
    """

    accountant: str
    value: float | None = None
    lower: float | None = None
    counted: float | None = None
    apart: bool = False
    refusal: str = ""

    @classmethod
    def counted_by(cls, claim: Guarantee, value: float) -> Answer:
        """A value with the claim that stands behind it."""
        apart = APART.format("epsilon") in claim.assumptions
        return cls(accountant=claim.accountant, value=value, lower=claim.epsilon_lower, apart=apart)


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.6g}")


def _part(rng: random.Random) -> Event:
    kind = rng.choices(("sampled", "plain", "pure", "sampled pure"), (5, 2, 2, 1))[0]
    rate = _log_uniform(rng, 1e-8, 1.0)
    match kind:
        case "plain":
            event: Event = Gaussian(noise_multiplier=_log_uniform(rng, 0.2, 300))
            most = 1e6
        case "sampled":
            event = PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=_log_uniform(rng, 0.2, 100)))
            most = 3e6
        case "pure":
            event, most = PureDP(epsilon=_log_uniform(rng, 1e-3, 3)), 100
        case _:
            event = PoissonSampled(rate=rate, event=PureDP(epsilon=_log_uniform(rng, 1e-3, 3)))
            most = 1e5
    return Repeated(event=event, count=int(_log_uniform(rng, 1, most)))


def questions(settings: int, calibrations: int, seed: int) -> Iterator[Question]:
    """The same for the same arguments; the first n of more are those of n."""
    for number in range(settings):
        rng = random.Random(f"{seed} setting {number}")
        event = Composed(events=tuple(_part(rng) for _ in range(rng.randint(1, 3))))
        adjacency = rng.choice(list(Adjacency))
        delta, epsilon = _log_uniform(rng, 1e-14, 1e-2), _log_uniform(rng, 1e-2, 2000)
        yield Question(number=number, asked="epsilon", adjacency=adjacency, event=event, delta=delta)
        yield Question(number=number, asked="delta", adjacency=adjacency, event=event, epsilon=epsilon)
    for number in range(calibrations):
        rng = random.Random(f"{seed} calibration {number}")
        yield Question(
            number=number,
            asked="noise",
            adjacency=rng.choice(list(Adjacency)),
            rate=_log_uniform(rng, 1e-8, 1.0),
            steps=int(_log_uniform(rng, 1, 3e6)),
            epsilon=_log_uniform(rng, 0.01, 20),
            delta=_log_uniform(rng, 1e-14, 1e-2),
        )


def answer(question: Question) -> Answer:
    try:
        match question.asked:
            case "epsilon":
                assert question.event is not None
                claim = accounting.headline(question.event, question.delta, question.adjacency)
                return Answer.counted_by(claim, claim.epsilon)
            case "delta":
                assert question.event is not None
                found = accounting.headline_delta(question.event, question.epsilon, question.adjacency)
                return Answer(
                    accountant=found.accountant,
                    value=found.delta,
                    lower=found.delta_lower,
                    apart=APART.format("delta") in found.assumptions,
                )
            case "noise":
                target = calibrate.Target(epsilon=question.epsilon, delta=question.delta, adjacency=question.adjacency)
                noise = calibrate.noise_multiplier(target, rate=question.rate, steps=question.steps)
                event = calibrate.sampled_gaussian(noise, question.rate, question.steps)
                claim = accounting.headline(event, question.delta, question.adjacency)
                return replace(Answer.counted_by(claim, noise), counted=claim.epsilon)
    except (ToleranceNotReached, DiscretisationInvalid, calibrate.CannotCalibrate) as error:
        return Answer(accountant="refused", refusal=f"{type(error).__name__}: {error}")


def event_of(question: Question, found: Answer) -> Event:
    """What was counted."""
    if question.event is not None:
        return question.event
    assert found.value is not None
    return calibrate.sampled_gaussian(found.value, question.rate, question.steps)


def in_child(work: Callable[[], Any], longest: int) -> dict[str, Any]:
    """What `work` returns, as JSON, from a fork of this process with cold caches; its seconds and peak memory."""
    reading, writing = os.pipe()
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (longest, longest))
        try:
            text = json.dumps({"result": work()})
        except BaseException as error:
            text = json.dumps({"error": f"{type(error).__name__}: {error}"})
        with os.fdopen(writing, "w") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status, used = os.wait4(child, 0)
    wall = time.perf_counter() - began
    out = json.loads(text) if text else {"error": f"ended by signal {os.WTERMSIG(status)}, of at most {longest} s"}
    return {**out, "wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}


def plain(question: Question) -> dict[str, Any]:
    """A question as JSON values."""
    event = None if question.event is None else to_dict(question.event)
    values = {name: getattr(question, name) for name in ("number", "asked", "rate", "steps", "epsilon", "delta")}
    return {**values, "adjacency": question.adjacency.value, "event": event}


def run(question: Question) -> dict[str, Any]:
    """The row of one question: its answer with seconds and memory, and what contradicts it."""
    row = {"key": question.key, **plain(question), **in_child(lambda: asdict(answer(question)), LONGEST)}
    found = row.pop("result", None)
    row["answer"] = found
    if found is not None and found["value"] is not None:
        kept = Answer(**found)
        checked = in_child(
            lambda: contradictions(
                event_of(question, kept),
                question.adjacency,
                asked=question.asked,
                at=question.epsilon if question.asked == "delta" else question.delta,
                upper=question.epsilon if question.asked == "noise" else kept.value or 0.0,
                lower=kept.lower,
            ),
            CHECK_LONGEST,
        )
        row["checked"] = checked.get("result", {"asked": [], "contradicts": [], "silent": checked.get("error")})
    return row


def _who(row: dict[str, Any]) -> str:
    found = row["answer"]
    return (
        "failed" if found is None else found["accountant"] + (" (farther apart than asked)" if found["apart"] else "")
    )


def table(rows: list[dict[str, Any]]) -> str:
    """Who answered what, how long it took, and what was contradicted."""
    out = [f"{'':10}{'asked':>7} answered by"]
    for asked in ("epsilon", "delta", "noise"):
        those = [row for row in rows if row["asked"] == asked]
        if not those:
            continue
        who: dict[str, int] = {}
        for row in those:
            who[_who(row)] = who.get(_who(row), 0) + 1
        counts = ", ".join(f"{name} {count}" for name, count in sorted(who.items(), key=lambda item: -item[1]))
        out.append(f"{asked:10}{len(those):7} {counts}")
    out.append("")
    out.append(f"{'':10}{'median':>9}{'90%':>9}{'99%':>9}{'largest':>9}  of which, over the benchmark")
    for name, unit, goal in (("cpu", "s", GOAL_SECONDS), ("wall", "s", GOAL_SECONDS), ("peak_mb", "MB", GOAL_MB)):
        values = sorted(float(row[name]) for row in rows)
        cuts = [statistics.median(values), *(values[min(len(values) - 1, int(p * len(values)))] for p in (0.9, 0.99))]
        over = sum(value > goal for value in values)
        out.append(
            f"{name + ' ' + unit:10}"
            + "".join(f"{cut:9.2f}" for cut in (*cuts, values[-1]))
            + f"  {over} over {goal:g}"
        )
    out.append("")
    checked = [row["checked"] for row in rows if "checked" in row]
    spoke: dict[str, int] = {}
    for one in checked:
        for name in one["asked"]:
            spoke[name] = spoke.get(name, 0) + 1
    out.append("ends compared: " + ", ".join(f"{name} {count}" for name, count in sorted(spoke.items())))
    out.append(f"answers with no end to compare: {sum(not one['asked'] for one in checked)}")
    wrong = [(row["key"], row["checked"]["contradicts"]) for row in rows if row.get("checked", {}).get("contradicts")]
    above = [row["key"] for row in rows if row["asked"] == "noise" and _above(row)]
    out.append(f"contradicted: {wrong or 'none'}")
    out.append(f"calibrated noise whose recount is above its target: {above or 'none'}")
    slow = sorted(rows, key=lambda row: -row["cpu"])[:5]
    out.append("slowest: " + ", ".join(f"{row['key']} {row['cpu']:.1f} s ({_who(row)})" for row in slow))
    large = sorted(rows, key=lambda row: -row["peak_mb"])[:5]
    out.append("largest: " + ", ".join(f"{row['key']} {row['peak_mb']:.0f} MB ({_who(row)})" for row in large))
    for row in rows:
        if _who(row) in ("refused", "failed"):
            why = row["answer"]["refusal"] if row["answer"] else row.get("error", "")
            out.append(f"{row['key']}: {why}")
    return "\n".join(out)


def _above(row: dict[str, Any]) -> bool:
    found = row["answer"]
    return found is not None and found["counted"] is not None and found["counted"] > row["epsilon"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=400)
    parser.add_argument("--calibrations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="JSON lines; what stands there is not asked again")
    parser.add_argument("--only", nargs="*", metavar="KEY", help="such as epsilon-12")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    known = {row["key"]: row for row in rows}
    asked = [
        one
        for one in questions(options.settings, options.calibrations, options.seed)
        if not options.only or one.key in options.only
    ]
    with options.out.open("a") as file:
        for done, question in enumerate(asked):
            row = known.get(question.key)
            if row is not None:
                if json.dumps({name: row[name] for name in plain(question)}) != json.dumps(plain(question)):
                    print(f"{question.key}: the file holds the answer to another question", file=sys.stderr)
                    return 2
                continue
            known[question.key] = row = run(question)
            file.write(json.dumps(row) + "\n")
            file.flush()
            if done % 25 == 0:
                print(f"{done} of {len(asked)}", file=sys.stderr)
    print(table([known[one.key] for one in asked]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
