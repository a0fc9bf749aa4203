"""Texts and images as columns hold them, encoded: by the library that made them, each record by itself."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PADDINGS, MASKS = ("[PAD]", "<pad>", "<|pad|>"), ("[MASK]", "<mask>")
"""What tokenizers call the tokens that fill up, and that stand for others."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A tokenizer as a column needs it.

    content  of its file
    mask     None where it has no such token
    """

    content: str
    codes: int
    padding: int
    mask: int | None


def tokens_of(path: str, codes: int | None, padding: int | None, mask: int | None) -> TextTokens:
    """What the tokenizer in a file says, but for what is declared. Raises InvalidValue where it does not fit."""
    place = Path(path).expanduser()
    if not place.is_file():
        raise InvalidValue("tokenizer", path, "a tokenizer.json on this machine", "Nothing is downloaded.")
    return _tokens_of(place.read_text(encoding="utf-8", errors="replace"), path, codes, padding, mask)


@lru_cache(maxsize=8)
def _tokens_of(content: str, path: str, codes: int | None, padding: int | None, mask: int | None) -> TextTokens:
    made = tokenizer(content, path)
    needed = max(made.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    if codes is not None and codes < needed:
        raise InvalidValue("codes", codes, f"at least {needed}, the codes that {path} gives", "Declare as many.")
    if padding is None:
        padding = (made.padding or {}).get("pad_id", _first(made, PADDINGS))
    if padding is None:
        raise InvalidValue(
            "padding", None, f"the code that fills texts up: {path} names none", "Write `padding: 0`, say."
        )
    return TextTokens(content, codes or needed, padding, _first(made, MASKS) if mask is None else mask)


def _first(made: Tokenizer, names: Iterable[str]) -> int | None:
    return next((code for code in map(made.token_to_id, names) if code is not None), None)


def tokenizer(content: str, path: str = "tokenizer.json") -> Tokenizer:
    """Raises InvalidValue for what is none, and where the library is not installed."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InvalidValue(
            "tokenizer", path, f"the library tokenizers beside ({error})", "pip install private-sweeps[models]"
        ) from error
    try:
        return Tokenizer.from_str(content)
    except Exception as error:
        # The library raises nothing narrower.
        said = (str(error).splitlines() or ["no message"])[0]
        raise InvalidValue("tokenizer", path, f"a file that the library tokenizers wrote ({said})") from error


def token_codes(content: str, texts: Sequence[str], length: int, padding: int) -> NDArray[np.float64]:
    """[n, length]: the codes of each text, cut at that length or filled up."""
    made = tokenizer(content)
    made.no_padding()
    made.enable_truncation(length)
    found = np.full((len(texts), length), padding, dtype=np.float64)
    for row, one in enumerate(made.encode_batch(list(texts))):
        found[row, : len(one.ids)] = one.ids
    return found


def pixels(where: str, images: Iterable[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """[n, *shape], 0 to 1, of encoded images: bytes, or {bytes, path}; of three channels these come first.

    Raises InvalidValue for one that is no image, or of another size; nothing of it is quoted but its path.
    """
    from PIL import Image

    size, mode = (shape[-1], shape[-2]), "RGB" if len(shape) == 3 else "L"
    found = []
    for row, one in enumerate(images):
        content, name = (one.get("bytes"), one.get("path")) if isinstance(one, dict) else (one, None)
        name = name or f"row {row}"
        try:
            with Image.open(io.BytesIO(content or b"")) as image:
                if image.size != size:
                    expected = f"images of {size[1]} x {size[0]} pixels; {name} has {image.size[1]} x {image.size[0]}"
                    raise QuotesRecords(where, name, expected, "Scale them all before the sweep.")
                values = np.asarray(image.convert(mode))
        except (OSError, TypeError, ValueError, Image.DecompressionBombError) as error:
            if isinstance(error, InvalidValue):
                raise
            raise QuotesRecords(where, name, "an image that Pillow can read", "Drop it, or save it again.") from error
        found.append(np.moveaxis(values, -1, 0) if len(shape) == 3 else values)
    return np.array(found, dtype=np.float32).reshape(-1, *shape) / np.float32(255)
