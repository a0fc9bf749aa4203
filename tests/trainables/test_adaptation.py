"""Models that come with weights: folders of transformers, safetensors, adapters, and what of all that is trained."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from dpcore.checks import InvalidValue
from dpcore.gradients import PrivateGradients
from tests.trainables.recording import facts_of, memory_run
from trainables import models
from trainables.adaptation import Adaptation
from trainables.export.model import ReleasedModel, apart
from trainables.export.preprocessing import Preprocessing
from trainables.models.pretrained import FolderModel, head_of, import_torchvision, merged
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, InputSpec, PrivacyTarget, RunSettings, Task, with_mask_specs
from trainables.training.losses import loss_function
from trainables.training.made_up import made_up

CODES, LENGTH = 30, 8
FACTS = facts_of(n_validation=20, classes=3, features={"tokens": InputSpec(shape=(LENGTH,), cardinality=CODES)})
PADDED = replace(FACTS, features=with_mask_specs({"tokens": InputSpec(shape=(LENGTH,), cardinality=CODES, padding=0)}))
NEXT = replace(PADDED, task=Task.TOKENS, classes=CODES, target_shape=(LENGTH,), loss="next-token")
IMAGES = facts_of((8, 8), n_validation=20, classes=3)
PICTURES = replace(IMAGES, features={"image": InputSpec(shape=(32, 32))})
TOKENS = [("bert", PADDED), ("gpt2", PADDED), ("gpt2", NEXT), ("bert", replace(NEXT, loss="masked"))]
FOLDERS = [("bert", FACTS), *TOKENS, ("vit", IMAGES), ("timm-vit", IMAGES), ("timm-convnext", PICTURES)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models of the real classes, and folders that are none."""
    transformers: Any = pytest.importorskip("transformers")
    import_torchvision()
    timm: Any = import_module("timm") if find_spec("timm") else None
    at = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    text = {"vocab_size": CODES, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 20}
    bert = transformers.BertConfig(**text, num_hidden_layers=2, max_position_embeddings=LENGTH)
    transformers.BertForMaskedLM(bert).save_pretrained(at / "bert")
    gpt2 = transformers.GPT2Config(vocab_size=CODES, n_embd=16, n_head=2, n_layer=2, n_positions=LENGTH)
    transformers.GPT2LMHeadModel(gpt2).save_pretrained(at / "gpt2")
    image = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 20, "num_hidden_layers": 2}
    vit = transformers.ViTConfig(**image, image_size=8, patch_size=4, num_channels=1)
    transformers.ViTModel(vit).save_pretrained(at / "vit")
    if timm is not None:
        small = {"in_chans": 1, "num_classes": 5}
        vit = timm.create_model("vit_tiny_patch16_224", img_size=8, patch_size=4, embed_dim=18, depth=2, **small)
        net = timm.create_model("convnext_tiny", depths=(1, 1, 1, 2), dims=(8, 8, 8, 8), **small)
        net_of_batches = timm.create_model("resnet10t", **small)
        for name, made in (("timm-vit", vit), ("timm-convnext", net), ("timm-resnet", net_of_batches)):
            timm.models.save_for_hf(made, at / name, safe_serialization=True)
    t5 = transformers.T5Config(vocab_size=CODES, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    transformers.T5Model(t5).save_pretrained(at / "t5")
    tensors = load_file(at / "bert" / "model.safetensors")
    layer = "bert.encoder.layer.1.output.dense.weight"
    for name, changed in {
        "lacking": {key: one for key, one in tensors.items() if key != layer},
        "left": {**tensors, "bert.encoder.layer.2.output.dense.weight": torch.zeros(3)},
        "shapes": {**tensors, layer: torch.zeros(16, 21)},
        "head": {**tensors, "classifier.weight": torch.zeros(5, 16), "classifier.bias": torch.zeros(5)},
    }.items():
        shutil.copytree(at / "bert", at / name)
        save_file(changed, at / name / "model.safetensors", metadata={"format": "pt"})
    for name in ("pickled", "unsaid"):
        (at / name).mkdir()
    (at / "pickled" / "pytorch_model.bin").write_bytes(b"")
    save_file(tensors, at / "unsaid" / "model.safetensors")
    return at


def built(folders: Path, name: str, facts: DatasetSpec = FACTS, **adaptation: Any) -> nn.Module:
    library, made = "hf", Adaptation(**adaptation)
    if name.startswith("timm"):
        pytest.importorskip(library := "timm")
    models.check(f"{library}:{folders / name}", facts, (), made)
    torch.manual_seed(0)
    return models.build(f"{library}:{folders / name}", facts, hidden=1, adaptation=made)


def trained(model: nn.Module) -> set[str]:
    return {name for name, one in model.named_parameters() if one.requires_grad}


@pytest.mark.parametrize(("name", "facts"), FOLDERS)
@pytest.mark.parametrize("rank", [0, 4])
def test_clipped_sums_of_a_folder_are_those_of_one_record_at_a_time(
    folders: Path, name: str, facts: DatasetSpec, rank: int
):
    model, clip = built(folders, name, facts, rank=rank).eval(), 0.1
    for key, one in model.named_parameters():
        if "lora_B" in key:
            nn.init.normal_(one, std=0.1)
    split = made_up(facts, 6, 0).train
    inputs = tuple(torch.tensor(one) for one in split.inputs.values())
    targets, loss = torch.tensor(split.targets), loss_function(facts)
    gradients = PrivateGradients(model, loss)
    gradients.check(inputs, targets)
    assert not gradients.unreached
    found = gradients.clipped_sum(inputs, targets, clip_norm=clip).tensors
    weights = {key: one for key, one in model.named_parameters() if one.requires_grad}
    expected = {key: torch.zeros_like(one) for key, one in weights.items()}
    for row in range(len(targets)):
        alone = loss(model(*(one[[row]] for one in inputs)), targets[[row]]).sum()
        own = torch.autograd.grad(alone, list(weights.values()), allow_unused=True)
        norm = sum(float(one.square().sum()) for one in own if one is not None) ** 0.5
        for key, one in zip(weights, own, strict=True):
            if one is not None:
                expected[key] += one * min(1.0, clip / max(norm, 1e-12))
    for key, one in expected.items():
        torch.testing.assert_close(found[key], one, rtol=1e-5, atol=1e-6)


def test_what_is_trained_of_a_transformer(folders: Path):
    every = trained(built(folders, "bert"))
    head = {f"model.{name}" for name in ("bert.pooler.dense.weight", "bert.pooler.dense.bias")}
    head |= {"model.classifier.weight", "model.classifier.bias"}
    assert head < every
    assert trained(built(folders, "bert", train="head")) == head
    last = {name for name in every if ".layer.1." in name}
    assert trained(built(folders, "bert", train="last-1")) == head | last
    assert trained(built(folders, "bert", train="last-2")) == head | {name for name in every if ".layer." in name}
    assert trained(built(folders, "bert", train="bias")) == head | {name for name in every if name.endswith("bias")}
    adapters = trained(built(folders, "bert", rank=2)) - head
    assert len(adapters) == 8
    assert all(".query.lora_" in name or ".value.lora_" in name for name in adapters)
    # Adapters begin as nothing, and stay in the layers that they were added to.
    model = built(folders, "bert", rank=2, targets="dense").eval()
    inputs = torch.arange(2 * LENGTH).view(2, LENGTH) % CODES
    torch.testing.assert_close(model(inputs), built(folders, "bert").eval()(inputs))
    for name, one in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(one)
    before = model(inputs)
    torch.testing.assert_close(merged(model)(inputs), before, rtol=1e-4, atol=1e-5)
    assert model.state_dict().keys() == built(folders, "bert").state_dict().keys()


def test_the_head_of_another_task_is_drawn_and_the_body_is_the_folders(folders: Path):
    for name, facts in (("head", FACTS), ("timm-vit", IMAGES), ("timm-convnext", PICTURES)):
        model = built(folders, name, facts)
        assert isinstance(model, FolderModel)
        files, head = load_file(folders / name / "model.safetensors"), {id(one) for one in head_of(model)}
        prefix = "model.timm_model." if name.startswith("timm") else "model."
        body = {key.removeprefix(prefix): one for key, one in model.named_parameters() if id(one) not in head}
        assert all(torch.equal(one, files[key]) for key, one in body.items())
        last = [one for one in head_of(model) if one.ndim == 2][-1]
        assert len(last) == 3
        assert trained(built(folders, name, facts, train="head")) == trained(model) - {prefix + key for key in body}
    stages = trained(built(folders, "timm-convnext", PICTURES, train="last-1"))
    assert all(".stages.3." in key or ".head.fc." in key for key in stages)


@pytest.mark.parametrize(
    ("name", "facts", "adaptation", "said"),
    [
        ("gone", FACTS, {}, "model=.*a folder or a file on this machine"),
        ("pickled", FACTS, {}, r"model=.*weights as \.safetensors; it has pytorch_model\.bin, which could run code"),
        ("unsaid", FACTS, {}, r"model=.*a folder with config\.json"),
        ("lacking", FACTS, {}, r"model=.*without it: bert\.encoder\.layer\.1\.output\.dense\.weight"),
        ("left", FACTS, {}, r"model=.*left over in it: bert\.encoder\.layer\.2\.output\.dense\.weight"),
        ("shapes", FACTS, {}, r"model=.*of another shape: .*layer\.1\.output\.dense\.weight is \(16, 21\), not"),
        ("bert", {"tokens": InputSpec(shape=(LENGTH + 1,), cardinality=CODES)}, {}, "model=.*at most 8 positions"),
        ("bert", {"tokens": InputSpec(shape=(LENGTH,), cardinality=CODES + 1)}, {}, "model=.*at most 30 codes"),
        ("bert", {"age": InputSpec(shape=())}, {}, "model=.*one sequence of token codes or one image"),
        (
            "bert",
            {"tokens": FACTS.features["tokens"], "age": InputSpec(shape=())},
            {},
            "by their names, and not age, tokens",
        ),
        ("t5", FACTS, {}, "model=.*an encoder or a decoder; t5 is both"),
        ("bert", IMAGES, {}, r"model=.*a model for an image, and transformers has none that is bert"),
        ("timm-resnet", PICTURES, {}, r"model=.*records can be kept apart.*\(BatchNorm2d\).*GroupNorm"),
        ("bert", FACTS, {"train": "last-3"}, "train='last-3': expected all, head, bias, or last-1 to last-2"),
        ("bert", FACTS, {"weights": "other"}, "weights='other': expected none beside a model that is a folder"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_trained(
    folders: Path, name: str, facts: DatasetSpec | Mapping[str, InputSpec], adaptation: Any, said: str
):
    facts = facts if isinstance(facts, DatasetSpec) else replace(FACTS, features=facts)
    with pytest.raises(InvalidValue, match=said):
        built(folders, name, facts, **adaptation)


def test_a_tiny_bert_is_drawn_from_its_configuration():
    for hidden in (3, 8):
        models.check("tiny-bert", FACTS, (), Adaptation(rank=1), hidden)
        model = models.build("tiny-bert", FACTS, hidden=hidden)
        assert model(torch.zeros(2, LENGTH, dtype=torch.long)).shape == (2, 3)


def test_without_the_extra_it_is_named(folders: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InvalidValue, match=r"pip install private-sweeps\[models\]"):
        models.build(f"hf:{folders / 'bert'}", FACTS, hidden=1)


# Any other model.


def test_weights_of_any_model_come_from_a_file_but_for_a_new_head(tmp_path: Path):
    file = tmp_path / "start.safetensors"
    torch.manual_seed(1)
    start = {name: one.clone() for name, one in models.build("mlp", IMAGES, hidden=4).state_dict().items()}

    def made(tensors: Mapping[str, torch.Tensor], **adaptation: Any) -> nn.Module:
        save_file(dict(tensors), file)
        chosen = Adaptation(weights=str(file), **adaptation)
        models.check("mlp", IMAGES, (), chosen, 4)
        return models.build("mlp", IMAGES, hidden=4, adaptation=chosen)

    for name, one in made(start).state_dict().items():
        assert torch.equal(one, start[name])
    headless = made({name: one for name, one in start.items() if not name.startswith("body.2.")}, rank=2)
    assert [tuple(one.shape) for one in head_of(headless)] == [(3, 4), (3,)]
    assert torch.equal(headless.state_dict()["body.0.base_layer.weight"], start["body.0.weight"])
    assert trained(headless) == {
        *("body.2.weight", "body.2.bias", "body.0.lora_A.default.weight", "body.0.lora_B.default.weight")
    }
    # What is trained in place leaves the file as it is.
    with torch.no_grad():
        headless.state_dict()["body.0.base_layer.weight"].zero_()
    assert torch.equal(load_file(file)["body.0.weight"], start["body.0.weight"])
    for tensors, said in [
        ({name: one for name, one in start.items() if name != "body.0.bias"}, r"without it: body\.0\.bias"),
        ({name: one for name, one in start.items() if name != "body.2.bias"}, r"without it: body\.2\.bias"),
        ({**start, "more": torch.zeros(2)}, "left over in it: more"),
        ({**start, "body.0.bias": torch.zeros(2)}, r"body\.0\.bias is \(2,\), not \(4,\)"),
    ]:
        with pytest.raises(InvalidValue, match=said):
            made(tensors)
    with pytest.raises(InvalidValue, match="a model with a linear layer besides its head"):
        models.check("linear", IMAGES, (), Adaptation(rank=2))


def test_only_the_first_of_a_builder_is_made_with_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "meta_net.py").write_text(
        "import torch\n"
        "def build(facts, *, width):\n"
        "    made = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, width), torch.nn.Linear(width, 3))\n"
        "    MADE.append(made[1].weight.device.type)\n"
        "    return made\n"
        "MADE, KEPT = [], {}\n"
        "def keeps(facts, *, width):\n"
        "    return KEPT.setdefault(width, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for width in (4, 5, 6, 10**7):
        models.check("meta_net:build", IMAGES, (("width", width),))
    assert __import__("meta_net").MADE == ["cpu", "cpu", "meta", "meta", "meta"]
    with torch.device("meta"):
        models.build("meta_net:keeps", IMAGES, hidden=1, arguments=(("width", 1),))
    with pytest.raises(InvalidValue, match="it kept one that planning made without numbers"):
        models.build("meta_net:keeps", IMAGES, hidden=1, arguments=(("width", 1),))


def test_a_trained_model_with_adapters_leaves_as_a_program_that_predicts(folders: Path, tmp_path: Path):
    system, name = SYSTEMS["noisy-sgd"], f"hf:{folders / 'bert'}"
    config = {"model": name, "lora.rank": 2, "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 20, "epochs": 1.0}
    plan = system.plan(config, PADDED, PrivacyTarget(epsilon=8.0, delta=1e-3), {})
    data, run = made_up(PADDED, 100, 20), memory_run(plan)
    system.fit([run], data, RunSettings())
    _, state, metrics = run.final
    assert metrics["moved_adapters"] > 0
    assert metrics["moved_head"] > 0
    assert "moved_body" not in metrics
    assert 0 <= metrics["clipped_made_up"] <= 1
    # What is frozen lies in the folder.
    assert all(".lora_" in key or "pooler" in key or "classifier" in key for key in state if "parameter." in key)
    module = merged(system.released_model(plan, PADDED, state)).eval()
    released = ReleasedModel(apart(module, PADDED.features), Preprocessing.of(PADDED), {})
    # Tokens alone: the mask follows from them.
    said = released.predict({"tokens": data.validation.inputs["tokens"]})
    released.save(tmp_path / "out")
    again = torch.export.load(str(tmp_path / "out" / "program.pt2")).module()
    inputs = (torch.tensor(np.asarray(one)) for one in data.validation.inputs.values())
    np.testing.assert_allclose(again(*inputs).detach().softmax(1).numpy(), said.probabilities, atol=1e-5)
