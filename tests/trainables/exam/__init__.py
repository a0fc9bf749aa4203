"""The exam that every system sits: `questions.QUESTIONS` over every `Candidate`, in one process and without Ray.

A newcomer of the registry gets a row in `tests.trainables.registry_cases`. A system of another package sits it from a
checkout of this repository, by the same candidate:

    from tests.trainables.exam import Candidate, sit
    assert sit(Candidate(system=MINE, config={...}, data=my_small_data)) == {}

or as tests, one for each question:

    SWEEPS_EXAM=mypackage.exams:CANDIDATE python -m pytest --pyargs tests.trainables.exam
"""

from tests.trainables.exam.candidate import Candidate
from tests.trainables.exam.questions import QUESTIONS, sit

__all__ = ["QUESTIONS", "Candidate", "sit"]
