"""stock: a shop's stock alert. Order what is low in a category, notify the manager of it, report the total ordered.

An analogue of the paper's stock task (paper.md: read stock and threshold, record low stock, notify the
purchasing manager), written anew. The shop is a real SQLite store, and the verdict queries it.
Size: products in the category. Traps: a level equal to the threshold is not low; another category holds
a product of nearly the same name (Mug, Mugs) whose stock says the opposite.
"""

import itertools
import random
import sqlite3

from coevo_lib.calls import Call
from coevo_lib.expert import conclude, read_all
from coevo_lib.task import DecidingWorld, Style, Task, ToolError, Verdict, View, tool

CATEGORIES = (
    *("Basics", "Classics", "Gifts", "Imports", "Premium", "Outlet"),
    *("Seasonal", "Vintage", "Bargains", "Bestsellers"),
)
PRODUCTS = (
    *("Mug", "Bowl", "Fork", "Spoon", "Plate", "Cup", "Vase", "Candle", "Pillow", "Towel", "Blanket", "Basket"),
    *("Bucket", "Broom", "Ladder", "Hammer", "Drill", "Chair", "Desk", "Stool", "Sofa", "Curtain", "Bottle"),
    *("Kettle", "Teapot", "Tray", "Wallet", "Belt", "Glove", "Hat", "Sock", "Pencil", "Notebook", "Puzzle"),
)
THRESHOLDS = {"pack": (3, 9), "fill": (31, 60)}  # wide for `fill`, so that its total cannot be guessed
PACKS = range(11, 40)
WRITES = ("requisition", "notify")

SCHEMA = """
CREATE TABLE products (name TEXT PRIMARY KEY, category TEXT, level INTEGER, threshold INTEGER, pack INTEGER);
CREATE TABLE requisitions (product TEXT, quantity INTEGER);
CREATE TABLE notifications (product TEXT);
"""


class StockRoom(DecidingWorld):
    def start(self) -> None:
        super().start()
        # An episode may be played in another thread than the one that built it.
        self.store = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.store.executescript(SCHEMA)
        rows = "INSERT INTO products VALUES (:name, :category, :level, :threshold, :pack)"
        self.store.executemany(rows, self.data["products"])

    def _query(self, query: str, *values: str | float) -> list[tuple]:
        # A lone surrogate in a student's text is no text for SQLite.
        clean = [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in values]
        return self.store.execute(query, clean).fetchall()

    def _stock_of(self, product: str) -> tuple[int, int, int]:
        rows = self._query("SELECT level, threshold, pack FROM products WHERE name = ?", product)
        if not rows:
            raise ToolError(f"product: no product {product!r}")
        return rows[0]

    @tool
    def products(self, category: str) -> list[str]:
        """names of the products in a category"""
        rows = self._query("SELECT name FROM products WHERE category = ? ORDER BY rowid", category)
        if not rows:
            raise ToolError(f"category: no category {category!r}")
        return [name for (name,) in rows]

    @tool
    def stock(self, product: str) -> str:
        """level, threshold and pack size of one product"""
        return "level {}, threshold {}, pack {}".format(*self._stock_of(product))

    @tool
    def requisition(self, product: str, quantity: float) -> str:
        """order a quantity of one product"""
        self._stock_of(product)
        if quantity not in range(1, 1000):
            raise ToolError(f"quantity: {quantity:g} is not a whole number from 1 to 999")
        self._query("INSERT INTO requisitions VALUES (?, ?)", product, quantity)
        return f"requisitioned {quantity:g} {product}"

    @tool
    def notify(self, product: str) -> str:
        """tell the purchasing manager that a product is low"""
        self._stock_of(product)
        self._query("INSERT INTO notifications VALUES (?)", product)
        return f"notified about {product}"

    def verdict(self) -> Verdict:
        due = self.data["due"]
        ordered = self._query("SELECT product, quantity FROM requisitions")
        notified = self._query("SELECT product FROM notifications")
        flaw = _flaw("requisition", [product for product, _ in ordered], due)
        if not flaw and dict(ordered) != due:
            flaw = "A requisition has a wrong quantity."
        flaw = flaw or _flaw("notification", [product for (product,) in notified], due)
        if flaw and self.answer is not None:
            return Verdict(False, flaw)
        return super().verdict()


def _flaw(what: str, products: list[str], due: dict[str, int]) -> str | None:
    if len(products) > len(set(products)):
        return f"A {what} was made twice."
    if set(products) - set(due):
        return f"A {what} was made for a product that is not low or is of another category."
    return f"A {what} is missing for a low product." if set(due) - set(products) else None


class Stock(Task):
    name = "stock"
    world = StockRoom
    size = 3

    def draw(self, rng: random.Random, size: int, template: str) -> tuple[dict, dict]:
        kind = self.templates[template]["kind"]
        category, other = rng.sample(CATEGORIES, 2)
        # A requisition of kind `fill` costs a turn more.
        lows = rng.randint(1, max(1, size * 3 // 4 if kind == "pack" else size // 2))
        names = [rng.sample((name, f"{name}s"), 2) for name in rng.sample(PRODUCTS, size + 1)]
        listed: list[dict] = []
        while (i := len(listed)) < size:
            state = "low" if i < lows else "equal" if i == lows else rng.choice(("equal", "above"))
            product = self._product(rng, kind, names[i][0], category, state)
            if _comparison(product) not in map(_comparison, listed):  # each product is compared by numbers of its own
                listed.append(product)
        near = [self._product(rng, kind, names[i][1], other, state) for i, state in ((0, "above"), (lows, "low"))]
        due = {p["name"]: p["pack"] if kind == "pack" else p["threshold"] - p["level"] for p in listed[:lows]}
        products = listed + near
        rng.shuffle(products)
        return {"category": category, "kind": kind}, {"products": products, "due": due, "answer": sum(due.values())}

    def _product(self, rng: random.Random, kind: str, name: str, category: str, state: str) -> dict:
        threshold = rng.randint(*THRESHOLDS[kind])
        gap = {"low": rng.randint(1, threshold - 1), "equal": 0, "above": -rng.randint(1, 9)}[state]
        pack = rng.choice([n for n in PACKS if n != gap])
        return {"name": name, "category": category, "level": threshold - gap, "threshold": threshold, "pack": pack}

    def expert(self, view: View, style: Style) -> tuple[Call, str] | None:
        step = self._next(view, style)
        return step if step and step[0].tool in view.tools else None

    def _next(self, view: View, style: Style) -> tuple[Call, str] | None:
        kind, listing = view.goal["kind"], Call("products", (view.goal["category"],))
        listed = view.answers(listing.tool).get(listing.args)
        stocks = {name: _parse(text) for (name,), text in view.answers("stock").items() if name in (listed or [])}
        needed = {"level", "threshold", "pack"} if kind == "pack" else {"level", "threshold"}
        if not all(needed <= set(stock) for stock in stocks.values()):
            return None  # the harness hides what is needed
        done = [fact.call for fact in view.facts if fact.call.tool in WRITES]
        low = {name: _quantity(stock, kind) for name, stock in stocks.items() if stock["level"] < stock["threshold"]}
        if _spoilt(done, low, listed, stocks):
            return None
        reading = read_all(view, style, listing, "stock")
        if reading and (style.direct or listed is None):
            return reading
        rounds = [WRITES]
        if style.persistent and len(done) > 1 and done[-1].tool == done[-2].tool:
            rounds = [(done[-1].tool,), WRITES]  # somebody works through one tool at a time
        helpers = set() if style.direct else {"compare", "calc"} & view.tools
        for writes, name in itertools.product(rounds, listed):
            if name not in stocks:
                return reading
            comparison, written = _comparison(stocks[name]), {call.tool for call in done if call.args[0] == name}
            if not written and "compare" in helpers and (comparison,) not in view.answers("compare"):
                return Call("compare", (comparison,)), f"{name} is due if its level is below its threshold."
            if name not in low or not (left := [tool for tool in writes if tool not in written]):
                continue
            level, threshold = stocks[name]["level"], stocks[name]["threshold"]
            why = f"{name} has level {level}, which is below its threshold {threshold}"
            if left[0] == "notify":
                return Call("notify", (name,)), f"{why}, so the manager has to know."
            gap = f"{threshold}-{level}"
            if kind == "fill" and "calc" in helpers and (gap,) not in view.answers("calc"):
                return Call("calc", (gap,)), f"{why}; now the quantity up to it."
            return Call("requisition", (name, low[name])), f"{why}, so {low[name]} are due."
        total = "+".join(str(low[name]) for name in listed if name in low)
        return conclude(view, style, total, "Every low product is requisitioned and notified.")


def _comparison(stock: dict[str, int]) -> str:
    return f"{stock['level']}<{stock['threshold']}"


def _quantity(stock: dict[str, int], kind: str) -> int:
    return stock["pack"] if kind == "pack" else stock["threshold"] - stock["level"]


def _spoilt(done: list[Call], low: dict[str, int], listed: list[str] | None, stocks: dict[str, dict]) -> bool:
    """Whether a write cannot be right, as far as the answers tell; no tool takes a write back."""
    if len({(call.tool, call.args[0]) for call in done}) < len(done):
        return True
    foreign = [call for call in done if listed is not None and call.args[0] not in listed]
    right = [call for name in low for call in (Call("requisition", (name, low[name])), Call("notify", (name,)))]
    return bool(foreign) or any(call not in right for call in done if call.args[0] in stocks)


def _parse(text: str) -> dict[str, int]:
    return {word: int(number) for word, number in (part.split() for part in text.split(", "))}
