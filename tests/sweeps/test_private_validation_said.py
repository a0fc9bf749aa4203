"""What is said of private validation records before a sweep runs: preview, recorded text, refusals."""

from __future__ import annotations

import pytest

from sweeps.planning.preview import preview
from sweeps.privacy.wording import recorded_text
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.spec import SpecErrors, load_spec
from tests.sweeps.private_people import PUBLIC, people, spec_of

__all__ = ["people"]


def test_the_preview_says_what_is_private_and_counts_reports_in_its_total(people):
    spec = load_spec(spec_of(people))
    found = preview(spec, samples=5)
    assert found.total.epsilon > 2.0
    assert "validation records: private" in found.render()
    assert "on each count of a report" in found.render()
    public = load_spec(spec_of(people, data=spec_of(people)["data"] | {"validation": PUBLIC}))
    lines = [line for line in preview(public, samples=5).render().splitlines() if line.startswith("validation records")]
    assert len(lines) == 1
    assert "treated as public" in lines[0]
    assert "no claim covers" in lines[0]


@pytest.mark.parametrize(
    ("validation", "says"),
    [
        ({"records": "private", "share": 0.3, "id": "id"}, "in parallel with training"),
        ({"records": "private", "path": "gone.parquet", "n": 9}, "added to training's"),
        ({"records": "public", "share": 0.3, "id": "id"}, "treated as public"),
        ({"share": 0.3, "id": "id"}, "treated as public"),  # recorded before an answer was asked for
    ],
)
def test_a_recorded_sweep_says_in_one_line_whose_its_validation_records_are(people, validation, says):
    raw = spec_of(people)
    recorded = raw | {"data": raw["data"] | {"validation": validation}}
    recorded["privacy"] = {"adjacency": "add-remove"}
    assert says in recorded_text(RecordedSpec(recorded))
    assert "\n" not in recorded_text(RecordedSpec(recorded))
    assert recorded_text(RecordedSpec(recorded | {"data": {"source": "uniform"}})) is None


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"systems": {"subsample-and-aggregate": {"models": 4}}}, "data.validation.records"),
        ({"objectives": [{"metric": "rmse"}]}, "objectives.0.metric"),
        ({"objectives": [{"metric": "rmse_noise_sd"}]}, "objectives.0.metric"),
    ],
)
def test_check_refuses_what_no_noised_report_gives(people, changes, path):
    with pytest.raises(SpecErrors) as raised:
        load_spec(spec_of(people, **changes))
    assert path in {error.path for error in raised.value.errors}


def test_check_demands_an_answer(people):
    data = spec_of(people)["data"]
    with pytest.raises(SpecErrors, match="public or private") as raised:
        load_spec(spec_of(people, data={**data, "validation": {"share": 0.3, "id": "id"}}))
    assert [error.path for error in raised.value.errors] == ["data.validation.records"]
