"""Runs the notebooks in order: what is stale is executed, what is up to date is skipped.

Each notebook gets a process and a kernel of its own. What a stage computes is in its notebook; whether it has to
run is decided in plan.py.
"""

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import coevo_lib
from coevo_lib.errors import UserError
from coevo_lib.fingerprint import stale_units, tour_unit, unit_fingerprint, why_stale
from coevo_lib.manifest import begin, write_manifest
from coevo_lib.plan import checked_plan, executed_path, to_run, unfinished_path, why_not_yet
from coevo_lib.profile import Profile, parameters_for
from coevo_lib.reuse import take_over
from coevo_lib.stage import HEADLESS, check_inputs, die_with_parent, shown_dir
from coevo_lib.stages import BY_ID, MANIFEST, STAGES, TOUR, Unit, build_units, command_for, find_stage

WIDTH = max(len(stage.id) for stage in STAGES)
QUIET = {
    HEADLESS: "1",
    "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, whatever else is installed for the user
    "TQDM_DISABLE": "1",
    # Said of every adapter that is saved, and of a terminal without widgets: true, and of no use to a reader.
    "PYTHONWARNINGS": "ignore:Unable to fetch remote file,ignore:Could not find a config file,ignore:IProgress not found",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}


def run(profile: Profile, stage: str | None = None) -> int:
    """Execute every stale stage, or only the one named. Returns the exit status."""
    wanted = [find_stage(stage).id] if stage else list(BY_ID)
    units = checked_plan(profile)
    if stage:
        _warn_of_stale_inputs(units[wanted[0]], profile)
    elif reason := why_not_yet(units, profile):
        raise UserError(reason)
    with _alone(profile):
        if not stage and (status := _run_tour(profile)):
            return status
        for stage_id in wanted:
            if status := _run_stage(stage_id, units[stage_id], profile):
                return status
    if not stage:
        _say_where(profile, units)
    return 0


def force(profile: Profile, stage: str) -> int:
    """Remove the manifests of a stage, so that it runs again."""
    stage_id = find_stage(stage).id
    found = [unit for unit in build_units(profile)[stage_id] if (unit.dir / MANIFEST).exists()]
    for unit in found:
        (unit.dir / MANIFEST).unlink()
    print(f"{stage_id}: {len(found)} units will run again ({command_for(stage_id, profile)})")
    return 0


def execute(stage_id: str, profile: Profile) -> int:
    """Run one notebook in this process. Meant for a process of its own: papermill changes the working directory."""
    die_with_parent()
    import papermill

    notebook, target = profile.root / "notebooks" / f"{stage_id}.ipynb", unfinished_path(stage_id, profile)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        papermill.execute_notebook(
            str(notebook),
            str(target),
            parameters=parameters_for(profile, notebook),
            kernel_name="python3",
            progress_bar=False,
            cwd=str(notebook.parent),
            stdout_file=sys.stdout,
            extra_arguments=["--log-level=40"],  # each kernel would warn of its unencrypted, local connection
        )
    except papermill.PapermillExecutionError as error:
        return _report_failure(error, stage_id, profile)
    except RuntimeError as error:  # nbclient's DeadKernelError is one
        print(f"error: the kernel of {stage_id} died ({error}); out of memory?", file=sys.stderr)
        return 1
    done = executed_path(stage_id, profile)
    done.parent.mkdir(parents=True, exist_ok=True)
    target.replace(done)
    return 0


def _run_stage(stage_id: str, units: list[Unit], profile: Profile) -> int:
    for name, n in take_over(units, profile).items():
        print(f"{stage_id:<{WIDTH}}  {n} unit{'s' if n != 1 else ''} taken over from profile {name}", flush=True)
    stale = stale_units(units, profile)
    count = f"{len(units)} unit{'s' if len(units) != 1 else ''}"
    if not to_run(units, profile):
        print(f"{stage_id:<{WIDTH}}  fresh ({count})", flush=True)
        return 0
    check_inputs(stale or units, profile)
    some = ", ".join(f"{unit.label} ({reason})" for unit, reason in list(stale.items())[:2])
    more = f" and {len(stale) - 2} more" if len(stale) > 2 else ""
    todo = f"{len(stale)} of {count} to do: {some}{more}" if stale else f"did not come to its end: again ({count})"
    print(f"{stage_id:<{WIDTH}}  {todo}", flush=True)
    started = time.monotonic()
    if code := _start(stage_id, profile):
        return code
    print(f"{stage_id:<{WIDTH}}  done in {time.monotonic() - started:.0f} s", flush=True)
    # An exit status alone proves nothing: a killed kernel can look like a finished one.
    if left := stale_units(units, profile):
        unit, reason = next(iter(left.items()))
        print(f"error: {shown_dir(unit, profile)} is still stale after its stage ran: {reason}", file=sys.stderr)
        return 1
    return 0


def _warn_of_stale_inputs(units: list[Unit], profile: Profile) -> None:
    """A stage that is run alone reads what is there, also when that is out of date."""
    sources = list({source: None for unit in units for source in unit.inputs if source.dir.exists()})
    for unit, reason in list(to_run(sources, profile).items())[:1]:
        print(f"note: reads {shown_dir(unit, profile)}, which is stale: {reason}", flush=True)


def _run_tour(profile: Profile) -> int:
    if not (profile.root / "notebooks" / f"{TOUR}.ipynb").is_file():
        return 0
    unit = tour_unit(profile)
    if executed_path(TOUR, profile).is_file() and why_stale(unit, profile) is None:
        print(f"{TOUR:<{WIDTH}}  fresh", flush=True)
        return 0
    fingerprint, detail = unit_fingerprint(unit, profile)
    begin(unit, fingerprint)
    print(f"{TOUR:<{WIDTH}}  to do", flush=True)
    started = time.monotonic()
    if code := _start(TOUR, profile):
        return code
    seconds = time.monotonic() - started
    write_manifest(unit, {"fingerprint": fingerprint, "detail": detail, "seconds": round(seconds, 2)})
    print(f"{TOUR:<{WIDTH}}  done in {seconds:.0f} s", flush=True)
    return 0


def _start(stage_id: str, profile: Profile) -> int:
    """Execute a notebook in a process of its own and wait for it."""
    library = str(Path(coevo_lib.__file__).resolve().parents[1])
    python_path = os.pathsep.join(filter(None, [library, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", "coevo_lib", "execute", stage_id]
    command += ["--profile", profile.reference, "--round", str(profile.round)]
    with subprocess.Popen(command, cwd=profile.root, env={**os.environ, **QUIET, "PYTHONPATH": python_path}) as child:
        try:
            return _exit_status(child.wait(), stage_id, profile)
        except KeyboardInterrupt:
            child.wait()
            raise


def _exit_status(code: int, stage_id: str, profile: Profile) -> int:
    if code < 0:
        print(f"error: {stage_id} was ended by signal {-code}; run it again to go on", file=sys.stderr)
        return 1
    if code:
        path = unfinished_path(stage_id, profile).relative_to(profile.root)
        print(f"{stage_id} failed; its cells so far: {path}", file=sys.stderr)
    return code


def _report_failure(error, stage_id: str, profile: Profile) -> int:
    """Say in the terminal what a notebook's failing cell said."""
    if error.ename == UserError.__name__:
        print(f"error: {error.evalue}", file=sys.stderr)
        return 2
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)).splitlines()
    shown = "\n".join(f"  {line}" for line in plain[-12:])
    print(f"error: {stage_id}, cell {error.exec_count}: {error.ename}: {error.evalue}\n{shown}", file=sys.stderr)
    return 130 if error.ename == "KeyboardInterrupt" else 1


@contextmanager
def _alone(profile: Profile) -> Iterator[None]:
    """Two runs of one profile would write into the same folders."""
    path = profile.root / ".cache" / "locks" / f"{profile.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"profile {profile.name} is already running; wait for it or stop it first") from None
        yield


def _say_where(profile: Profile, units: dict[str, list[Unit]]) -> None:
    results = shown_dir(units[STAGES[-1].id][0], profile)
    number = f" ROUND={profile.round}" if profile.round != 1 else ""
    print(f"tables   {results}/tables\nfigures  {results}/figures")
    print(f"report   report/{profile.name}/index.html (make report PROFILE={profile.reference}{number})")
