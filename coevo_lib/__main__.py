"""The command line behind the Makefile: `python -m coevo_lib run --profile cpu`.

It only reads arguments and reports errors; the work is in runner.py and export.py.
"""

import argparse
import sys

from coevo_lib import export, runner
from coevo_lib.errors import UserError
from coevo_lib.profile import find_root, load_profile

INTERRUPTED = 130


def main(words: list[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    try:
        return _carry_out(arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED


def _carry_out(arguments: argparse.Namespace) -> int:
    root = find_root()
    if arguments.command in ("strip", "lint"):
        return getattr(export, arguments.command)(root)
    profile = load_profile(arguments.profile, root, arguments.round)
    if arguments.command == "report":
        return export.report(profile)
    if arguments.command == "status":
        return runner.status(profile)
    return getattr(runner, arguments.command)(*_ordered(arguments, profile))


def _ordered(arguments: argparse.Namespace, profile) -> tuple:
    return (arguments.stage, profile) if arguments.command == "execute" else (profile, arguments.stage)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m coevo_lib", description="Run the study's notebooks.")
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--profile", default="cpu", help="name of a file in notebooks/profiles, or a path to one")
    shared.add_argument("--round", type=int, default=1, help="pass of the loop, from 1")
    run = commands.add_parser("run", parents=[shared], help="execute every stage that is not up to date")
    run.add_argument("--stage", help="only this one, e.g. 02_rollouts")
    for name, text in (("force", "make a stage run again"), ("execute", "execute one notebook, whatever its state")):
        commands.add_parser(name, parents=[shared], help=text).add_argument("stage")
    commands.add_parser("status", parents=[shared], help="list the units and why any of them is stale")
    commands.add_parser("report", parents=[shared], help="write the executed notebooks as HTML")
    commands.add_parser("strip", help="take outputs and timings out of the notebooks")
    commands.add_parser("lint", help="check code, notebooks and profiles")
    return parser


if __name__ == "__main__":
    sys.exit(main())
