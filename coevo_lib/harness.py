"""The harness: everything around the model, as data in one TOML file with one typed schema.

A harness is validated, hashed, compared and split into sections for the search here; what its
elements do in an episode is in `toolbox` (tools), `hooks` (hooks) and `agent` (prompt, context).
No text in it is executed or used as a template language (rule 10): `{tools}` is replaced, nothing else.
"""

import difflib
import functools
import hashlib
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from coevo_lib.errors import UserError
from coevo_lib.hooks import Hook

MAX_BYTES = 50_000
DEEP_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]+\s*\.\s*){12}")  # the parser takes quadratic time over these
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")]
Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z_]{0,39}$")]
Line = Annotated[str, Field(min_length=1, max_length=400)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class System(Part):
    """The system text. `{tools}` stands for the list of tools; the recipe is shown as numbered steps."""

    text: str = Field(
        "Use the tools to do the task. Reply with one tool call and nothing else.\n{tools}", max_length=4000
    )
    recipe: list[Line] = Field([], max_length=12, fail_fast=True)

    @field_validator("text")
    @classmethod
    def _placeholders(cls, text: str) -> str:
        found = re.findall(r"\{(\w*)\}", text)
        if found != ["tools"]:
            raise ValueError("must hold the placeholder {tools} once and no other")
        return text


class Composite(Part):
    """A fixed sequence of existing tools: `first`, then `each` on every item that `first` lists."""

    name: Name
    first: Name
    each: Name
    doc: Line


class Tools(Part):
    """Which tools are shown and how. `hide` takes base tools out of sight; composites still use them."""

    hide: list[Name] = Field([], max_length=60, fail_fast=True)
    docs: dict[Name, Line] = {}
    composite: list[Composite] = Field([], max_length=6, fail_fast=True)


class Demo(Part):
    """A solved example: the student's own success on `evolve` (rule 5), as call and observation lines."""

    prompt: str = Field(max_length=1000)
    calls: list[Line] = Field(max_length=30, fail_fast=True)
    observations: list[str] = Field(max_length=30, fail_fast=True)


class Demos(Part):
    item: list[Demo] = Field([], max_length=4, fail_fast=True)


class Hooks(Part):
    use: list[Hook] = Field([], max_length=20, fail_fast=True)


class Context(Part):
    """What the model sees. `keep`: only the last `keep` observations stay whole; 0 keeps all.

    `fields`: of these tools' answers only the numbers behind these words are shown, e.g. `page = ["paid"]`.
    `planner` > 0 splits each turn in two: the same model, seeing only the last `planner` observations whole, first says
    which tool comes next; that is noted at the end of what it then sees, whole as ever, to write the call.
    """

    keep: int = Field(0, ge=0, le=50)
    fields: dict[Name, list[Word]] = {}
    planner: int = Field(0, ge=0, le=50)


class Format(Part):
    """How a call is written."""

    call: Literal["python", "json"] = "python"


class Harness(Part):
    system: System = System()
    tools: Tools = Tools()
    demos: Demos = Demos()
    hooks: Hooks = Hooks()
    context: Context = Context()
    format: Format = Format()

    @functools.cached_property
    def id(self) -> str:
        """Content hash, 12 hex digits."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()[:12]

    def to_toml(self) -> str:
        return _dump(self.model_dump())

    def elements(self) -> list[str]:
        """The names of the elements that differ from the unevolved harness, as in table 2."""
        names = [] if self.system.text == System().text else ["system.text"]
        names += ["system.recipe"] if self.system.recipe else []
        names += [f"tools.hide:{name}" for name in self.tools.hide]
        names += [f"tools.docs:{name}" for name in self.tools.docs]
        names += [f"tools.composite:{c.name}" for c in self.tools.composite]
        names += [f"demos:{i}" for i in range(len(self.demos.item))]
        names += [f"hooks:{hook.hook}" for hook in self.hooks.use]
        names += ["context.keep"] if self.context.keep else []
        names += [f"context.fields:{name}" for name in self.context.fields]
        names += ["context.planner"] if self.context.planner else []
        names += ["format.call"] if self.format.call != "python" else []
        return names


SECTIONS = tuple(Harness.model_fields)


def parse_harness(text: str, source: str = "harness.toml") -> Harness:
    """The harness in a TOML text. Raises UserError naming the source, the field and what it must be."""
    if len(text) > MAX_BYTES:
        raise UserError(f"{source}: {len(text)} characters; a harness has at most {MAX_BYTES}")
    if DEEP_KEY.search(text):
        raise UserError(f"{source}: a dotted key of many parts; a harness has sections and fields only")
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a huge number is a plain ValueError
        raise UserError(f"{source}: not TOML: {error}") from None
    try:
        return Harness.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{source}: {field}: {first['msg']}; {_fix(first)}") from None


def load_harness(path: Path) -> Harness:
    """The harness of a file."""
    if not path.exists():
        raise UserError(f"{path}: no such harness file; write one, or run `make evolution`")
    return parse_harness(path.read_text(encoding="utf-8", errors="replace"), str(path))


def diff(old: Harness, new: Harness) -> str:
    """A unified diff of the two TOML texts, with long lines cut; empty when equal."""
    lines = difflib.unified_diff(
        old.to_toml().splitlines(), new.to_toml().splitlines(), old.id, new.id, n=1, lineterm=""
    )
    return "\n".join(line if len(line) <= 160 else line[:157] + "..." for line in lines)


def to_sections(harness: Harness) -> dict[str, str]:
    """Section -> its TOML text: what `gepa` calls a candidate."""
    return {name: _dump({name: part}) for name, part in harness.model_dump().items()}


def from_sections(sections: dict[str, str]) -> Harness:
    """The harness of a candidate; inverse of `to_sections`."""
    return parse_harness("\n".join(sections[name] for name in SECTIONS if name in sections), "candidate")


def _dump(plain: dict) -> str:
    """TOML text that reads back as `plain`; multi-line strings where they lose nothing (a carriage return would)."""
    text = tomli_w.dumps(plain, multiline_strings=True)
    return text if "\\r" not in repr(plain) else tomli_w.dumps(plain)


def _fix(error: dict) -> str:
    if error["type"] == "extra_forbidden":
        return "remove it or correct its name"
    if error["type"] == "union_tag_invalid":
        return f"use one of {error['ctx']['expected_tags']}"
    found = error.get("input")
    plain = isinstance(found, (str, bool, float)) or (isinstance(found, int) and abs(found) < 10**15)
    return f"found {str(found)[:60]!r}" if plain else f"found a {type(found).__name__}"
