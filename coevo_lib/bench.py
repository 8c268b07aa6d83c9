"""Benchmarks (`make bench`): engines and training variants on the study's own data, as ratios within one run.

Writes outputs/bench/engines.csv and outputs/bench/training.csv. Timed claims live here and never in tests.
The trace is what the student was asked in stage 02; without one, the benchmark says which target makes it.
"""

import argparse
import csv
import time
from pathlib import Path

from coevo_lib.engines.base import Request, render_chat
from coevo_lib.errors import UserError
from coevo_lib.files import read_jsonl
from coevo_lib.profile import find_root

MAX_TOKENS = 32


def trace(profile: str, n: int) -> list[Request]:
    """`n` requests as the student met them under h*: every turn of whole rollouts, in order."""
    files = sorted((find_root() / "outputs" / profile).glob("r1/02_rollouts/*/rollouts.jsonl"))
    if not files:
        raise UserError(f"bench: no rollouts of profile {profile}; run `make rollouts PROFILE={profile}` first")
    requests: list[Request] = []
    for rows in zip(*(read_jsonl(file) for file in files)):
        for row in rows:
            messages = row["messages"]
            ends = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
            requests += [Request(tuple(messages[:end]), max_tokens=MAX_TOKENS) for end in ends]
        if len(requests) >= n:
            break
    return requests[:n]


def bench_generate(model_dir: Path, requests: list[Request], concurrency: int) -> dict:
    """The baseline: `transformers.generate` on batches of `concurrency`, left-padded, bf16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16).eval()
    tokens, started = 0, time.perf_counter()
    for first in range(0, len(requests), concurrency):
        texts = [render_chat(request.messages) for request in requests[first : first + concurrency]]
        batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        with torch.inference_mode():
            out = model.generate(**batch, max_new_tokens=MAX_TOKENS, do_sample=False)
        new = out[:, batch["input_ids"].shape[1] :]
        tokens += int((new != tokenizer.pad_token_id).sum())
    return {"output_tokens": tokens, "seconds": time.perf_counter() - started}


def bench_engine(kind: str, model_dir: Path, requests: list[Request], concurrency: int) -> dict:
    """An engine on the same requests, all submitted at once; its start is not counted."""
    from coevo_lib.engines import open_engine

    with open_engine(kind, model_dir, concurrency=concurrency) as engine:
        engine.submit(Request(({"role": "user", "content": "Hello"},), max_tokens=4)).result()
        started = time.perf_counter()
        replies = [future.result() for future in [engine.submit(request) for request in requests]]
        seconds = time.perf_counter() - started
    return {
        "output_tokens": sum(r.output_tokens for r in replies),
        "prompt_tokens": sum(r.prompt_tokens for r in replies),
        "seconds": seconds,
    }


def bench_engines(profile: str, n: int, concurrency: int) -> list[dict]:
    """One row per engine; `ratio_to_generate` compares output tokens per second."""
    from importlib.util import find_spec

    from coevo_lib.models import student_dir

    model_dir, requests = student_dir(), trace(profile, n)
    measured = {"generate": bench_generate(model_dir, requests, concurrency)}
    for kind in ("transformers", *(["vllm"] if find_spec("vllm") else [])):
        measured[kind] = bench_engine(kind, model_dir, requests, concurrency)
    prompt_tokens = next(m["prompt_tokens"] for m in measured.values() if "prompt_tokens" in m)
    base = measured["generate"]["output_tokens"] / measured["generate"]["seconds"]
    return [
        {
            "engine": name,
            "concurrency": concurrency,
            "prompt_tokens": prompt_tokens,
            "output_tokens": m["output_tokens"],
            "tokens_per_s": round(m["output_tokens"] / m["seconds"], 1),
            "ratio_to_generate": round(m["output_tokens"] / m["seconds"] / base, 2),
        }
        for name, m in measured.items()
    ]


def full_loss(model, inputs: dict):
    """Logits over all tokens, as `Trainer` computes them by default: what `masked_loss` is compared with."""
    return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=inputs["labels"]).loss


def training_rows(profile: str, n: int) -> dict[str, list[dict]]:
    """The first `n` rows that stage 05 trained on, by arm: whole trajectories, and single corrected turns."""
    folder = find_root() / "outputs" / profile / "r1" / "05_training"
    found = {arm: folder / arm / "s0" / "rows.jsonl" for arm in ("imit_hstar", "corr_hstar")}
    for file in found.values():
        if not file.exists():
            raise UserError(f"bench: {file} is missing; run `make training PROFILE={profile}` first")
    return {arm: list(read_jsonl(file))[:n] for arm, file in found.items()}


def bench_training(profile: str, n: int) -> list[dict]:
    """Tokens per second of a training step, over the same rows, with logits everywhere and where there is loss."""
    from transformers import AutoTokenizer

    from coevo_lib.models import student_dir
    from coevo_lib.training import Recipe, collate, encode_rows, lora_model, make_batches, masked_loss

    base, settings, measured = student_dir(), Recipe(epochs=1), []
    for arm, rows in training_rows(profile, n).items():
        encoded = encode_rows(rows, AutoTokenizer.from_pretrained(base), settings.max_length)
        batches = [collate([batch]) for batch in make_batches(encoded, settings)]
        tokens, speed = sum(len(item["input_ids"]) for item in encoded), []
        for name, loss in (("logits everywhere", full_loss), ("logits where there is loss", masked_loss)):
            model = lora_model(base, settings).train()
            for batch in batches:  # the first pass over each shape builds its primitives
                loss(model, batch).backward()
            started = time.perf_counter()
            for batch in batches:
                loss(model, batch).backward()
            speed.append(tokens / (time.perf_counter() - started))
            row = {"variant": f"{name}, rows of {arm}", "rows": len(rows), "tokens_per_s": round(speed[-1], 1)}
            measured.append(row | {"ratio": round(speed[-1] / speed[0], 2)})
    return measured


def write(name: str, rows: list[dict]) -> None:
    folder = find_root() / "outputs" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--requests", type=int, default=192)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--rows", type=int, default=24)
    options = parser.parse_args()
    write("engines.csv", bench_engines(options.profile, options.requests, options.concurrency))
    write("training.csv", bench_training(options.profile, options.rows))


if __name__ == "__main__":
    main()
