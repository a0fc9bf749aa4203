"""The exam that every store sits: `questions.QUESTIONS`, which are the duties of `sweeps.store.contract` one by one.

A newcomer of `sweeps.store.registry` gets a row in `test_exam.SITTING`. A store of another package sits it from a
checkout of this repository, by a candidate of its own (`file_store.CANDIDATE` is one):

    from tests.sweeps.store_exam import Candidate, sit
    assert sit(Candidate(name="mine", open=open_mine, places=new_places)) == {}

or as tests, one for each question:

    SWEEPS_EXAM_STORE=mypackage.exams:CANDIDATE python -m pytest --pyargs tests.sweeps.store_exam.test_exam
"""

from tests.sweeps.store_exam.candidate import Candidate, sit
from tests.sweeps.store_exam.questions import QUESTIONS

__all__ = ["QUESTIONS", "Candidate", "sit"]
