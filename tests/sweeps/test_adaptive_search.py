"""A sealed search that follows its results: what is drawn, what a lost worker proposes again, and who the winner is.

As in test_sealed_search.py store, files, training and release are real, and workers run in threads of this process.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from dpcore.selection.best import HeterogeneousTrials
from sweeps.execution import session
from sweeps.execution.resume import effective_spec
from sweeps.privacy.charge import trial_profile
from sweeps.sealed.coordinates import SpaceCoordinates
from sweeps.search.coordinates import Coordinates
from sweeps.search.space import Space
from sweeps.selection.price import CANDIDATES, SealedPlanner, SealedPrior
from sweeps.selection.run import drawn_for
from sweeps.spec import load_spec, public_facts
from sweeps.store.records import TrialState
from sweeps.util.fingerprint import Changed
from tests.sweeps.sealed_searches import SPEC, Search, files
from trainables.natural import NONE
from trainables.sealed.drawn import COINS, Coins, SealedDraw
from trainables.sealed.slot import run_slot
from trainables.sealed.standing import Standing
from trainables.sealed.worker import SealedWork, after, serve

CAP = 8
ADAPTIVE = {
    "search": {"trials": CAP, "sampler": "adaptive"},
    "selection": {**SPEC["selection"], "adapt": {"low": 0.75, "high": 1.25}},
}


def certain(work: SealedWork) -> SealedDraw:
    """The draw, of which every slot is run."""
    drawn = replace(work.drawn(), count=CAP)
    work.keep_drawn(drawn)
    return drawn


def alone(search: Search, work: SealedWork, worker: int) -> Standing:
    """Where a worker stands at the end of its chain, by a plain loop."""
    drawn, standing = work.drawn(), Standing(following=worker)
    while standing.following < drawn.count:
        chosen = work.chosen(drawn, standing)
        number = standing.following
        found = run_slot(drawn, number, work.winner, work.group, search.data, work.ranking, chosen)
        standing = after(work, standing, chosen, found)
    return standing


def test_every_candidate_of_every_slot_is_a_planned_draw_of_the_prior(tmp_path):
    search = Search(tmp_path, **ADAPTIVE)
    drawn = search.begin().drawn()
    assert (drawn.width, len(drawn.slots)) == (CANDIDATES, CAP * CANDIDATES)
    assert len({tuple(one.config.items()) for one in drawn.slots}) == len(drawn.slots)
    space, planner = Space.of(search.spec), SealedPlanner.of(SealedPrior(search.spec, search.facts))
    rule, coordinates = planner.pricing.rule, SpaceCoordinates.of(space)
    assert isinstance(rule, HeterogeneousTrials)
    assert (rule.low, rule.high) == (0.75, 1.25)
    for one in drawn.slots:
        assert space.misfit({name: one.config[name] for name in one.config}) == ""
        assert rule.covers(trial_profile(one.plan))
        assert one.place == coordinates.place(one.config)
        assert len(one.place) == 2
    for number in range(CAP):
        assert len({one.seed for one in drawn.candidates(number)}) == 1
        assert drawn.of(number, 3) is drawn.slots[number * CANDIDATES + 3]
    assert SealedDraw.from_bytes(drawn.to_bytes()) == drawn


def test_candidates_are_independent_and_follow_the_prior():
    """Clips of 0.2 to 1, uniform: of 30 draws of 64 candidates, no tenth has more than its share by five deviations."""
    spec = load_spec({**SPEC, **ADAPTIVE})
    facts, clips, calibrations = public_facts(spec), [], {}
    for _ in range(30):
        clips += [one.config["clip"] for one in drawn_for(SealedPrior(spec, facts, calibrations)).slots]
    counts, _ = np.histogram(clips, bins=10, range=(0.2, 1.0))
    share = len(clips) / 10
    assert np.all(np.abs(counts - share) < 5 * np.sqrt(share * 0.9))
    assert len(set(clips)) == len(clips)


def test_the_winner_is_the_best_of_what_the_chains_proposed(tmp_path):
    search = Search(tmp_path, **ADAPTIVE)
    work = search.begin()
    drawn = certain(work)
    ends = [alone(search, work, worker) for worker in range(work.workers)]
    search.serve(work)
    [best] = work.best()
    for worker, end in enumerate(ends):
        kept = work.standing(worker)
        assert (kept.following, kept.seen) == (end.following, end.seen)
        assert [one.slot for one in kept.seen] == list(range(worker, CAP, work.workers))
    assert best.metrics == min((end.best[0] for end in ends), key=lambda one: (one.ranks, one.slot)).metrics
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    slot = drawn.of(best.slot, best.chosen)
    assert (winner.state, winner.attempts, winner.number) == (TrialState.COMPLETE, 1, 0)
    assert (dict(winner.config), winner.seed, winner.plan) == (dict(slot.config), slot.seed, slot.plan)
    assert "0.75 and 1.25 times as often as by the prior" in winner.guarantee.theorem


def test_results_change_what_is_proposed_and_other_chains_do_not(tmp_path):
    search = Search(tmp_path, **ADAPTIVE)
    work = search.begin()
    drawn = certain(work)
    history = alone(search, work, 0).seen
    assert work.adapting is not None
    turned = tuple(one._replace(value=-one.value) for one in history)
    last = CAP - 1
    assert not np.allclose(work.adapting.chances(drawn, last, history), work.adapting.chances(drawn, last, turned))
    # With one worker more of what ran is known: another policy, under the same price.
    assert [one.slot for one in alone(search, replace(work, workers=1), 0).seen] == list(range(CAP))


@pytest.mark.parametrize("kills", [0, 1, 2, 4])
def test_a_lost_worker_proposes_the_same_again(tmp_path, kills):
    """Killed after so many of its records, at whatever slot: what it had not written it runs again, the same."""
    search = Search(tmp_path, **ADAPTIVE)
    work = search.begin()
    certain(work)
    expected = [alone(search, work, worker) for worker in range(work.workers)]
    pid = os.fork()
    if pid == 0:
        count, keep = 0, SealedWork.keep

        def counted(self, worker, standing):
            nonlocal count
            if count == kills:
                os.kill(os.getpid(), 9)
            keep(self, worker, standing)
            count += 1

        SealedWork.keep = counted  # type: ignore[method-assign]
        serve(work, 0, search.data)
        os._exit(0)
    os.waitpid(pid, 0)
    again = search.opened()
    assert again is not None
    search.serve(again)
    assert [again.standing(worker).seen for worker in range(2)] == [one.seen for one in expected]
    [best] = again.best()
    wanted = min((one.best[0] for one in expected), key=lambda one: (one.ranks, one.slot))
    assert (best.slot, best.chosen, best.metrics) == (wanted.slot, wanted.chosen, wanted.metrics)


def test_what_lies_there_is_alike_whatever_was_seen(tmp_path):
    sizes = set()
    for number in range(2):
        search = Search(tmp_path / str(number), **ADAPTIVE)
        work = search.begin()
        before = files(work)
        search.serve(work)
        sizes |= {tuple(sorted(one.items())) for one in (before, files(work))}
        for path in Path(work.folder.url).iterdir():
            assert b"chosen" not in path.read_bytes()
    assert len(sizes) == 1


def test_what_failed_is_the_worst_that_was_seen_and_never_leaves(tmp_path):
    search = Search(tmp_path, **ADAPTIVE)
    work = search.begin()
    drawn = work.drawn()
    standing = after(work, Standing(following=0), 5, None)
    assert (standing.following, standing.best, standing.seen) == (2, (), ((0, 5, None),))
    found = run_slot(drawn, 2, work.winner, work.group, search.data, work.ranking, 1)
    better = after(work, standing, 1, found)
    assert better.seen[1] == (2, 1, found.metrics["estimate"])
    assert better.best[0].chosen == 1
    # A model that never fits is none that did well.
    small = after(replace(work, room=-60_000), standing, 1, found)
    assert (small.best, small.seen[1].value) == ((), None)


@pytest.mark.parametrize(
    "changes",
    [
        {**ADAPTIVE, "selection": {**SPEC["selection"], "adapt": {"low": 0.9, "high": 1.1}}},
        {**ADAPTIVE, "systems": {"noisy-mean": {"clip": {"uniform": [0.2, 0.5]}, "steps": 4}}},
        {"search": {"trials": CAP}},
    ],
    ids=["bounds", "space", "sampler"],
)
def test_nothing_of_what_is_priced_changes_while_it_runs(tmp_path, changes):
    """Results choose in it, and yet it is no sweep of whose spec anything may be accepted."""
    search = Search(tmp_path, **ADAPTIVE)
    search.begin()
    given = load_spec({**SPEC, **changes})
    with pytest.raises(Changed, match="was started with another spec"):
        session.resume(search.name, search.workspace, spec=given)
    with pytest.raises(InvalidValue, match="accept='spec': expected nothing"):
        session.resume(search.name, search.workspace, spec=given, accept=["spec"])
    # Nor would the rule for open sweeps have it.
    with pytest.raises(Changed, match="cannot change"):
        effective_spec(search.store.sweep(search.name), given, ["spec"])


def test_what_was_written_before_results_could_lead_is_read_as_it_was_meant():
    drawn = SealedDraw(count=1, coins=Coins(bytes(COINS)), slots=())
    data = json.loads(drawn.to_bytes())
    del data["width"]
    assert SealedDraw.from_bytes(json.dumps(data).encode()) == drawn


def test_no_result_leads_an_independent_search(tmp_path):
    work = Search(tmp_path).begin()
    assert (work.adapting, work.drawn().width, work.drawn().slots[0].place) == (None, 1, ())
    assert after(work, Standing(following=0), 0, None).seen == ()


def test_places_of_several_systems_are_as_long():
    space = Space.of(load_spec({**SPEC, **ADAPTIVE}))
    (branch,) = space.branches
    other = replace(branch, system="other", searched={"clip": branch.searched["clip"]})
    own = SpaceCoordinates.of(space).parts["noisy-mean"]
    both = SpaceCoordinates({"noisy-mean": own, "other": Coordinates(other, space.epsilons, NONE)})
    one = both.place({"system": "noisy-mean", "target_epsilon": 3.0, "clip": 0.2, "steps": 1})
    two = both.place({"system": "other", "target_epsilon": 3.0, "clip": 1.0})
    assert one == pytest.approx((-0.5, -0.5, 1.0, 0.0, 0.0))
    assert two == pytest.approx((0.0, 0.0, 0.0, 0.5, 1.0))
