"""What the user declares about an own table: columns, label, records, validation. Nothing of it is measured.

data:
  source: table
  path: people.parquet            # file, folder, s3:// or gs:// URL; Parquet or CSV
  format: images                  # of a folder with a subfolder of images for each class: columns image, label, file
  n: 10000                        # records in it, declared; with `unit`, units in it
  label: income
  classes: ["<=50K", ">50K"]      # or a number K for labels 0..K-1, or `target: [low, high]` for a regression
  columns:
    age: {low: 17, high: 90}              # a number, cut to its bounds and scaled to [0, 1]
    sex: {categories: [Male, Female]}     # one-hot
    film: {codes: 3952}                   # integer codes 0..3951, for embeddings
    text: {tokenizer: tokenizer.json, shape: [128]}   # texts, as the codes that a file of the library tokenizers gives
    photo: {image: [32, 32], channels: 3}        # encoded images (PNG, JPEG, ...), all of this size
    words: {codes: 30522, shape: [128], padding: 0}   # lists of at most 128 codes, filled up with 0; and their mask
    scan: {low: 0, high: 255, shape: [28, 28]}   # a list column of 784 numbers
  validation: {records: private, share: 0.2, id: person_id}   # see `trainables.data.splits`, for test and part too
  loss: mylab:focal                     # instead of the task's; or next-token or masked, where the label is `words`
  class_weights: [1, 5]                 # in the loss, one for each class
  weight: {column: weight, high: 5}     # in the loss, of each record
  groups: {column: sex, categories: [Male, Female]}   # worst_group_accuracy
  unit: {column: person_id, max_records: 50}     # with `privacy.unit: person`, say: all rows of a person are one unit

With `unit`, neighbours differ in all rows that share a value of its column, at most `max_records` of which are used:
those with the lowest hash of the unit's id and their contents. `n` then counts units, here and of a validation file;
validation is split by the unit (`id` may be left out), and no unit may be in both files. Ids are whole numbers or
texts, of whatever parts records; those of units without spaces around them, and none may be missing, nor `NA`, `null`
or another word for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from dpcore.checks import InvalidValue
from trainables.data.options import Bounds, Options, Text, Whole, bounds
from trainables.data.splits import (
    PART,
    TEST,
    VALIDATION,
    PartOptions,
    TestOptions,
    ValidationOptions,
    ValidationSplit,
    check_beside,
    share_of_records,
)
from trainables.data.table_file import tokens_of
from trainables.metrics import LOSS, MASKED, TOKEN_LOSSES
from trainables.plugins import OBJECT
from trainables.system import MASK, DatasetSpec, Groups, InputSpec, Task, Weights, with_mask_specs
from trainables.units import Unit

MASKED_SHARE = 0.15
"""Of tokens that count (Devlin et al. 2019)."""
JOINED = "x"
"""Feature in which plain numbers and one-hot categories stand side by side, in declared order."""
_NEVER_COUNTED = "They are chosen beforehand: a weight that follows from counts of records would tell of each of them."


def _value(value: object) -> object:
    """One value of a column. Raises InvalidValue for a list or a mapping: no cell of a table holds one."""
    if isinstance(value, list | dict):
        raise InvalidValue("", value, "a text, a number or a truth value", "Quote it if it is a text.")
    return value


Value = Annotated[Any, BeforeValidator(_value)]
_FORMS = (
    "{low, high}, {categories: [...]} or {codes: K}, the first and last also with shape: [...]; of texts "
    "{tokenizer: FILE, shape: [LENGTH]}, of images {image: [ROWS, COLUMNS], channels: 1 or 3}"
)


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column: a number in [low, high], a category or a code; with a shape, a list of such numbers.

    tokenizer  the content of the file that turns a text into such codes
    image      whether it holds encoded images, in `shape`
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    categories: tuple[Any, ...] = ()
    codes: int | None = None
    shape: tuple[int, ...] = ()
    missing: float | None = None
    padding: int | None = None
    mask: int | None = None
    tokenizer: str = ""
    image: bool = False

    @property
    def own_feature(self) -> bool:
        """Whether it is an input of its own instead of a part of `JOINED`."""
        return bool(self.shape) or self.codes is not None

    @property
    def is_text(self) -> bool:
        """Whether it is read as it is written: a text, or each of its categories is one."""
        return bool(self.tokenizer) or are_texts(self.categories)

    @property
    def is_number(self) -> bool:
        """Whether it is read as a number with a point, whatever its first rows look like."""
        return not (self.categories or self.shape) and self.codes is None

    @property
    def width(self) -> int:
        """Numbers that it adds to `JOINED`: where missing ones are filled, another says of each that it was missing."""
        return len(self.categories) or (1 if self.missing is None else 2)


def are_texts(values: Sequence[object]) -> bool:
    """Whether there are values, each of them a text."""
    return bool(values) and all(isinstance(one, str) for one in values)


class ColumnOptions(Options):
    """One column: {low, high}, {categories}, {codes}, {tokenizer} or {image}."""

    low: float | None = Field(None, strict=True)
    high: float | None = Field(None, strict=True)
    categories: list[Value] | None = Field(None, min_length=1)
    codes: Whole | None = None
    tokenizer: Text | None = Field(None, description="a file of the library tokenizers, by which texts become codes")
    image: list[Whole] | None = Field(
        None, min_length=2, max_length=2, description="[rows, columns] of encoded images, which all have that size"
    )
    channels: Literal[1, 3] = 3
    shape: list[Whole] = Field(default_factory=list)
    missing: float | None = Field(
        None,
        strict=True,
        allow_inf_nan=False,
        description="a public constant in place of a number that is missing; another input says that it was",
    )
    padding: int | None = Field(
        None,
        strict=True,
        description="the code that fills a list up where it is shorter; another input, the mask, is 0 there and else 1",
    )

    mask: int | None = Field(
        None, strict=True, description="the code that stands where a masked loss asks for another (loss: masked)"
    )

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        codes = self.codes if self.tokenizer is None else self.tokenizer
        kinds = [one is not None for one in (self.low, self.categories, codes, self.image)]
        shaped = (
            (self.categories and self.shape) or (self.image and self.shape) or (self.tokenizer and len(self.shape) != 1)
        )
        if sum(kinds) != 1 or (self.low is None) != (self.high is None) or shaped:
            raise InvalidValue("", self.model_dump(exclude_unset=True), _FORMS)
        column = self.column("")
        if self.low is not None:
            bounds([self.low, self.high])
        if self.missing is not None and (self.low is None or self.shape):
            raise InvalidValue("missing", self.missing, "a constant for a column of {low, high} without a shape")
        for name, code in (("padding", column.padding), ("mask", column.mask)):
            if code is not None and (column.codes is None or not self.shape or not 0 <= code < column.codes):
                raise InvalidValue(name, code, "one of the codes of a column of {codes, shape}")
        if self.mask is not None and self.mask == column.padding:
            raise InvalidValue("mask", self.mask, "another code than that of padding")
        if self.categories and len(set(self.categories)) < len(self.categories):
            raise InvalidValue("categories", self.categories, "each value once")
        return self

    def column(self, name: str) -> Column:
        """As it is read."""
        low, high = (0.0, 1.0) if self.low is None or self.high is None else (float(self.low), float(self.high))
        categories, shape = tuple(self.categories or ()), tuple(self.shape)
        if self.image is not None:
            return Column(name, shape=(*([3] if self.channels == 3 else []), *self.image), image=True)
        if self.tokenizer is not None:
            of = tokens_of(self.tokenizer, self.codes, self.padding, self.mask)
            return Column(name, codes=of.codes, shape=shape, padding=of.padding, mask=of.mask, tokenizer=of.content)
        return Column(name, low, high, categories, self.codes, shape, self.missing, self.padding, self.mask)


class WeightOptions(Options):
    """The weight of each record in the loss."""

    column: Text
    high: float = Field(strict=True, gt=0, allow_inf_nan=False, description="a public bound: more is cut to it")


class GroupOptions(Options):
    """Groups of records that accuracy is told of."""

    column: Text
    categories: list[Value] = Field(min_length=2)

    @model_validator(mode="after")
    def _are_different(self) -> Self:
        if len(set(map(str, self.categories))) < len(self.categories):
            raise InvalidValue("categories", self.categories, "a list of at least two different values")
        return self


def _classes(value: object) -> tuple[Any, ...]:
    """All labels, of a list or of their number. Raises InvalidValue."""
    given = list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value
    labels = () if not isinstance(given, Sequence) or isinstance(given, str) else tuple(map(_value, given))
    if not 2 <= len(set(labels)) == len(labels):
        raise InvalidValue("", value, "at least two labels, each of them once, or their number", "List them.")
    return labels


_Classes = Annotated[
    tuple[Any, ...],
    BeforeValidator(_classes),
    WithJsonSchema({"type": ["array", "integer"], "minItems": 2, "minimum": 2}),
]
_Weight = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class TableOptions(Options):
    """Options of a table."""

    path: str | None = Field(
        None, description="a file, a folder or a URL of Parquet or CSV", examples=["people.parquet"]
    )
    format: Literal["csv", "parquet", "images"] | None = Field(
        None,
        description="csv or parquet, else known by the name of the file; images of a folder of them, with a subfolder "
        "for each class: its columns are image, label and file",
        examples=["parquet"],
    )
    n: Whole = Field(description="how many records there are, or units: declared, never counted", examples=[20000])
    label: Text = Field(description="the column to predict", examples=["income"])
    classes: _Classes | None = Field(
        None, description="a list of all labels, or their number", examples=[["low", "high"]]
    )
    task: Literal["classification", "rating"] = Field(
        "classification", description="what classes are", examples=["rating"]
    )
    target: Bounds | None = Field(
        None, description="[low, high] of a regression, instead of classes", examples=[[0, 5000]]
    )
    loss: Text | None = Field(
        None,
        description="what is minimised instead of the task's own: next-token or masked, of a label that is a column of "
        "tokens, or module:function of outputs and targets that returns a number for each record",
        examples=["mylab:focal"],
    )
    prompt: Text | None = Field(
        None,
        description="a column of how many of a record's first tokens are its prompt, which the loss leaves out",
        examples=["asked"],
    )
    columns: dict[str, ColumnOptions] = Field(
        min_length=1,
        description="the inputs: {low, high}, {categories: [...]} or {codes: K} of each, with a shape where it is a "
        "list; {tokenizer: FILE, shape: [LENGTH]} of texts, {image: [ROWS, COLUMNS], channels: 1 or 3} of images",
        examples=[
            {
                "age": {"low": 0, "high": 100},
                "work": {"categories": ["private", "public", "self"]},
                "scan": {"low": 0, "high": 1, "shape": [28, 28]},
                "words": {"codes": 5000, "shape": [200]},
            }
        ],
    )
    validation: ValidationOptions | None = Field(
        None,
        description="{records: private or public, share, id: COLUMN}, or {records, path, n} of another file",
        examples=[{"records": "private", "share": 0.2, "id": "person_id"}],
    )
    test: TestOptions | None = Field(
        None,
        description="{records: public or private, share, id: COLUMN}, or {records: public, path, n}: read once, at the "
        "end",
        examples=[{"records": "public", "path": "test.parquet", "n": 5000}],
    )
    part: PartOptions | None = Field(
        None,
        description="{use: tuning or final, share, id: COLUMN}: the part of the records that tunes, or that of the "
        "final run",
        examples=[{"use": "tuning", "share": 0.2, "id": "person_id"}],
    )
    unit: Unit | None = Field(
        None,
        description="{column: NAME, max_records: k}, what one neighbour of a claim differs in",
        examples=[{"column": "person_id", "max_records": 50}],
    )
    class_weights: list[_Weight] | None = Field(
        None,
        description="a public number for each class, in their order, which its records' loss is multiplied by",
        examples=[[1, 5]],
    )
    weight: WeightOptions | None = Field(
        None,
        description="{column: NAME, high: W}, a record's weight in the loss, cut to 0..W",
        examples=[{"column": "weight", "high": 5}],
    )
    groups: GroupOptions | None = Field(
        None,
        description="{column: NAME, categories: [...]}, groups whose accuracy is told: worst_group_accuracy",
        examples=[{"column": "sex", "categories": ["female", "male"]}],
    )


class Schema:
    """The whole declaration, checked; see `TableOptions` for what is not said here. Raises InvalidValue.

    n       of the whole file, of which `part` may be read alone
    own     of the part that is read
    target  ends of a regression's
    form    of the files, where it is said
    """

    def __init__(self, asked: TableOptions) -> None:
        self.asked, self.path, self.form = asked, asked.path, asked.format
        self.columns = tuple(rule.column(name) for name, rule in asked.columns.items())
        self.tokens, self.loss, self.prompt = self._label_of_tokens(asked), asked.loss or "", asked.prompt
        if self.tokens is not None and (asked.classes is not None or asked.target is not None):
            option = "classes" if asked.classes is not None else "target"
            expected = f"nothing: the tokens of {self.tokens.name} are predicted"
            raise InvalidValue(f"data.{option}", asked.classes or asked.target, expected, "Leave it out.")
        if self.tokens is None and (asked.classes is None) == (asked.target is None):
            expected = "either `classes` (a list or a number) or `target: [low, high]`"
            raise InvalidValue("data.classes", asked.classes, expected, "Declare one.")
        self.n, self.label, self.unit = asked.n, asked.label, asked.unit
        self.classes, self.target = asked.classes or (), asked.target or (0.0, 1.0)
        self.task = Task.TOKENS if self.tokens else Task(asked.task) if self.classes else Task.REGRESSION
        self._check_columns(asked)
        self.weights = _weights(asked, len(self.classes))
        self.groups = None
        if asked.groups is not None:
            self.groups = Groups(column=asked.groups.column, categories=tuple(map(str, asked.groups.categories)))
        self.part, path = None, str(asked.path)
        if asked.part is not None:
            self.part = asked.part.part(asked.n, None if asked.unit is None else asked.unit.column)
        self.own = asked.n if self.part is None else self.part.size(asked.n)
        self.validation = ValidationSplit()
        if asked.validation is not None:
            self.validation = asked.validation.split(self.own, asked.unit, path)
        self.test = None if asked.test is None else asked.test.split(self.own, asked.unit, path, self.validation)
        self._check_splits()
        self.texts, self.numbers = self._texts(asked), self._numbers()

    @property
    def id(self) -> str | None:
        """The column of units, or by whose hash records are parted, if any are."""
        if self.unit is not None:
            return self.unit.column
        splits = (self.validation, self.test, self.part)
        return next((str(one.id) for one in splits if one is not None and one.id), None)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are read."""
        others = (self.id, self.prompt, *(one.column for one in (self.weights, self.groups) if one is not None))
        own = (column.name for column in self.columns)
        return tuple(dict.fromkeys([*own, self.label, *(one for one in others if one)]))

    def _texts(self, asked: TableOptions) -> tuple[str, ...]:
        """Columns of a CSV file that are read as they are written: ids, and what is declared as texts.

        Whether "1" is a text would otherwise follow from what all other records have there.
        """
        inputs = {column.name for column in self.columns}
        known = inputs | {self.label, "" if self.weights is None else self.weights.column}
        # A column that says whose a record is and nothing else.
        ids = [self.id] if self.id is not None and self.id not in known else []
        own = [column.name for column in self.columns if column.is_text]
        label = [self.label] if are_texts(self.classes) else []
        groups = []
        if asked.groups is not None and are_texts(asked.groups.categories) and asked.groups.column not in inputs:
            groups = [asked.groups.column]
        return tuple(dict.fromkeys((*ids, *own, *label, *groups)))

    def _numbers(self) -> tuple[str, ...]:
        """Columns of a CSV file that are read as numbers with a point."""
        own = [one.name for one in self.columns if one.is_number]
        weight = "" if self.weights is None else self.weights.column
        label = self.label if self.task is Task.REGRESSION else ""
        return tuple(one for one in dict.fromkeys((*own, weight, label, self.prompt)) if one and one != self.id)

    def facts(self) -> DatasetSpec:
        """The public facts."""
        # Test records go first, and the validation part is one of what is left.
        left = self.own - (self.test.n if self.test is not None and self.test.path is None else 0)
        held_out = round(left * self.validation.share)
        return DatasetSpec(
            dataset="table",
            task=self.task,
            n=left - held_out,
            n_validation=self.validation.n or held_out,
            features=features_of(self.columns),
            classes=self.tokens.codes if self.tokens else len(self.classes) or None,
            target_shape=self.tokens.shape if self.tokens else (),
            loss=self.loss,
            target_low=self.target[0],
            target_high=self.target[1],
            assumptions=tuple(self._assumptions()),
            unit=self.unit,
            private_validation=self.validation.private,
            treatment=tuple(self._treatment()),
            weights=self.weights,
            groups=self.groups,
        )

    def _assumptions(self) -> Iterator[str]:
        yield "n, bounds, categories and classes were declared without looking at the private records."
        if self.unit is not None:
            yield f"Each unit is one value of {self.unit.column}: nobody has two, and no two share one."
        if self.part is not None:
            yield self.part.assumption
        if self.weights is not None:
            yield "Weights were declared without looking at the private records, or stand in each record."

    def _treatment(self) -> Iterator[str]:
        """What `trainables.data.table` does with values that are not as declared."""
        if any(not column.categories and column.codes is None and not column.image for column in self.columns):
            yield (
                "Numbers beyond the declared low and high of their column, infinite ones too, are set to the nearer "
                "bound; missing ones (NaN, empty) are refused."
            )
        if filled := [f"{one.name} {one.missing:g}" for one in self.columns if one.missing is not None]:
            yield f"Missing numbers are filled by public constants ({', '.join(filled)}), and told apart by an input."
        if any(column.categories or column.codes is not None for column in self.columns):
            yield "Categories and codes that were not declared are refused, and so are missing ones."
        if padded := [f"{one.name} {one.padding}" for one in self.columns if one.padding is not None]:
            yield f"Lists that are shorter than declared are filled up with a code ({', '.join(padded)}), at their end."
        if texts := [f"{one.name} {one.shape[0]}" for one in self.columns if one.tokenizer]:
            yield f"Texts are cut to their first codes ({', '.join(texts)})."
        if self.task is Task.REGRESSION:
            yield "Targets beyond the declared ends are set to the nearer one; infinite and missing ones are refused."
        elif self.tokens is None:
            yield "Labels that are no declared class are refused, and so are missing ones."
        if self.loss == MASKED and self.tokens is not None:
            yield (
                f"Of the tokens of a record {MASKED_SHARE:.0%} are masked by the code {self.tokens.mask}, at places "
                "that follow from its own tokens alone, the same in each pass."
            )
        if self.prompt is not None:
            yield f"The first tokens of a record, as many as its {self.prompt} says, are in no loss and no metric."
        if self.weights is not None:
            yield (
                f"The loss of each record is multiplied by its weight ({self.weights}) before its gradient is clipped: "
                "no weight raises what a record can move beyond the clip norm. Metrics are not weighted."
            )
        if self.unit is not None:
            yield (
                f"Rows with the same {self.unit.column} are one unit; of more than {self.unit.max_records} those with "
                "the lowest hash are kept. Missing ids are refused."
            )
        elif self.id is not None:
            yield (
                f"Rows with the same {self.id} fall on the same side of the split, and each still counts "
                "as a record of its own. Missing ids are refused."
            )
        else:
            yield "Rows that are alike are records of their own."

    def _check_columns(self, asked: TableOptions) -> None:
        apart = {column.name for column in self.columns if column.own_feature}
        padded = [column.name for column in self.columns if column.padding is not None]
        taken = {name + MASK: f"so the mask of {name} is called" for name in padded}
        if JOINED in apart and len(apart) < len(self.columns):
            taken[JOINED] = f"as {JOINED!r} models are asked with all plain columns side by side"
        for name, why in taken.items():
            if name in asked.columns:
                raise InvalidValue("data.columns", name, f"another name of this column: {why}", "Rename the column.")
        if self.label in asked.columns and self.tokens is None:
            raise InvalidValue("data.columns", self.label, "inputs only, not the label", "Remove it from `columns`.")

    def _label_of_tokens(self, asked: TableOptions) -> Column | None:
        """The column whose tokens are predicted; None where the label is another. Raises InvalidValue."""
        if asked.loss is not None and asked.loss not in TOKEN_LOSSES and not OBJECT.fullmatch(asked.loss):
            raise InvalidValue(LOSS, asked.loss, f"{', '.join(TOKEN_LOSSES)} or module:function")
        found = next(
            (one for one in self.columns if one.name == asked.label and one.codes and len(one.shape) == 1), None
        )
        if found is None or asked.loss is None:
            for option, value in ((LOSS, asked.loss in TOKEN_LOSSES), ("data.prompt", asked.prompt is not None)):
                if value:
                    expected = (
                        f"a label whose tokens are predicted, a column of {{codes, shape: [length]}}; {asked.label}"
                    )
                    remedy = "Name that column as the label, and say by `loss` how."
                    raise InvalidValue(option, asked.loss or asked.prompt, f"{expected} is none", remedy)
            return None
        if asked.loss == MASKED and found.mask is None:
            expected = "the code that stands for what is masked"
            raise InvalidValue(f"data.columns.{found.name}.mask", None, expected, "Write `mask: 103`, say.")
        if asked.prompt is not None and asked.prompt in asked.columns:
            raise InvalidValue("data.prompt", asked.prompt, "a column that is no input")
        return found

    def _check_splits(self) -> None:
        """By one id, and records are left to train on; a private test part shares nobody with charged validation."""
        validation, test, part = self.validation, self.test, self.part
        if part is not None:
            if validation.path is not None and validation.private is not None:
                expected = "a share of the records where data.part is declared, or a file of public ones"
                remedy = "Both sweeps would read that file: write `share` and `id`."
                raise InvalidValue(f"{VALIDATION}.path", validation.path, expected, remedy)
            for option, other in ((VALIDATION, validation), (TEST, test)):
                if other is not None:
                    check_beside(option, other, PART, part)
        if test is None or test.path is not None:
            return
        if validation.share:
            share_of_records(VALIDATION, validation.share, self.own - test.n)
        if test.private and validation.private is not None and not validation.private.parts:
            expected = "validation records that no test record is among: another file with `disjoint: true`, or a share"
            remedy = "Who is in both would be charged for both, which nothing here plans."
            raise InvalidValue(f"{TEST}.records", "private", expected, remedy)


def features_of(columns: Sequence[Column]) -> dict[str, InputSpec]:
    """The inputs that these columns give a model, in order: numbers and categories side by side, others apart."""
    found: dict[str, InputSpec] = {}
    if joined := sum(column.width for column in columns if not column.own_feature):
        found[JOINED] = InputSpec(shape=(joined,))
    apart = (column for column in columns if column.own_feature)
    found |= {one.name: InputSpec(shape=one.shape, cardinality=one.codes, padding=one.padding) for one in apart}
    return with_mask_specs(found)


def _weights(asked: TableOptions, classes: int) -> Weights | None:
    """Raises InvalidValue."""
    if asked.class_weights is None and asked.weight is None:
        return None
    each = tuple(map(float, asked.class_weights or ()))
    if asked.class_weights is not None and (not classes or len(each) != classes or not any(each)):
        expected = f"{classes} numbers of at least 0, one for each of `classes`, not all 0"
        expected = expected if classes else "no class weights: a regression has no classes"
        raise InvalidValue("data.class_weights", asked.class_weights, expected, _NEVER_COUNTED)
    if asked.weight is None:
        return Weights(classes=each)
    return Weights(classes=each, column=asked.weight.column, high=float(asked.weight.high))
