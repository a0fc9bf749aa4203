"""`sweeps explain`: a word of the screen in plain sentences."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeps.cli.options import AsJson
from sweeps.cli.output import print_json


def explain(
    word: Annotated[str | None, typer.Argument(help="epsilon, claim, total, status, ...; default: all words.")] = None,
    as_json: AsJson = False,
) -> None:
    """What a word means that is printed here."""
    from sweeps.face.glossary import GLOSSARY
    from sweeps.face.glossary import explain as explained

    found = [explained(word)] if word is not None else list(GLOSSARY.values())
    if as_json:
        print_json([one.to_dict() for one in found] if word is None else found[0].to_dict())
    elif word is None:
        print(", ".join(GLOSSARY))
        print("`sweeps explain WORD` says what one of them means.")
    else:
        print(found[0])
