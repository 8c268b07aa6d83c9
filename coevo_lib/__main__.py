"""The command line behind the Makefile: `python -m coevo_lib run --profile cpu`.

It only reads arguments; the work is in runner.py, plan.py and export.py.
"""

import argparse
import sys

from coevo_lib import export, plan, runner
from coevo_lib.command_line import Parser, carry_out
from coevo_lib.profile import find_root, load_profile


def main(words: list[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    return carry_out(lambda: _do(arguments), child=arguments.command == "execute")


def _do(arguments: argparse.Namespace) -> int:
    root = find_root()
    if arguments.command in ("strip", "lint"):
        return getattr(export, arguments.command)(root)
    profile = load_profile(arguments.profile, root, arguments.round)
    if arguments.command == "report":
        return export.report(profile)
    if arguments.command == "status":
        return plan.status(profile)
    return getattr(runner, arguments.command)(*_ordered(arguments, profile))


def _ordered(arguments: argparse.Namespace, profile) -> tuple:
    return (arguments.stage, profile) if arguments.command == "execute" else (profile, arguments.stage)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m coevo_lib", description="Run the study's notebooks.")
    commands = parser.add_subparsers(dest="command", required=True)
    shared = Parser(add_help=False)
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
