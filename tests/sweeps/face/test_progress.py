"""What a person without a terminal reads while a sweep runs."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from sweeps import progress as display
from sweeps.store.records import TrialState

OBJECTIVES = [
    SimpleNamespace(metric="accuracy", goal="maximize"),
    SimpleNamespace(metric="epsilon", goal="minimize"),
]


def trial(number, state=TrialState.COMPLETE, **metrics):
    return SimpleNamespace(key=f"t-{number}", state=state, metrics=metrics, metric=metrics.get)


@pytest.fixture
def clock(monkeypatch):
    """Seconds, as the display reads them."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(display.time, "monotonic", lambda: now.seconds)
    return now


def test_the_rest_is_estimated_from_the_pace_after_the_first_trial_of_this_start(clock):
    """Workers take long to start and a resumed sweep has trials behind it: neither is pace."""
    known = {f"t-{n}": trial(n, accuracy=0.5) for n in range(4)}
    spec = SimpleNamespace(search=SimpleNamespace(trials=20), objectives=OBJECTIVES)
    controller = SimpleNamespace(sweep="t", spec=spec, enqueued=0, table=SimpleNamespace(published=known.values))
    written = io.StringIO()
    lines = []
    with display.ProgressDisplay(console=Console(file=written, width=200)) as shown:
        for number, seconds in ((4, 300.0), (5, 10.0), (6, 10.0), (7, 10.0)):
            clock.seconds += seconds
            shown.on_change(controller, trial(number, accuracy=0.5 + number / 100))
            lines.append(written.getvalue().splitlines()[-1].strip())
    assert lines == [
        "5/20 trials  best accuracy 0.54",
        "6/20 trials  best accuracy 0.55",
        "7/20 trials, about 130 s left  best accuracy 0.56",
        "8/20 trials, about 120 s left  best accuracy 0.57",
    ]


def test_a_notebook_has_one_place_that_is_written_over_and_the_end_is_told(clock, monkeypatch):
    """Of two trials that end at once the second is not left out."""
    shown = []

    class Kernel(ModuleType):
        HTML = str

        @property
        def display(self):
            return self

        def __call__(self, page, display_id):
            shown.append(page)
            return SimpleNamespace(update=lambda page: shown.__setitem__(0, page))

    monkeypatch.setitem(sys.modules, "IPython", Kernel("IPython"))
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    spec = SimpleNamespace(search=SimpleNamespace(trials=2), objectives=OBJECTIVES)
    controller = SimpleNamespace(sweep="<t>", spec=spec, enqueued=0, table=SimpleNamespace(published=lambda: []))
    with display.ProgressDisplay(console=Console(file=io.StringIO())) as progress:
        assert not shown, "Ray clears the cell as it starts"
        for number in range(2):
            progress.on_change(controller, trial(number, accuracy=0.5 + number / 10))
        assert shown == ['<progress value="1" max="2"></progress> &lt;t&gt;  1/2 trials  best accuracy 0.5']
    assert shown == ['<progress value="2" max="2"></progress> &lt;t&gt;  2/2 trials  best accuracy 0.6']


def test_a_function_hears_of_each_change_and_its_error_ends_nothing(clock):
    spec = SimpleNamespace(search=SimpleNamespace(trials=4), objectives=OBJECTIVES)
    controller = SimpleNamespace(sweep="t", spec=spec, enqueued=0, table=SimpleNamespace(published=lambda: []))
    heard, written = [], io.StringIO()

    def told(progress: display.SweepProgress) -> None:
        heard.append(progress)
        if progress.done == 3:
            raise OSError("the pipe is closed")

    with display.ProgressDisplay(Console(file=written), told) as shown:
        for number in range(4):
            clock.seconds += 10
            shown.on_change(controller, trial(number, accuracy=0.5 + number / 10))
    assert [(one.trial, one.state, one.done, one.total, one.seconds_left) for one in heard] == [
        ("t-0", "complete", 1, 4, None),
        ("t-1", "complete", 2, 4, None),
        ("t-2", "complete", 3, 4, pytest.approx(10.0)),
    ]
    assert heard[-1].best == {"accuracy": 0.7}
    assert written.getvalue() == ""
