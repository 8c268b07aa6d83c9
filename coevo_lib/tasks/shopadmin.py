"""shopadmin: a shop's back office. Find the figure behind the right filter of a paginated order list.

An analogue of the paper's website-administration task (paper.md: a figure behind a filter), written anew.
Size: pages under the right filter. Trap: the list opens unfiltered, with its own pages and amounts.
"""

import random

from coevo_lib.arithmetic import evaluate
from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.task import AnswerWorld, Style, Task, ToolError, View, tool

STATUSES = ("complete", "pending", "canceled", "refunded", "shipped")
PAGE = 3


class BackOffice(AnswerWorld):
    def start(self) -> None:
        super().start()
        self.status = "all"

    @property
    def _shown(self) -> list[dict]:
        return [o for o in self.data["orders"] if self.status in ("all", o["status"])]

    @tool
    def filter(self, status: str) -> str:
        """show only orders of one status"""
        if status not in ("all", *STATUSES):
            raise ToolError(f"status: no status {status!r}; there are all, {', '.join(STATUSES)}")
        self.status = status
        return f"{status}: {len(self._shown)} orders"

    @tool
    def pages(self) -> list[int]:
        """page numbers of the order list"""
        return list(range(1, -(-len(self._shown) // PAGE) + 1))

    @tool
    def page(self, number: int) -> str:
        """order amounts on one page"""
        rows = self._shown[(number - 1) * PAGE : number * PAGE] if number > 0 else []
        if not rows:
            raise ToolError(f"number: no page {number}")
        return ", ".join(f"#{o['id']} paid {o['amount']}" for o in rows)


class ShopAdmin(Task):
    name = "shopadmin"
    world = BackOffice
    size = 4

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        status, *others = rng.sample(STATUSES, 3)
        wanted = (size - 1) * PAGE + rng.randint(1, PAGE)
        statuses = [status] * wanted + [rng.choice(others) for _ in range(rng.randint(3, 6))]
        rng.shuffle(statuses)
        numbers = sorted(rng.sample(range(100, 999), len(statuses)))
        orders = [{"id": n, "status": s, "amount": rng.randint(11, 59)} for n, s in zip(numbers, statuses)]
        kind = self.templates[template]["kind"]
        total = sum(o["amount"] for o in orders if o["status"] == status)
        answer = total if kind == "revenue" else evaluate(f"{total}/{wanted}")
        return {"status": status, "kind": kind}, {"orders": orders, "answer": answer}

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        wanted = Call("filter", (view.goal["status"],))
        filters = [i for i, fact in enumerate(view.facts) if fact.call.tool == "filter"]
        if not filters or view.facts[filters[-1]].call != wanted:
            return wanted, "Only orders of the asked status count, so the filter comes first."
        now = View(view.goal, view.facts[filters[-1] :], view.tools, view.composites)
        reading = read_all(now, style, Call("pages"), "page")
        if reading:
            return reading
        shown = [now.answers("page")[(number,)] for number in now.last("pages")]
        amounts = [part.split()[-1] for page in shown for part in page.split(", ")]
        total = "+".join(amounts)
        expression = total if view.goal["kind"] == "revenue" else f"({total})/{len(amounts)}"
        return conclude(now, style, expression, "Every page under the filter is read.")
