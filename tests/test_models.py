"""The student's conversion, its tokenizer, and merged adapters."""

import json
import shutil

import pytest

from coevo_lib import models
from coevo_lib.engines.base import render_chat
from coevo_lib.errors import UserError

CHAT = [
    {"role": "system", "content": " Use the tools.\n"},
    {"role": "user", "content": "hours('Ann')  "},
    {"role": "assistant", "content": "{{ 7 }} <b>"},
    {"role": "user", "content": "thanks\n\n"},
]


@pytest.fixture(scope="session")
def base():
    return models.base_model_dir()


@pytest.fixture(scope="session")
def tokenizer(base):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base)


@pytest.fixture(scope="session")
def make_adapter(tmp_path_factory):
    """Writes an untrained adapter whose effect is random but repeatable."""

    def make(model_dir, seed):
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        torch.manual_seed(seed)
        plain = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
        model = get_peft_model(plain, LoraConfig(r=4, target_modules=["down_proj"], init_lora_weights=False))
        folder = tmp_path_factory.mktemp("adapter")
        model.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def adapters(base, make_adapter):
    return make_adapter(base, 1), make_adapter(base, 2)


@pytest.fixture(scope="session")
def merged(base, adapters, tmp_path_factory):
    """The base with adapter A, with B, and with B on top of A."""
    root = tmp_path_factory.mktemp("models")
    with_a, with_b = (models.merge_adapter(base, adapter, root) for adapter in adapters)
    return with_a, with_b, models.merge_adapter(with_a, adapters[1], root)


def test_the_end_of_a_turn_is_the_end_of_a_reply(base, tokenizer):
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 2)
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|endoftext|>", 0)
    generation = json.loads((base / "generation_config.json").read_text())
    assert (generation["eos_token_id"], generation["pad_token_id"]) == (2, 0)


@pytest.mark.parametrize("first", [0, 1], ids=["with a system turn", "without one"])
@pytest.mark.parametrize("prompt", [True, False])
def test_the_rendered_chat_is_what_the_tokenizer_renders(tokenizer, first, prompt):
    chat = CHAT[first:]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt)
    assert text == render_chat(chat, prompt)
    assert text.startswith(f"<|im_start|>{chat[0]['role']}\n{chat[0]['content']}<|im_end|>\n")


def test_every_turn_ends_with_one_token(tokenizer):
    tokens = tokenizer(render_chat(CHAT), add_special_tokens=False)["input_ids"]
    assert tokens.count(2) == len(CHAT)
    assert tokenizer(render_chat(CHAT))["input_ids"] == tokens, "the tokenizer must add nothing of its own"


def test_a_second_conversion_finds_the_first(base, monkeypatch):
    monkeypatch.setattr(models, "_convert", lambda *arguments: pytest.fail("converted again"))
    assert models.base_model_dir() == base
    assert models.model_id(base) == base.parent.name


def test_a_killed_conversion_leaves_no_model(tmp_path, monkeypatch):
    def dies(gguf, folder):
        (folder / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "_convert", dies)
    with pytest.raises(KeyboardInterrupt):
        models.base_model_dir(tmp_path)
    monkeypatch.setattr(models, "_convert", lambda gguf, folder: (folder / "model.safetensors").write_text("whole"))
    folder = models.base_model_dir(tmp_path)
    assert (folder / "model.safetensors").read_text() == "whole"


def test_a_missing_or_changed_student_says_what_to_run(monkeypatch):
    monkeypatch.setattr(models, "STUDENT_SHA256", "0" * 64)
    with pytest.raises(UserError, match="not the expected file.*make student"):
        models.student_package_file()
    monkeypatch.setattr(models, "STUDENT_PACKAGE", "no-such-student")
    with pytest.raises(UserError, match="not installed.*make student"):
        models.student_package_file()


def test_the_cache_folder_is_at_the_root_of_the_repository(tmp_path, monkeypatch):
    monkeypatch.delenv("COEVO_CACHE", raising=False)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert models.default_cache_dir() == tmp_path / ".cache"
    monkeypatch.setenv("COEVO_CACHE", str(tmp_path / "elsewhere"))
    assert models.default_cache_dir() == tmp_path / "elsewhere"


def test_each_merged_model_has_its_own_weights_and_name(base, merged):
    from safetensors.torch import load_file

    folders = [base, *merged]
    assert len({models.model_id(folder) for folder in folders}) == 4
    name = "model.layers.0.mlp.down_proj.weight"
    weights = [load_file(folder / "model.safetensors")[name] for folder in folders]
    pairs = [(i, j) for i in range(4) for j in range(i)]
    assert not any(weights[i].equal(weights[j]) for i, j in pairs)
    # B on A is A plus what B alone adds, up to bf16.
    plain, with_a, with_b, with_both = (weight.float() for weight in weights)
    assert (with_both - (with_a + with_b - plain)).abs().max() < 0.02 * with_both.abs().max()


def test_merging_again_finds_the_first_result(base, adapters, merged, monkeypatch):
    monkeypatch.setattr(models, "_merge", lambda *arguments: pytest.fail("merged again"))
    assert models.merge_adapter(base, adapters[0], merged[0].parent) == merged[0]


def test_an_adapter_keeps_its_name_wherever_it_lies(adapters, tmp_path):
    copy = shutil.copytree(adapters[0], tmp_path / "moved")
    settings = json.loads((copy / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = "another path"
    (copy / "adapter_config.json").write_text(json.dumps(settings))
    assert models.adapter_id(copy) == models.adapter_id(adapters[0])
    settings["lora_alpha"] *= 2
    (copy / "adapter_config.json").write_text(json.dumps(settings))
    assert models.adapter_id(copy) != models.adapter_id(adapters[0])


@pytest.mark.parametrize("change", ["missing", "unexpected"])
def test_an_adapter_with_other_keys_is_an_error(base, adapters, tmp_path, change):
    from safetensors.torch import load_file, save_file

    copy = shutil.copytree(adapters[0], tmp_path / "broken")
    tensors = load_file(copy / "adapter_model.safetensors")
    first = min(tensors)
    tensor = tensors.pop(first) if change == "missing" else tensors[first].clone()
    if change == "unexpected":
        tensors[first.replace("layers.0", "layers.99")] = tensor
    save_file(tensors, copy / "adapter_model.safetensors")
    with pytest.raises(UserError, match="1 missing or unexpected keys"):
        models.merge_adapter(base, copy, tmp_path)
    assert [path for path in tmp_path.iterdir() if not path.name.startswith(".")] == [copy]


def test_a_folder_that_is_no_adapter_is_named(base, tmp_path):
    with pytest.raises(UserError, match="is not a PEFT adapter"):
        models.merge_adapter(base, tmp_path)
    with pytest.raises(UserError, match="coevo_model.json is missing"):
        models.merge_adapter(tmp_path, tmp_path)
