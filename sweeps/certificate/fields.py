"""Types of the document's fields: strict, frozen, and none that a reader could pass over."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator

from dpcore import events
from dpcore.events import Event


class FrozenPart(BaseModel):
    """Common ground of everything in the document: frozen, strict, without unknown fields and infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Hex = Annotated[str, Field(pattern=r"^[0-9a-f]*$")]
Link = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Sentence = Annotated[str, Field(min_length=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Chance = Annotated[float, Field(ge=0, le=1)]
Delta = Annotated[float, Field(gt=0, lt=1)]


def _event(value: Any) -> Event:
    if type(value) in events.KINDS.values():
        found: Event = value
        return found
    if not isinstance(value, dict):
        raise ValueError("expected an event")
    try:
        return events.from_dict(value)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"expected an event: {error}") from None


EventText = Annotated[Event, PlainValidator(_event), PlainSerializer(events.to_dict)]
"""An event: a value here, a tree of objects with `kind` in the document."""
