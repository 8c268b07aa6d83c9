"""budget: a purchase round. Approve or reject what each manager of a department asks for, then submit one total.

An analogue of the paper's budget approval task (paper.md: documents and messages), written anew.
Size: managers in the department. A wish is approved when quantity times price is at most the manager's budget.
Trap: a product has two prices, the prompt says which one counts, and the other one turns some decision over.
"""

import random
import re

from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.task import DecidingWorld, Style, Task, ToolError, Verdict, View, tool

DEPARTMENTS = tuple(
    "Finance Legal Marketing Research Design Logistics Security Support Catering Transport Press Events Export "
    "Import Cleaning Quality Planning Travel Science Media".split()
)
MANAGERS = tuple(
    "Adam Beth Carl Dora Erik Frank Gina Hank Irene Jack Karen Linda Marco Nick Olga Paul Rita Steve Tina Ursula "
    "Vera Wilma Yara Zack".split()
)
PRODUCTS = tuple(
    "chair desk printer phone monitor keyboard camera laptop headset projector cabinet heater fan kettle toaster "
    "couch carpet stapler router speaker tablet bench stool locker ladder trolley".split()
)
PRICES = ("shop", "contract")
DECISIONS = ("approve", "reject")


class Purchasing(DecidingWorld):
    def start(self) -> None:
        super().start()
        self.sent: list[tuple[str, str]] = []

    @tool
    def managers(self, department: str) -> list[str]:
        """names of the managers in a department"""
        if department not in self.data["departments"]:
            raise ToolError(f"department: no department {department!r}")
        return self.data["departments"][department]

    @tool
    def wish(self, manager: str) -> str:
        """what a manager wants to buy, and the budget"""
        return "wants {quantity} {product}, budget {budget}".format_map(self._wish(manager))

    @tool
    def price(self, product: str) -> str:
        """the two prices of one piece of a product"""
        if product not in self.data["catalogue"]:
            raise ToolError(f"product: no product {product!r} in the catalogue")
        return "shop {shop}, contract {contract}".format_map(self.data["catalogue"][product])

    @tool
    def decide(self, manager: str, decision: str) -> str:
        """send a manager approve or reject; it cannot be taken back"""
        self._wish(manager)
        if self.finished:
            raise ToolError("manager: nobody can be told any more, the total is handed in")
        if decision not in DECISIONS:
            raise ToolError(f"decision: {decision!r} is neither approve nor reject")
        self.sent.append((manager, decision))
        return f"sent to {manager}: {decision}"

    def _wish(self, manager: str) -> dict:
        if manager not in self.data["wishes"]:
            raise ToolError(f"manager: no manager called {manager!r}")
        return self.data["wishes"][manager]

    def verdict(self) -> Verdict:
        if self.answer is None:
            return super().verdict()
        due, told = self.data["decisions"], dict(self.sent)
        if len(told) < len(self.sent):
            return Verdict(False, "A manager was sent more than one decision.")
        if any(due.get(manager) != decision for manager, decision in told.items()):
            return Verdict(False, "A manager was sent a wrong decision or should not have been sent one.")
        if told != due:
            return Verdict(False, "A manager of the department was sent no decision.")
        return super().verdict()


class Budget(Task):
    name = "budget"
    world = Purchasing
    size = 2

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        kind = self.templates[template]["kind"]
        while True:
            goal = {"department": rng.choice(DEPARTMENTS), "price": rng.choice(PRICES), "kind": kind}
            if data := _world(rng, size, **goal):
                return goal, data

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        step = self._step(view, style)
        return step if step and step[0].tool in view.tools else None

    def _step(self, view: View, style: Style) -> tuple[Call, str] | None:
        listing = Call("managers", (view.goal["department"],))
        reading = read_all(view, style, listing, "wish")
        names = view.answers("managers").get(listing.args, [])
        wishes = {name: view.answers("wish")[(name,)] for name in names if (name,) in view.answers("wish")}
        sent = [fact.call.args for fact in view.facts if fact.call.tool == "decide"]
        told = dict(sent)
        sums = {name: _parse(wish, view.answers("price"), view.goal["price"]) for name, wish in wishes.items()}
        if None in sums.values() or len(told) < len(sent) or names and not told.keys() <= set(names):
            return None  # the harness hides what is needed, or a message is one too many
        right = {name: _decision(s["due"], s["budget"]) for name, s in sums.items() if "due" in s}
        if any(told.get(name, decision) != decision for name, decision in right.items()):
            return None  # a wrong message cannot be taken back

        if reading and (style.direct or not names):
            return reading
        for name in names:
            if name not in sums:
                return reading
            parts = sums[name]
            if name not in right:
                return Call("price", (parts["product"],)), f"The price of a {parts['product']} is not read yet."
            if name in told:
                continue
            comparison, helped = f"{parts['sum']}<={parts['budget']}", not style.direct and "compare" in view.tools
            if helped and (comparison,) not in view.answers("compare"):
                return Call("compare", (comparison,)), f"{name} gets what the budget covers at the price that counts."
            why = f"{parts['due']} against a budget of {parts['budget']}: {right[name]}."
            return Call("decide", (name, right[name])), why
        total = "+".join(sums[name]["sum"] for name in names if right[name] == view.goal["kind"])
        return conclude(view, style, total, f"Every manager is told; the total is of what I {view.goal['kind']}.")


def _decision(due: int, budget: int) -> str:
    return "approve" if due <= budget else "reject"


def _parse(wish: str, prices: dict[tuple, str], counts: str) -> dict | None:
    """What is known of a wish, with the sum and the due once its price is read; None where a field is hidden."""
    if not (found := re.fullmatch(r"wants (\d+) (\w+), budget (\d+)", wish)):
        return None
    quantity, product, budget = found.groups()
    known = {"product": product, "budget": int(budget)}
    if (product,) not in prices:
        return known
    price = re.search(rf"\b{counts} (\d+)", prices[(product,)])
    return {**known, "sum": f"{quantity}*{price[1]}", "due": int(quantity) * int(price[1])} if price else None


# ---- how an instance is drawn


def _world(rng: random.Random, size: int, department: str, price: str, kind: str) -> dict | None:
    """A world in which shortcuts fail; None where the draw has none."""
    managers = rng.sample(MANAGERS, size + 2)
    products = rng.sample(PRODUCTS, size - size // 3 + 1)
    catalogue = {product: _prices(rng) for product in products}
    wanted = products[:-1] + rng.choices(products[:-1], k=size // 3) + rng.choices(products, k=2)
    wishes = {name: _draw_wish(rng, product, catalogue[product], price) for name, product in zip(managers, wanted)}
    own = rng.sample(managers[:size], size)
    dues = {name: _due(wishes[name], catalogue, price) for name in own}
    misled = {name: _due(wishes[name], catalogue, next(p for p in PRICES if p != price)) for name in own}
    decisions = {name: _decision(dues[name], wishes[name]["budget"]) for name in own}
    counted = [name for name in own if decisions[name] == kind]
    fits = (
        counted
        and (size == 1 or len(counted) < size)  # one decision for everybody is wrong
        and len(set(dues.values())) == size  # every term of the total is a number of its own
        and len({wishes[name]["product"] for name in counted}) == len(counted)  # the total uses a shown price once
        and any(_decision(misled[name], wishes[name]["budget"]) != decisions[name] for name in own)
        and sum(dues[name] for name in counted) != sum(wishes[name]["budget"] for name in counted)
    )
    if not fits:
        return None
    departments = {department: own, rng.choice([d for d in DEPARTMENTS if d != department]): managers[size:]}
    answer = sum(dues[name] for name in counted)
    documents = {"departments": departments, "wishes": wishes, "catalogue": catalogue}
    return {**documents, "decisions": decisions, "answer": answer}


def _prices(rng: random.Random) -> dict:
    shop = rng.randint(15, 25)
    return {"shop": shop, "contract": shop + rng.choice((-4, -3, -2, 2, 3, 4))}


def _due(wish: dict, catalogue: dict, price: str) -> int:
    return wish["quantity"] * catalogue[wish["product"]][price]


def _draw_wish(rng: random.Random, product: str, prices: dict, price: str) -> dict:
    """A wish whose budget is met exactly, lies between what the two prices make of it, or is clearly apart."""
    quantity = rng.randint(2, 8)
    low, due, high = (quantity * p for p in (min(prices.values()), prices[price], max(prices.values())))
    below, between, above = low - rng.randint(2, 20), rng.randint(low, high - 1), high + rng.randint(2, 20)
    budget = rng.choice((due, between, above, below, below))  # as often too small as not
    return {"quantity": quantity, "product": product, "budget": budget}
