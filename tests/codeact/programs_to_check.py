"""Tools, and programs of the kind that models write with them, none of which a static check may refuse."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from actbox.tools import Tool, Toolset


class Hit(TypedDict):
    title: str
    score: float
    note: NotRequired[str]


class User(BaseModel):
    id: int
    name: str
    email: str | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int


def search(query: str, limit: int = 10, order: Literal["score", "date"] = "score") -> list[Hit]:
    """Search."""
    raise NotImplementedError


def get_user(id: int) -> User:
    raise NotImplementedError


def find_user(name: str) -> User | None:
    raise NotImplementedError


def add(values: list[float]) -> float:
    raise NotImplementedError


def save(record: User, notify: bool = False) -> None:
    raise NotImplementedError


def open_record(id: int) -> Open:
    raise NotImplementedError


def tag(id: int, label: str = "") -> None:
    raise NotImplementedError


def anything(**options: Any) -> Any:
    raise NotImplementedError


def _page(**arguments: Any) -> Any:
    raise NotImplementedError


PAGE = Tool.from_schema(
    "fetch-page",
    "Fetch.",
    {"type": "object", "properties": {"url": {"type": "string"}, "tries": {"type": "integer"}}, "required": ["url"]},
    _page,
)
TOOLS = Toolset.of([search, get_user, find_user, add, save, open_record, tag, anything, PAGE])

GOOD: dict[str, str] = {
    "comprehension": "hits = search('tea', limit=5)\nprint([h['title'] for h in hits if h['score'] > 0.5])",
    "gather": """
import asyncio
pages = await asyncio.gather(*[search(q) for q in ["tea", "rye"]], return_exceptions=True)
for hits in pages:
    if isinstance(hits, Exception):
        continue
    print(hits[0]["title"].upper(), len(hits))
""",
    "main": """
import asyncio
async def main():
    users = await asyncio.gather(get_user(1), get_user(id=2))
    return {u["name"]: u for u in users}
print(asyncio.run(main()))
""",
    "task group": """
import asyncio
async with asyncio.TaskGroup() as group:
    tasks = {q: group.create_task(search(q)) for q in ("a", "b")}
print({q: task.result()[0]["title"] for q, task in tasks.items()})
""",
    "pandas": """
import pandas as pd
import numpy as np
df = pd.DataFrame(search("tea"))
df["rank"] = df["score"].rank()
df = df.groupby("title").agg({"score": "mean"}).reset_index()
print(df.head().to_string(), df.score.max(), np.mean([h["score"] for h in search("x")]))
add(df["score"].tolist())
""",
    "plot": """
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot([h["score"] for h in search("tea")])
plt.savefig("output/scores.png")
""",
    "tool error": """
try:
    user = get_user(7)
except ToolError as error:
    print("no user:", error, error.tool, error.refused)
    user = None
if user:
    print(user["name"])
""",
    "optional": """
user = find_user("Ada")
print(user["email"] if user else "nobody")
print(user["name"])
email = (find_user("Bob") or {}).get("email")
search(email)
search(query=user.get("email"))
""",
    "dataclass": """
from dataclasses import dataclass, field, asdict
@dataclass
class Line:
    title: str
    score: float = 0.0
    notes: list[str] = field(default_factory=list)
    def total(self) -> float:
        return self.score * 2
lines = [Line(h["title"], h["score"]) for h in search("tea")]
print(sum(line.total() for line in lines), [asdict(line) for line in lines])
""",
    "f-strings": "for i, h in enumerate(search('tea'), 1):\n    print(f\"{i:>2} {h['title']!r:<30} {h['score']:.2f}\")",
    "json": "import json\nprint(json.dumps({'hits': search('tea'), 'user': get_user(1)}, indent=2, default=str))",
    "call_tool": """
page = call_tool("fetch-page", url="https://example.com", tries=3)
print(page["body"], fetch_page("https://example.com").anything)
for name in ("search", "find_user"):
    print(call_tool(name, **({"query": "a"} if name == "search" else {"name": "b"})))
options = {"query": "tea", "limit": 3}
print(call_tool("search", **options), search(**options), call_tool("search", query="a")[0]["title"])
call = call_tool
call("get_user", id=1)
""",
    "any result": """
data = anything(depth=3, deep={"a": [1]})
print(data["a"]["b"][0].c, data.get("x", {}).get("y"), [x["z"] for x in data["list"]])
""",
    "regular expressions": """
import re
from collections import Counter, defaultdict
words = Counter(w.lower() for h in search("tea") for w in re.findall(r"\\w+", h["title"]))
print(re.search("a", "b").group(1), words.most_common(3), max(words, key=words.get))
by = defaultdict(list)
for h in search("x"):
    by[h["title"][0]].append(h)
print(sorted(by.items(), key=lambda kv: -len(kv[1])))
""",
    "class": """
class Report:
    def __init__(self, query):
        self.query = query
        self.hits = None
        self.rows = []
    def load(self):
        self.hits = search(self.query)
        self.rows = {h["title"]: h for h in self.hits}
        return self
    def run(self):
        self.rows = []
        self.load()
        return self.rows.items(), self.hits[0]["title"]
report = Report("tea")
report.rows = []
report.load()
print(report.rows.values(), report.run())
""",
    "dicts with attributes": """
class Row(dict):
    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.__dict__ = self
rows = [Row(hit) for hit in search("tea")]
print(rows[0].title, sum(row.score for row in rows))
""",
    "new keys": """
for h in search("tea"):
    h["double"] = h["score"] * 2
    h[2] = h["double"]
    print(h[2])
    h.update(extra=1)
    h.update({"further": 1})
    h.setdefault("more", []).append(1)
    print(h["double"], h["extra"], h["further"], h["more"])
    for key in h:
        print(key, h[key])
merged = [{**h, "page": 1} for h in search("tea")]
print(merged[0]["page"])
""",
    "keys by a function": """
def total(order):
    order["total"] = 1
user = get_user(1)
total(user)
print(user["total"])
other = get_user(2)
other.update({"further": 1}, more=2)
print(other["further"])
print(other["more"])
""",
    "unpacking": """
ids = [1]
options = dict(id=3)
tag(*ids)
tag(**options)
""",
    "unions": """
value = search("a") if rows else "none"
print(value.upper())
print((value if rows else get_user(1))["colour"])
call = print if rows else 3
call(1)
""",
    "fallback": """
user = get_user(1)
try:
    print(user["mail"])
except KeyError:
    print(user["email"])
try:
    rows
except NameError:
    rows = []
try:
    print(user.name)
except AttributeError:
    print(user["name"])
print(user.get("nothing"), user["title"] if "title" in user else "", getattr(user, "x", 1))
if all(hasattr(user, name) for name in ("id", "email")):
    print(user.email)
""",
    "defensive": """
hits = search("tea")
if isinstance(hits, dict):
    hits = hits["results"]
for h in hits:
    if isinstance(h, str):
        print(h.upper())
    else:
        print(h["title"])
""",
    "global": """
state = []
count = 0
def fill():
    global state, count
    state = {"a": 1}
    count += len(search("tea"))
fill()
print(state.items(), state["a"], count)
""",
    "inputs": "rows = [r for r in rows if r['ok']]\nprint(len(rows), rows[0].anything)",
    "names unseen": "exec('total = 3')\nprint(total)\nfrom numpy import *\nprint(linspace(0, 1))",
    "annotations": """
from __future__ import annotations
def first(hits: list[Hit], df: "pd.DataFrame" = None) -> Hit:
    best: Hit = hits[0]
    return best
print(first(search("tea")))
""",
    "conversions": """
import csv, io
for row in csv.DictReader(io.StringIO("id,price\\n1,2.5")):
    get_user(row["id"])
    add([row["price"], 1, True])
get_user("7")
add((1, 2))
save({"id": 1, "name": "Ada"}, notify=1)
save(get_user(1))
save(dict(get_user(1), email="a@b"))
""",
    "generator": """
from itertools import islice, chain
import functools
def pages(query, most=3):
    for n in range(most):
        yield from search(query, limit=n)
print(list(islice(pages("tea"), 2)), functools.reduce(lambda a, h: a + h["score"], pages("x"), 0))
print(next((h for h in pages("a") if h["score"] > 1), None)["title"])
""",
    "threads": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    results = list(pool.map(search, ["a", "b"]))
    future = pool.submit(get_user, 1)
print(results[0][0]["title"], future.result()["name"])
""",
    "aliases": """
def search_all(queries):
    found = {}
    for q in queries:
        for hit in search(q):
            found.setdefault(hit["title"], hit)
    return list(found.values())
def get_user(user_id, *, verbose=False):
    return {"id": user_id}
print(search_all(["a"])[0]["score"], get_user(3, verbose=True)["anything"])
""",
    "match": """
match find_user("Ada"):
    case {"name": name, "email": str(mail)}:
        print(name, mail)
    case None:
        print("none")
""",
    "open results": "record = open_record(1)\nprint(record['colour'], record['id'])",
    "packages": """
import requests
from bs4 import BeautifulSoup
try:
    import polars as pl
except ImportError:
    pl = None
soup = BeautifulSoup(requests.get("https://example.com").text, "html.parser")
print([a["href"] for a in soup.find_all("a")], soup.title.string)
""",
    "conditional": """
import sys
if len(sys.argv) > 5:
    answer = search("a")
else:
    extra = 1
print(answer)
del answer
""",
    "standard library": """
import datetime, statistics, math, os, pathlib, random, textwrap
now = datetime.datetime.now(datetime.timezone.utc)
print(now.isoformat(), statistics.mean([h["score"] for h in search("a")]), math.floor(add([1])))
pathlib.Path("output").mkdir(exist_ok=True)
with open(os.path.join("output", "a.txt"), "w") as file:
    file.write(textwrap.dedent("a") + str(random.choice([1, 2])))
best = max(search("b"), key=lambda h: h["score"], default=None)
print(best["title"], best.get("note", "").strip())
""",
}
