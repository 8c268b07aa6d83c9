"""Rows become tokens with loss exactly where the mask says, and a short training does what it should.

The tests marked `model` load or train the real student and need a minute of a free machine.
"""

import csv
import random

import pytest

from coevo_lib.engines.base import render_chat
from coevo_lib.errors import UserError
from coevo_lib.expert import ScriptedExpert
from coevo_lib.preparation import generic_rows
from coevo_lib.rollouts import expert_episodes
from coevo_lib.rows import turn_row, whole_rows
from coevo_lib.training import IGNORE, PAD, Recipe, collate, encode, encode_rows, make_batches, trained_tokens


@pytest.fixture(scope="module")
def rows(tasks, harnesses):
    """Whole episodes and single turns of every task and harness, and generic rows."""
    made = generic_rows(30)
    for task in tasks.values():
        for harness in harnesses(task):
            for episode in expert_episodes(ScriptedExpert(), task, task.instances("train", 3), harness, 20):
                made += [*whole_rows(episode), turn_row(episode, 1, "submit(12.5)")]
    return made


def tiny_rows(n, seed=0):
    """Short chats that can be learned in a few steps."""
    rng, made = random.Random(seed), []
    for _ in range(n):
        word = rng.choice(["red", "blue", "green", "gold"])
        messages = [
            {"role": "system", "content": "Open it."},
            {"role": "user", "content": word},
            {"role": "assistant", "content": f'open("{word}")'},
        ]
        made.append({"messages": messages, "mask": [False, False, True]})
    return made


def test_a_row_has_the_tokens_of_the_chat_template(student_tokenizer, rows):
    for row in rows:
        whole = student_tokenizer.apply_chat_template(row["messages"], tokenize=True, return_dict=False)
        assert encode(row, student_tokenizer)["input_ids"] == list(whole)
        assert student_tokenizer.decode(whole) == render_chat(row["messages"], add_generation_prompt=False)


def runs(labels):
    """The stretches of labels that carry loss."""
    found, before = [], IGNORE
    for label in labels:
        if label != IGNORE:
            found += [[]] if before == IGNORE else []
            found[-1].append(label)
        before = label
    return found


def test_loss_lies_on_the_content_and_the_end_of_trained_messages_alone(student_tokenizer, rows):
    for row in rows:
        item = encode(row, student_tokenizer)
        assert len(item["labels"]) == len(item["input_ids"])
        assert all(label in (IGNORE, token) for label, token in zip(item["labels"], item["input_ids"]))
        trained = [m["content"] + "<|im_end|>" for m, mask in zip(row["messages"], row["mask"]) if mask]
        assert [student_tokenizer.decode(run) for run in runs(item["labels"])] == trained


def test_the_first_trained_token_follows_the_role_that_asks_for_it(student_tokenizer, rows):
    """What stands before it is exactly the prompt that the student gets when it plays."""
    row = next(row for row in rows if sum(row["mask"]) == 1)
    item = encode(row, student_tokenizer)
    start = next(i for i, label in enumerate(item["labels"]) if label != IGNORE)
    prompt = student_tokenizer.apply_chat_template(
        row["messages"][:-1], tokenize=True, add_generation_prompt=True, return_dict=False
    )
    assert item["input_ids"][:start] == list(prompt)


def test_trained_tokens_are_counted(student_tokenizer):
    encoded = encode_rows(tiny_rows(3), student_tokenizer, 64)
    expected = sum(len(student_tokenizer(row["messages"][-1]["content"])["input_ids"]) + 1 for row in tiny_rows(3))
    assert trained_tokens(encoded) == expected


def test_a_row_that_is_too_long_is_named_with_the_setting_to_raise(student_tokenizer):
    rows = tiny_rows(3)
    rows[1]["messages"][1]["content"] = "red " * 200
    with pytest.raises(UserError, match=r"rows\.jsonl: row 1 has \d+ tokens; raise max_length \(100\)"):
        encode_rows(rows, student_tokenizer, 100)
    assert len(encode_rows(rows, student_tokenizer, 1000)) == 3


def test_a_row_without_loss_is_named(student_tokenizer):
    rows = tiny_rows(3)
    rows[2]["mask"] = [False, False, False]
    with pytest.raises(
        UserError, match=r"rows\.jsonl: row 2 carries no loss; its mask must be true for an assistant message"
    ):
        encode_rows(rows, student_tokenizer, 100)


def test_a_mask_of_another_length_is_an_error(student_tokenizer):
    row = tiny_rows(1)[0]
    with pytest.raises(ValueError):
        encode({**row, "mask": [True]}, student_tokenizer)


def items(lengths):
    return [{"input_ids": list(range(1, n + 1)), "labels": [IGNORE] * (n - 1) + [7]} for n in lengths]


def test_every_epoch_holds_every_row_once_and_neighbours_in_length_share_a_batch():
    encoded = items([5, 200, 70, 6, 130, 7, 201, 71, 8, 9])
    batches = make_batches(encoded, Recipe(batch=3, epochs=2, seed=1))
    assert len(batches) == 8 and all(len(batch) <= 3 for batch in batches)
    for epoch in (batches[:4], batches[4:]):
        assert sorted(len(i["input_ids"]) for batch in epoch for i in batch) == sorted(
            len(i["input_ids"]) for i in encoded
        )
        widths = [{len(i["input_ids"]) // PAD for i in batch} for batch in epoch]
        assert sum(len(width) > 1 for width in widths) <= 3 and {0} in widths
    assert make_batches(encoded, Recipe(batch=3, epochs=2, seed=1)) == batches
    assert make_batches(encoded, Recipe(batch=3, epochs=2, seed=2)) != batches


def test_a_batch_is_padded_without_loss_or_attention():
    pytest.importorskip("torch")
    made = collate([items([3, 70])])
    assert made["input_ids"].shape == made["labels"].shape == made["attention_mask"].shape == (2, 128)
    assert made["attention_mask"].sum(1).tolist() == [3, 70]
    assert made["input_ids"][0, :4].tolist() == [1, 2, 3, 0]
    assert made["labels"][0, :4].tolist() == [IGNORE, IGNORE, 7, IGNORE] and made["labels"][:, 70:].eq(IGNORE).all()


# ---- with the real student


@pytest.mark.model
def test_the_loss_at_trained_positions_is_the_loss_over_all_logits(student_base, student_tokenizer, rows):
    torch = pytest.importorskip("torch")
    from coevo_lib.training import lora_model, masked_loss

    encoded = encode_rows([rows[0], rows[1], tiny_rows(1)[0]], student_tokenizer, 1024)
    model, inputs = lora_model(student_base, Recipe()).eval(), collate([encoded])
    with torch.no_grad():
        logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits.float()
        whole = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), inputs["labels"][:, 1:].flatten(), ignore_index=IGNORE
        )
        found = masked_loss(model, inputs)
        other = masked_loss(
            model, {**inputs, "labels": inputs["input_ids"].where(inputs["attention_mask"].bool(), IGNORE)}
        )
    assert found.item() == pytest.approx(whole.item(), rel=0.01)
    assert abs(other.item() - whole.item()) > 0.02, "another mask has another loss"


@pytest.mark.model
def test_two_steps_lower_the_loss_of_what_they_trained_on(student_base, student_tokenizer, tmp_path):
    torch = pytest.importorskip("torch")
    from peft import PeftModel

    from coevo_lib.training import lora_model, masked_loss, train_adapter

    rows, recipe = tiny_rows(8), Recipe(batch=4, epochs=1, learning_rate=2e-3)
    result = train_adapter(student_base, rows, tmp_path, recipe)
    encoded = encode_rows(rows, student_tokenizer, 64)
    assert result["steps"] == 2 and result["trained_tokens"] == trained_tokens(encoded)
    plain, inputs = lora_model(student_base, recipe), collate([encoded])
    with torch.no_grad():
        before = masked_loss(plain.eval(), inputs).item()
        trained = PeftModel.from_pretrained(plain.unload(), tmp_path / "adapter")
        after = masked_loss(trained.eval(), inputs).item()
    assert after < before - 0.1
    assert result["loss_before"] == pytest.approx(before, rel=0.05), "of the student as it was"
    with (tmp_path / "training_log.csv").open() as file:
        assert csv.DictReader(file).fieldnames == ["step", "epoch", "loss", "learning_rate", "grad_norm"]


@pytest.fixture
def frequent_checkpoints(monkeypatch):
    """A checkpoint after every second step, so that few steps are enough to interrupt and go on."""
    arguments = pytest.importorskip("transformers").TrainingArguments
    prepare = arguments.__post_init__

    def more_often(self):
        self.save_steps = 2
        prepare(self)

    monkeypatch.setattr(arguments, "__post_init__", more_often)


@pytest.mark.model
@pytest.mark.usefixtures("frequent_checkpoints")
def test_a_training_that_was_interrupted_ends_as_if_it_had_not_been(student_base, tmp_path):
    from safetensors.torch import load_file

    from coevo_lib.training import train_adapter

    rows, recipe = tiny_rows(4), Recipe(batch=1, epochs=1)
    whole = train_adapter(student_base, rows, tmp_path / "whole", recipe, tmp_path / "a")
    train_adapter(student_base, rows, tmp_path / "parts", recipe, tmp_path / "b", stop_after=2)
    half = load_file(tmp_path / "parts" / "adapter" / "adapter_model.safetensors")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["checkpoint-2"]
    (tmp_path / "b" / "checkpoint-3").mkdir()  # a kill may leave one half-written
    resumed = train_adapter(student_base, rows, tmp_path / "parts", recipe, tmp_path / "b")
    parts = [tmp_path / part / "adapter" / "adapter_model.safetensors" for part in ("whole", "parts")]
    first, second = map(load_file, parts)
    assert resumed["steps"] == whole["steps"] == 4
    assert first.keys() == second.keys()
    assert max((first[name].float() - second[name].float()).abs().max().item() for name in first) < 1e-4
    assert any(not half[name].equal(second[name]) for name in half), "the last two steps changed it"
