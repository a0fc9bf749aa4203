"""`sweeps certify`: sign a certificate, verify one, or make the key pair for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpcore.checks import InvalidValue
from sweeps.cli.options import DEFAULT_ROOT, AsJson, Root, StoreUrl
from sweeps.util.exits import ExitCode


def certify(
    sweep: Annotated[str | None, typer.Argument(help="The sweep; with --verify or --new-key none.")] = None,
    trial: Annotated[
        str | None, typer.Option(help="One trial alone, by key or number: its search is then not covered.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Your Ed25519 private key (PEM), which signs.")] = None,
    approved_by: Annotated[str, typer.Option(help="Who approved this epsilon.")] = "",
    because: Annotated[str, typer.Option(help="Why this epsilon is right for these records.")] = "",
    ranges: Annotated[
        str,
        typer.Option(
            help="How ranges of hyperparameters and public inputs were chosen, and on which data. "
            "[default: selection.chosen_by of the spec]"
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Document to write; its signature and the page for people lie beside it."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--verify", help="Verify this certificate instead, with FILE.sig beside it.")
    ] = None,
    signer: Annotated[
        Path | None, typer.Option(help="Public key (PEM) of whom the certificate should be, had from elsewhere.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--new-key", help="Make a key pair instead: this file, and FILE.pub to give away.")
    ] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Certify what a sweep claims: one document, its signature, and one page for people.

    --verify recomputes the claim's arithmetic from the document alone, without store or data, and exits with 3 where
    anything in it does not hold.
    """
    import sweeps

    if sum(one is not None for one in (sweep, certificate, file)) != 1:
        raise InvalidValue("SWEEP", sweep, "a sweep to certify, or --verify FILE, or --new-key FILE: one of them")
    if file is not None:
        public = sweeps.new_key(file)
        _say(as_json, {"key": str(file), "public": str(public)}, f"{file} signs; give {public} away")
    elif certificate is not None:
        if signer is None:
            raise InvalidValue("--signer", None, "the public key of whom you expect it, which came by another way")
        found = sweeps.verify(certificate, signer=signer)
        _say(as_json, found.to_dict(), str(found))
        if not found.stands:
            sys.exit(ExitCode.REFUTED)
    else:
        assert sweep is not None
        if key is None:
            raise InvalidValue("--key", None, "your Ed25519 private key", "`sweeps certify --new-key FILE` makes one.")
        opened = sweeps.open(sweep, root=root, store=store)
        made = opened.certify(key=key, approved_by=approved_by, because=because, ranges=ranges, trial=trial)
        places = made.save(output or opened.workspace.certificate(opened.name))
        named = dict(zip(("certificate", "signature", "page"), map(str, places), strict=True))
        _say(as_json, {**named, "title": made.body.title}, "\n".join([str(made), *named.values()]))


def _say(as_json: bool, values: dict[str, object], text: str) -> None:
    if as_json:
        from sweeps.cli.output import print_json

        print_json(values)
    else:
        print(text)
