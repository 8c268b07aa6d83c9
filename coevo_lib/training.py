"""LoRA training on chat rows with an explicit mask, by `transformers.Trainer` and `peft`.

Logits are computed only where there is loss; lengths are padded to multiples of 64, because every new
shape costs a CPU primitive. Resumes from its newest checkpoint. Which rows to train on is `rows`;
how an adapter is merged and served is `models`.
"""

import csv
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from coevo_lib.engines.base import render_chat
from coevo_lib.errors import UserError

os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")  # for the shapes to be kept; read when torch starts
PAD = 64
IGNORE = -100
PROBED = 8  # batches that the loss before training is taken from
SCORED = 16  # rows whose loss is computed at once


@dataclass(frozen=True)
class Recipe:
    """LoRA settings. Rank, epochs and batch follow the paper (R); alpha, targets and schedule are ours."""

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 5e-4
    epochs: int = 2
    batch: int = 6
    seed: int = 0
    max_length: int = 1024


def encode(row: dict, tokenizer) -> dict:
    """A row {messages, mask} as input_ids and labels; labels are IGNORE where there is no loss.

    A masked-in message carries loss on its content and its end token, not on its role header.
    """
    ids, labels = [], []
    for message, trained in zip(row["messages"], row["mask"], strict=True):
        text = render_chat([message], add_generation_prompt=False)
        head = f"<|im_start|>{message['role']}\n"
        body = text[len(head) : -1]
        for part, loss in ((head, False), (body, trained), ("\n", False)):
            tokens = tokenizer(part, add_special_tokens=False)["input_ids"]
            ids += tokens
            labels += tokens if loss else [IGNORE] * len(tokens)
    return {"input_ids": ids, "labels": labels}


def encode_rows(rows: list[dict], tokenizer, max_length: int) -> list[dict]:
    """All rows encoded. Raises UserError when a row is too long or carries no loss."""
    encoded = [encode(row, tokenizer) for row in rows]
    for index, item in enumerate(encoded):
        if len(item["input_ids"]) > max_length:
            raise UserError(
                f"rows.jsonl: row {index} has {len(item['input_ids'])} tokens; raise max_length ({max_length})"
            )
        if all(label == IGNORE for label in item["labels"]):
            raise UserError(f"rows.jsonl: row {index} carries no loss; its mask must be true for an assistant message")
    return encoded


def trained_tokens(encoded: list[dict]) -> int:
    """How many tokens carry loss."""
    return sum(label != IGNORE for item in encoded for label in item["labels"])


def train_adapter(
    base_dir: Path, rows: list[dict], out: Path, recipe: Recipe, checkpoints: Path | None = None, stop_after: int = 0
) -> dict:
    """Trains one adapter into `out`/adapter and writes `out`/training_log.csv.

    `checkpoints`: where to keep and look for checkpoints. `stop_after` ends early, after so many steps of the full
    schedule: for comparing the beginning of two trainings.

    Returns {"steps", "tokens", "trained_tokens", "loss_before", "loss"}: the mean loss of some rows under the student as
    it was, which says how strange they are to it, and the last logged one.
    """
    import torch
    from transformers import AutoTokenizer, TrainingArguments

    torch.manual_seed(recipe.seed)
    tokenizer = AutoTokenizer.from_pretrained(base_dir)
    encoded = encode_rows(rows, tokenizer, recipe.max_length)
    batches = make_batches(encoded, recipe)
    work = checkpoints or out / "checkpoints"
    arguments = TrainingArguments(
        output_dir=str(work),
        max_steps=len(batches),
        per_device_train_batch_size=1,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=min(10, len(batches) // 10),
        weight_decay=0.0,
        seed=recipe.seed,
        logging_steps=5,
        save_steps=20,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        max_grad_norm=1.0,
    )
    trainer = _trainer_class()(
        model=lora_model(base_dir, recipe), args=arguments, train_dataset=batches, data_collator=collate
    )
    trainer.remove_callback(_printer())
    before = mean_loss(trainer.model, batches[:PROBED])  # no checkpoint is loaded yet: the adapter does nothing
    if stop_after:
        trainer.add_callback(_stopper(stop_after))
    trainer.train(resume_from_checkpoint=_newest(work))
    save_adapter(trainer.model.to(torch.bfloat16), out / "adapter")
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    _write_log(out / "training_log.csv", log)
    tokens = sum(len(item["input_ids"]) for item in encoded) * recipe.epochs
    return {
        "steps": len(batches),
        "tokens": tokens,
        "trained_tokens": trained_tokens(encoded) * recipe.epochs,
        "loss_before": before,
        "loss": log[-1]["loss"] if log else 0.0,
    }


def save_adapter(model, folder: Path) -> None:
    """The adapter without what PEFT adds about this machine: a path of the base model, a model card."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = "SmolLM2-135M-Instruct"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)


def lora_model(base_dir: Path, recipe: Recipe):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base_dir, dtype=torch.bfloat16, attn_implementation="eager")
    config = LoraConfig(
        r=recipe.rank, lora_alpha=recipe.alpha, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM"
    )
    return get_peft_model(model, config)


def make_batches(encoded: list[dict], recipe: Recipe) -> list[list[dict]]:
    """Fixed batches for all epochs: neighbours in length share a batch, batch order is shuffled by seed."""
    rng, batches = random.Random(recipe.seed), []
    for _ in range(recipe.epochs):
        rows = sorted(encoded, key=lambda item: (len(item["input_ids"]) // PAD, rng.random()))
        epoch = [rows[i : i + recipe.batch] for i in range(0, len(rows), recipe.batch)]
        rng.shuffle(epoch)
        batches += epoch
    return batches


def collate(batches: list[list[dict]]) -> dict:
    import torch

    items = batches[0]
    length = -(-max(len(item["input_ids"]) for item in items) // PAD) * PAD
    ids = torch.zeros(len(items), length, dtype=torch.long)
    labels = torch.full((len(items), length), IGNORE)
    mask = torch.zeros(len(items), length, dtype=torch.long)
    for row, item in enumerate(items):
        n = len(item["input_ids"])
        ids[row, :n], labels[row, :n], mask[row, :n] = torch.tensor(item["input_ids"]), torch.tensor(item["labels"]), 1
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def masked_loss(model, inputs: dict):
    """Mean cross-entropy over the tokens that carry loss; the head sees only their positions.

    The count of positions is padded to a multiple of PAD (padding has no loss), again for the shapes.
    """
    import torch

    inner = model.get_base_model()
    hidden = inner.model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
    labels = inputs["labels"][:, 1:].reshape(-1)
    hidden = hidden[:, :-1].reshape(-1, hidden.shape[-1])
    where = (labels != IGNORE).nonzero().squeeze(1)
    short = -len(where) % PAD
    targets = torch.cat([labels[where], labels.new_full((short,), IGNORE)])
    where = torch.cat([where, where.new_zeros(short)])
    logits = inner.lm_head(hidden[where]).float()
    return torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORE)


def row_losses(model_dir: Path, rows: list[dict], max_length: int = 1024) -> list[float]:
    """The mean loss a trained token of each row under a model as it is: how strange the row is to it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    encoded = encode_rows(rows, AutoTokenizer.from_pretrained(model_dir), max_length)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16, attn_implementation="eager")
    order = sorted(range(len(rows)), key=lambda index: len(encoded[index]["input_ids"]))
    losses = [0.0] * len(rows)
    with torch.inference_mode():
        for start in range(0, len(order), SCORED):
            batch = order[start : start + SCORED]
            inputs = collate([[encoded[index] for index in batch]])
            hidden = model.model(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
            for index, states, labels in zip(batch, hidden, inputs["labels"]):
                where = (labels[1:] != IGNORE).nonzero().squeeze(1)
                logits = model.lm_head(states[where]).float()
                losses[index] = float(torch.nn.functional.cross_entropy(logits, labels[where + 1]))
    return losses


def mean_loss(model, batches: list[list[dict]]) -> float:
    """Mean over batches of their mean loss, without training."""
    import torch

    with torch.no_grad():
        losses = [float(masked_loss(model, collate([batch]))) for batch in batches]
    return round(sum(losses) / len(losses), 6)


def _trainer_class():
    from transformers import Trainer

    class MaskedTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **_):
            return masked_loss(model, inputs)

    return MaskedTrainer


def _printer():
    from transformers import PrinterCallback

    return PrinterCallback


def _stopper(steps: int):
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step >= steps

    return Stop()


def _newest(work: Path) -> str | None:
    """The newest complete checkpoint; one that a kill left half-written is removed (its state file comes last)."""
    from transformers.trainer_utils import get_last_checkpoint

    for half in [c for c in work.glob("checkpoint-*") if not (c / "trainer_state.json").exists()]:
        shutil.rmtree(half)
    return get_last_checkpoint(str(work)) if work.exists() else None


def _write_log(path: Path, log: list[dict]) -> None:
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, ["step", "epoch", "loss", "learning_rate", "grad_norm"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(log)
