"""Launches without a sign of life: named after the patience, ended after the limit, on the controller's clock."""

import pytest

from sweeps.ray import watchdog
from sweeps.ray.watchdog import Sign, Stalls


class Clock:
    """Seconds that the test lets pass."""

    def __init__(self):
        self.time = 1000.0

    def now(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(watchdog, "CLOCK", found)
    monkeypatch.setenv("SWEEPS_PATIENCE", "40")
    return found


def sign(at, process="p"):
    """Of a launch whose worker wrote last at this time."""
    return Sign(process, ((("claim", at),),))


def looks(watch, clock, seconds, signs):
    """What is to be ended, over this many seconds of looking every second."""
    ended = []
    for _ in range(seconds):
        clock.time += 1
        ended += watch.look(signs)
    return ended


def test_a_launch_that_shows_life_is_left_alone_however_long_it_runs(clock, capsys):
    watch = Stalls(100.0)
    assert looks(watch, clock, 1000, {"s-0.1": lambda: sign(int(clock.time) // 30)}) == []
    assert capsys.readouterr().err == ""


def test_one_without_a_sign_is_named_and_then_ended_and_others_are_not(clock, capsys):
    watch = Stalls(100.0)
    signs = {"s-0.1": lambda: sign(0), "s-1.1": lambda: sign(int(clock.time) // 30)}
    assert looks(watch, clock, 99, signs) == []
    said = capsys.readouterr().err
    assert said.count("s-0.1 has shown no sign of life for 4") == 1
    assert "It is ended after 100 s: limits.stall_seconds." in said
    assert "s-1.1" not in said
    ended = looks(watch, clock, 15, signs)
    assert [name for name, _ in ended] == ["s-0.1"] * len(ended)
    assert 100 <= ended[0][1] <= 106
    # It is gone; the same name is not looked at again.
    assert looks(watch, clock, 200, {"s-1.1": signs["s-1.1"]}) == []


def test_without_a_limit_nothing_is_ended_and_it_is_said_ever_more_seldom(clock, capsys):
    watch = Stalls(None)
    assert looks(watch, clock, 1000, {"s-0.1": lambda: sign(0)}) == []
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" for ")[1].split(" s")[0] for line in said] == ["40", "80", "160", "320", "640"]
    assert all("Nothing ends it: limits.stall_seconds would." in line for line in said)


def test_one_that_goes_on_is_said_to(clock, capsys):
    watch = Stalls(100.0)
    looks(watch, clock, 60, {"s-0.1": lambda: sign(0)})
    assert looks(watch, clock, 90, {"s-0.1": lambda: sign(1)}) == []
    assert "s-0.1 goes on." in capsys.readouterr().err


def test_records_that_cannot_be_read_say_nothing_of_the_worker(clock):
    def unreadable():
        raise OSError("the file system is away")

    watch = Stalls(100.0)
    looks(watch, clock, 90, {"s-0.1": lambda: sign(0)})
    assert looks(watch, clock, 500, {"s-0.1": unreadable}) == []
    assert looks(watch, clock, 90, {"s-0.1": lambda: sign(0)}) == []


def test_a_launch_given_to_another_process_begins_anew(clock):
    watch = Stalls(100.0)
    assert looks(watch, clock, 90, {"s-0.1": lambda: sign(0, "first")}) == []
    assert looks(watch, clock, 90, {"s-0.1": lambda: sign(0, "second")}) == []


def test_the_limit_changes_no_sweep():
    from sweeps.spec import diff
    from tests.sweeps.toys import spec_with

    plain, limited = spec_with(), spec_with(limits={"stall_seconds": 600})
    assert plain.digest == limited.digest
    assert [(change.path, change.meaning) for change in diff(plain, limited)] == [("limits.stall_seconds", False)]
    assert spec_with(limits={"work": 1e6}).digest != plain.digest


def test_a_limit_that_healthy_workers_would_meet_is_refused():
    from sweeps.spec import SpecErrors
    from tests.sweeps.toys import spec_with

    with pytest.raises(SpecErrors, match=r"limits\.stall_seconds=20.*at least 30, 3 times"):
        spec_with(limits={"stall_seconds": 20})
    assert spec_with(limits={"stall_seconds": 20}, execution={"checkpoint_seconds": 5}).limits.stall_seconds == 20


def test_a_start_has_the_patience_where_that_is_longer(clock):
    watch = Stalls(10.0)
    starting = {"s-0.1": lambda: Sign("p", ((), ()))}
    assert looks(watch, clock, 38, starting) == []
    assert {name for name, _ in looks(watch, clock, 5, starting)} == {"s-0.1"}
    assert {name for name, _ in looks(Stalls(10.0), clock, 12, {"s-0.1": lambda: sign(0)})} == {"s-0.1"}
