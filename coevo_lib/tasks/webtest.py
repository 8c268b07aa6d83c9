"""webtest: tests for a web page. Assert what the asked elements of one section show, then hand in a sum.

An analogue of the paper's browser-test task (paper.md: write tests for a given page), written anew. The
page is real HTML, and the assertions are run: all must pass on the page, and each mutant of the page
(an asked element with another text or name, hidden, or removed) must make one fail.
Elements are selected by role in the call that lists them, so that nothing has to be compared.
Size: elements of the asked role in the section. Traps: elements of other roles stand among them, so that who lists
any role where one is asked for asserts too many; where any role is asked for, not everything asserted is summed;
other sections and hidden elements bear names that differ by one letter.
"""

import functools
import random
from collections.abc import Iterator
from typing import NamedTuple

from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.files import stable_seed
from coevo_lib.task import AnswerWorld, Style, Task, ToolError, Verdict, View, tool

SECTIONS = ("Basket", "Checkout", "Profile", "Billing", "Delivery", "Inbox", "Wallet", "Settings", "Catalog", "Gallery")
# Every name has a twin that ends in s.
NAMES = (
    *("Invoice", "Coupon", "Voucher", "Refund", "Review", "Ticket", "Card", "Gift", "Photo", "Video", "Friend"),
    *("Event", "Draft", "Bookmark", "Download", "Upload", "Reward", "Badge", "Offer", "Payment", "Receipt"),
    *("Comment", "Follower", "Contact", "Device", "Theme", "Token", "Invite", "Member", "Playlist", "Channel"),
)
WORDS = ("euro", "likes", "votes", "clicks", "stars", "credits", "minutes", "pieces")
ROLES = {"button": "button", "a": "link", "output": "status"}  # HTML tag -> role
ANY = "any"
HTML = {
    "button": '<button aria-label="{name}">{text}</button>',
    "link": '<a href="#" aria-label="{name}">{text}</a>',
    "status": '<label for="{name}">{name}</label> <output id="{name}">{text}</output>',
}


class Element(NamedTuple):
    """What a user finds on the page under an accessible name."""

    section: str
    text: str
    role: str


def write_page(sections: dict[str, list[dict]]) -> str:
    """The HTML of a page: section -> elements (name, role, text, hidden)."""
    lines = ["<!doctype html>", "<title>Account</title>", "<main>"]
    for section, elements in sections.items():
        lines.append(f'<section aria-label="{section}"><h2>{section}</h2>')
        for element in elements:
            hidden = " hidden" if element["hidden"] else ""
            lines.append(f"<div{hidden}>{HTML[element['role']].format_map(element)}</div>")
        lines.append("</section>")
    return "\n".join([*lines, "</main>"])


@functools.lru_cache(maxsize=4096)
def read_page(html: str) -> dict[str, Element]:
    """Accessible name -> element, for all that is visible on a page."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(html, "html.parser")
    labels = {label["for"]: label.get_text() for label in soup.find_all("label")}
    found = {}
    for tag in soup.find_all(list(ROLES)):
        if not tag.has_attr("hidden") and not tag.find_parent(hidden=True):
            name = tag.get("aria-label") or labels[tag["id"]]
            found[name] = Element(tag.find_parent("section")["aria-label"], tag.get_text(), ROLES[tag.name])
    return found


class Browser(AnswerWorld):
    def start(self) -> None:
        super().start()
        self.assertions: list[tuple[str, str]] = []
        self.html = write_page(self.data["sections"])

    @tool
    def elements(self, section: str, role: str) -> list[str]:
        """names of the elements of one role in a section, or of any role"""
        if section not in self.data["sections"]:
            raise ToolError(f"section: no section {section!r}")
        if role not in (*ROLES.values(), ANY):
            raise ToolError(f"role: no role {role!r}; a role is {', '.join(ROLES.values())} or {ANY}")
        page = read_page(self.html)
        return [name for name, e in page.items() if e.section == section and role in (e.role, ANY)]

    @tool
    def peek(self, element: str) -> str:
        """text and role of one element"""
        found = self._find(element)
        return f"{found.text}, role {found.role}"

    @tool
    def expect(self, element: str, text: str) -> str:
        """write an assertion that an element has a text"""
        self._find(element)
        self.assertions.append((element, text))
        return "written"

    def _find(self, name: str) -> Element:
        if name not in read_page(self.html):
            raise ToolError(f"element: nothing visible is called {name!r}")
        return read_page(self.html)[name]

    def verdict(self) -> Verdict:
        names = [name for name, _ in self.assertions]
        if self.answer is None:
            return super().verdict()
        if not self._passes(self.html):
            return Verdict(False, "An assertion fails on the page.")
        if len(set(names)) < len(names) or not set(names) <= set(self.data["asked"]):
            return Verdict(False, "An assertion was written twice, or for an element that was not asked for.")
        if any(self._passes(mutant) for name in self.data["asked"] for mutant in mutants(self.data["sections"], name)):
            return Verdict(False, "The assertions pass on a page that is broken.")
        return super().verdict()

    def _passes(self, html: str) -> bool:
        """Runs the assertions on a page."""
        page = read_page(html)
        return all(name in page and page[name].text == text for name, text in self.assertions)


def mutants(sections: dict[str, list[dict]], name: str) -> Iterator[str]:
    """The page with one element broken: other text, other name, hidden, removed."""
    elements = [element for rows in sections.values() for element in rows]
    [(word, number)] = [element["text"].split() for element in elements if element["name"] == name]
    rng = random.Random(stable_seed(write_page(sections), name))
    other = rng.choice(sorted({*NAMES, *map(_twin, NAMES)} - {element["name"] for element in elements}))
    for change in ({"text": f"{word} {int(number) + rng.randint(1, 9)}"}, {"name": other}, {"hidden": True}, None):
        yield write_page({
            section: [e if e["name"] != name else e | change for e in rows if change or e["name"] != name]
            for section, rows in sections.items()
        })  # fmt: skip


class WebTest(Task):
    name = "webtest"
    world = Browser
    size = 3

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        kind, role = self.templates[template]["kind"], rng.choice(("button", "link"))
        section, *others = rng.sample(SECTIONS, 3)
        numbers, fresh = rng.sample(range(11, 100), size + 14), rng.sample(NAMES, size + 8)

        def element(role: str, name: str, hidden: bool = False) -> dict:
            return {"name": name, "role": role, "text": f"{rng.choice(WORDS)} {numbers.pop()}", "hidden": hidden}

        def other_role() -> str:
            return rng.choice([r for r in ROLES.values() if r != role])

        def new_name() -> str:
            return rng.choice((str, _twin))(fresh.pop())

        summed = [element(role, new_name()) for _ in range(size)]
        rest = [element(other_role(), new_name()) for _ in range(2 if kind == "role" else 1)]
        near = [_twin(e["name"]) for e in [*summed, *rest]]
        asked = summed if kind == "role" else summed + rest
        sections = {section: [*summed, *rest, element(role, near.pop(), hidden=True)]}
        for other in others:
            twin = [element(role, near.pop(0))] if near else []
            sections[other] = [*twin, element(other_role(), new_name()), element(role, new_name(), hidden=True)]
        for elements in sections.values():
            rng.shuffle(elements)
        data = {
            "sections": {name: sections[name] for name in rng.sample(list(sections), 3)},
            "asked": {e["name"]: e["text"] for e in asked},
            "answer": sum(_number(e["text"]) for e in summed),
        }
        return {"section": section, "role": role, "kind": kind}, data

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        step = self._step(view, style)
        return step if step and step[0].tool in view.tools else None  # the harness may hide what is needed

    def _step(self, view: View, style: Style) -> tuple[Call, str] | None:
        section, role, kind = (view.goal[key] for key in ("section", "role", "kind"))
        asked, summed = (Call("elements", (section, which)) for which in (role if kind == "role" else ANY, role))
        listed = view.answers("elements").get(asked.args)
        texts = {name: answer.split(",")[0] for (name,), answer in view.answers("peek").items()}
        written = [fact.call.args for fact in view.facts if fact.call.tool == "expect"]
        names = [name for name, _ in written]
        foreign = listed is not None and not set(names) <= set(listed)
        wrong = any(texts.get(name, text) != text for name, text in written)
        if foreign or wrong or len(set(names)) < len(names):
            return None  # a written assertion cannot be taken back
        reading = read_all(view, style, asked, "peek")
        if not reading and (listing := read_all(view, style, summed, "peek")):
            reading = listing[0], f"Only each {role} counts in the end; see which ones those are."
        missing = next((name for name in listed or () if name in texts and name not in names), None)
        if missing and not (style.direct and reading):
            return Call("expect", (missing, texts[missing])), f"{missing} has no assertion yet."
        if reading:
            return reading
        terms = [str(_number(texts[name])) for name in view.answers("elements")[summed.args]]
        return conclude(view, style, "+".join(terms), f"Every assertion is written; only each {role} counts.")


def _twin(name: str) -> str:
    return name[:-1] if name.endswith("s") else f"{name}s"


def _number(text: str) -> int:
    return int(text.split()[-1])
