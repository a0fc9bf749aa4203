"""The exam that every data source sits: `questions.QUESTIONS` over every `Candidate`, in one process and without Ray.

A newcomer of `trainables.data.SOURCES` gets a row in `tests.trainables.source_cases`. A source of another package sits
it from a checkout of this repository, by the same candidate:

    from tests.trainables.data_exam import Candidate, sit
    assert sit(Candidate(source=MINE, options={...}, made=my_records, write=my_files), tmp_path) == {}

or as tests, one for each question:

    SWEEPS_EXAM_SOURCE=mypackage.exams:CANDIDATE python -m pytest --pyargs tests.trainables.data_exam
"""

from tests.trainables.data_exam.candidate import Candidate
from tests.trainables.data_exam.questions import QUESTIONS, sit

__all__ = ["QUESTIONS", "Candidate", "sit"]
