"""What is done with notebook files besides executing them: an HTML report, stripping, checking.

Nothing here changes a result.
"""

import html
import subprocess
import sys
from pathlib import Path

from coevo_lib.errors import UserError
from coevo_lib.files import write_text_atomic
from coevo_lib.notebooks import notebook_problems, title_and_question
from coevo_lib.profile import Profile, load_profile, profile_names

STRIP = ("--keep-id", "--extra-keys", "metadata.papermill cell.metadata.papermill")
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>coevo: {name}</title>
<style>body {{ font: 16px/1.5 sans-serif; max-width: 46em; margin: 3em auto; padding: 0 1em }}</style>
<h1>coevo, profile {name}</h1>
{body}
</html>
"""


def report(profile: Profile) -> int:
    """Turn the executed notebooks of all rounds into pages under report/<profile>/.

    Only what came to its end is a result; of a notebook that stopped there is a sentence.
    """
    cache, command = profile.root / ".cache", f"make reproduce PROFILE={profile.reference}"
    notebooks = sorted((cache / "executed" / profile.name).glob("r*/*.ipynb"))
    stopped = sorted((cache / "unfinished" / profile.name).glob("r*/*.ipynb"))
    if not notebooks:
        raise UserError(f"no executed notebooks of profile {profile.name}; first run: {command}")
    from nbconvert import HTMLExporter

    folder = profile.root / "report" / profile.name
    exporter = HTMLExporter()
    sections: dict[str, list[str]] = {}
    for notebook in notebooks:
        page = f"{notebook.parent.name}/{notebook.stem}.html"
        write_text_atomic(folder / page, exporter.from_filename(str(notebook))[0])
        title, question = (html.escape(text) for text in title_and_question(notebook))
        entry = f'<li><a href="{page}">{title}</a><br>{question}</li>\n'
        sections.setdefault(_section(notebook), []).append(entry)
    for notebook in stopped:
        path = html.escape(notebook.relative_to(profile.root).as_posix())
        words = "did not come to its end the last time; a page of it above is of an earlier run"
        entry = f"<li>{notebook.stem} {words}. Its cells so far: {path}</li>\n"
        sections.setdefault(_section(notebook), []).append(entry)
    body = "".join(f"<h2>{name}</h2>\n<ul>\n{''.join(entries)}</ul>\n" for name, entries in sections.items())
    write_text_atomic(folder / "index.html", PAGE.format(name=html.escape(profile.name), body=body))
    print(f"report/{profile.name}/index.html ({len(notebooks)} notebooks)")
    for notebook in stopped:
        print(f"note: {notebook.stem} did not come to its end; run it again: {command}")
    return 0


def _section(notebook: Path) -> str:
    return f"Round {notebook.parent.name.removeprefix('r')}"


def strip(root: Path) -> int:
    """Take outputs and timings out of the notebooks, in place."""
    notebooks = [str(path) for path in sorted((root / "notebooks").glob("*.ipynb"))]
    if not notebooks:
        return 0
    return subprocess.run([sys.executable, "-m", "nbstripout", *STRIP, *notebooks], check=False).returncode


def lint(root: Path) -> int:
    """Check the code with ruff, the notebooks' rules, and every profile."""
    status = subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", "."], cwd=root, check=False).returncode
    problems = [
        f"notebooks/{path.name}: {problem}"
        for path in sorted((root / "notebooks").glob("*.ipynb"))
        for problem in notebook_problems(path)
    ]
    for name in profile_names(root):
        try:
            load_profile(name, root)
        except UserError as error:
            problems.append(str(error))
    print("\n".join([*problems, f"notebooks and profiles: {len(problems)} problems"]))
    return 1 if status or problems else 0
