"""Models that come with weights, as a spec names them: folders of transformers and of timm, files of safetensors,
adapters beside.

Nothing is downloaded, no code of a folder runs, and nothing is unpickled. What a folder or a file brings is public by
declaration (`pretrained` in a spec): no epsilon counts it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dpcore.checks import InvalidValue

FOLDERS = ("hf:", "timm:")
"""How a model is named that is a folder of transformers or of timm: `hf:FOLDER`, `timm:FOLDER`."""
_TENSORS, _CONFIG = ".safetensors", "config.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """What becomes of a model before it is trained.

    weights  file or folder of safetensors that it starts from; "" keeps what its builder gave it
    train    which of its own parameters are trained: "all", "head", "last-K" (the last K blocks of a transformer, else
             layers, and the head) or "bias" (and the head). Beside adapters "all" means the head too
    rank     of the low-rank adapters (Hu et al. 2021) beside its linear layers; 0: none
    alpha    what the adapters say is multiplied by alpha / rank
    targets  layers that have one: ends of their names, with commas between; "": those that peft knows for such a
             transformer, else every linear layer but the head
    """

    weights: str = ""
    train: str = "all"
    rank: int = 0
    alpha: float = 8.0
    targets: str = ""


AS_BUILT = Adaptation()


def places(models: Iterable[str], weights: Iterable[str]) -> tuple[str, ...]:
    """Folders and files that models of these names, and weights, are loaded from."""
    return tuple(sorted(filter(None, {*map(folder_of, models), *weights})))


def folder_of(model: str) -> str:
    """The folder that a model is; "" for any other model."""
    return next((model.removeprefix(one) for one in FOLDERS if model.startswith(one)), "")


def content(place: str) -> str:
    """SHA-256 of the configuration and the weights in a folder, or of a file of weights. Raises InvalidValue."""
    files = tensor_files("weights", place)
    if Path(place).expanduser().is_dir() and (config := files[0].with_name(_CONFIG)).is_file():
        files = [config, *files]
    # Whether they changed is asked often, and the files may be large.
    return _content(tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files))


@lru_cache(maxsize=64)
def _content(files: tuple[tuple[Path, int, int], ...]) -> str:
    found = hashlib.sha256()
    for file, _, _ in files:
        with file.open("rb") as opened:
            found.update(f"{file.name}:{hashlib.file_digest(opened, 'sha256').hexdigest()};".encode())
    return found.hexdigest()


def tensor_files(name: str, value: str) -> list[Path]:
    """The files of safetensors in a folder (a model's, or `FOLDER`), or the file itself.

    Raises InvalidValue about `name`, where none is there.
    """
    at = Path(folder_of(value) or value).expanduser()
    if not at.exists():
        raise InvalidValue(name, value, "a folder or a file on this machine", "Nothing is downloaded.")
    inside = [at] if at.is_file() else sorted(at.iterdir())
    files = [one for one in inside if one.suffix == _TENSORS]
    if not files:
        pickled = [one.name for one in inside if one.suffix in _PICKLED]
        held = f"; it has {', '.join(pickled)}, which could run code when it is read" if pickled else ""
        remedy = (
            "Write them with save_pretrained, save_for_hf(..., safe_serialization=True) of timm, or "
            "safetensors.torch.save_file, where you trust what you load."
        )
        raise InvalidValue(name, value, f"weights as {_TENSORS}{held}", remedy)
    return files


def check_folder(model: str) -> None:
    """Raises InvalidValue for a folder that has no whole model: its configuration and safetensors."""
    tensor_files("model", model)
    folder = Path(folder_of(model)).expanduser()
    if not (folder / _CONFIG).is_file():
        remedy = "save_pretrained of transformers, or save_for_hf of timm, writes it: adapters merged into their model."
        raise InvalidValue("model", model, f"a folder with {_CONFIG} beside the weights", remedy)
    try:
        known = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidValue("model", model, f"a {_CONFIG} that is JSON ({error})") from error
    if "auto_map" in known:
        raise InvalidValue(
            "model", model, "a model that transformers has itself: this one brings code of its own (auto_map)"
        )
