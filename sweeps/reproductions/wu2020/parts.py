"""The sweeps behind Tables 1 and 2, as specs.

The paper gives one initial rate e for all methods, the batch, the epochs and the halving. The samplers use e as it is.
SGD and dropout take the samplers' own drift without noise and prior, learning rate (e/2) N on the mean loss: with e
itself on the mean loss nothing would be learned in 30 epochs, and the printed training accuracy is 1.000. RMSprop,
whose step does not depend on the scale of the loss, takes e. The width of the net is not printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.reproductions.effort import Effort, reduced
from trainables.data import idc

DELTA, EPSILON = 1e-3, 1.0
"""Of the two protected relatives on German Credit."""
RATE, IMAGE_RATE = 1e-3, 1e-4
CREDIT_TRAIN, IDC_TRAIN = 400, sum(idc.TRAIN)
HIDDEN = 64
UNPROTECTED = "The published comparison is between methods without protection."


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is run.

    splits   public 400/300/300 splits of German Credit
    repeats  trainings on each split
    widths   hidden units; claims are held against `hidden`, the others stand in tables
    images, image_epochs  records and passes of the ResNet-18; None: all of IDC, as published; 0: not run
    """

    splits: int
    repeats: int
    widths: tuple[int, ...]
    images: int | None
    image_epochs: int
    hidden: int = HIDDEN

    @classmethod
    def of(cls, effort: Effort) -> Scope:
        """The scope of an effort."""
        if effort.quick:
            return cls(splits=1, repeats=effort.repeats or 1, widths=(HIDDEN,), images=0, image_epochs=0)
        if effort.grid == "coarse":
            return cls(splits=10, repeats=effort.repeats or 2, widths=(16, HIDDEN), images=512, image_epochs=2)
        return cls(splits=30, repeats=effort.repeats or 2, widths=(16, 32, HIDDEN, 256), images=None, image_epochs=100)

    @property
    def whole_images(self) -> bool:
        """Whether Table 2 itself is run."""
        return self.images is None

    def cut(self) -> list[str]:
        """What of Table 1 is left out, in sentences."""
        full = Scope.of(Effort(grid="paper"))
        ours, whole = ({"splits": one.splits, "hidden units": one.widths} for one in (self, full))
        each = {"trainings on each split": min(self.repeats, full.repeats)}
        lines = [f"Table 1: {told}" for told in reduced(ours | each, whole | {"trainings on each split": full.repeats})]
        if self.splits == 1:
            lines.append("Table 1: one split, so no standard errors and no orderings (--quick)")
        return lines


def credit(scope: Scope, data: Path, split: int) -> dict[str, Any]:
    """All methods of Table 1, SGHMC and the two protected relatives on one split."""
    shared: dict[str, Any] = {
        "model": "mlp3",
        "hidden": {"choice": list(scope.widths)} if len(scope.widths) > 1 else scope.hidden,
        "batch_size": 32,
        "epochs": 30,
        "halve_every": 5,
    }
    drift = RATE / 2 * CREDIT_TRAIN
    protected = {**shared, "hidden": scope.hidden, "step_size": RATE}
    return {
        "name": f"wu2020-german-{split}",
        "data": {
            "source": "german_credit", "path": str(data.absolute()), "form": "raw", "scale": "standard", "split": split
        },
        "systems": {
            **_methods(shared, rate=RATE, drift=drift, draws=20),
            "clipped-sgld": protected,
            "dp-sgld": {**protected, "clip_norm": 1.0},
        },
        "privacy": {"epsilon": EPSILON, "delta": DELTA, "allow_unprotected": UNPROTECTED},
        "objectives": [{"metric": "accuracy"}, {"metric": "membership_auc"}, {"metric": "epsilon"}],
        "search": {"sampler": "grid", "repeats": scope.repeats, "seed": split},
    }  # fmt: skip


def images(scope: Scope, data: Path | None) -> tuple[dict[str, Any] | None, list[str]]:
    """The ResNet-18 on IDC where its folder is there, else on CIFAR-10; and what has to be said about that."""
    if scope.images == 0:
        return None, ["--quick"]
    if data is None:
        return None, ["no --data DIR"]
    few = {} if scope.images is None else {"limit": scope.images}
    if idc.present(data):
        source = {"source": "idc", "path": str(data.absolute()), **few, **({"validate": 512} if few else {})}
        note = []
    elif (data / "cifar10").is_dir():
        source = {"source": "cifar10", "path": str(data.absolute()), **few}
        note = [f"Table 2: IDC's files are absent ({idc.FOLDER} in {data}); its path runs on CIFAR-10 instead"]
    else:
        return None, [f"missing: neither {idc.FOLDER}/ nor cifar10/ in {data}"]
    if few:
        note.append(
            f"Table 2: {scope.image_epochs} epochs of SGD and SGLD on {scope.images} images instead of 100 epochs of "
            f"all methods on {IDC_TRAIN} (--grid coarse)"
        )
    records = scope.images or (IDC_TRAIN if source["source"] == "idc" else 4000)
    shared = {"model": "resnet18", "batch_size": 128, "epochs": scope.image_epochs, "halve_every": 20}
    methods = _methods(shared, rate=IMAGE_RATE, drift=IMAGE_RATE / 2 * records, draws=3)
    chosen = {name: methods[name] for name in methods if scope.whole_images or name in ("sgd", "sgld")}
    return {
        "name": f"wu2020-resnet18-{source['source']}",
        "data": source,
        "systems": chosen,
        "privacy": {"epsilon": EPSILON, "delta": 1e-5, "allow_unprotected": UNPROTECTED},
        "objectives": [{"metric": "accuracy"}, {"metric": "attack_auc"}],
        "search": {"sampler": "grid", "repeats": 1},
    }, note


def _methods(shared: Mapping[str, Any], *, rate: float, drift: float, draws: int) -> dict[str, Any]:
    sampler = {**shared, "step_size": rate, "prior_variance": 1.0, "draws": draws}
    return {
        "sgd": {**shared, "learning_rate": drift},
        "dropout": {**shared, "learning_rate": drift, "dropout": 0.3},
        "rmsprop": {**shared, "learning_rate": rate},
        "sgld": sampler,
        "psgld": sampler,
        # Not in the tables. A tenth of the rate, since friction 0.1 lets a gradient act for ten steps.
        "sghmc": {**sampler, "step_size": rate / 10},
    }
