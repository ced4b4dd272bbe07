"""Exercises about tools: host functions that a program has to call, often many times; some of them do something."""

from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.codegen.exercise import Case, Group, shuffled

GROUP = Group("tools")

_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jan", "Kim", "Lea", "Mia", "Noa", "Oda")


@GROUP.exercise(
    goal="""Answer with the sum of the points of all players. list_players gives them page by page.""",
    right="""
        total, page = 0, 1
        while page is not None:
            found = list_players(page=page)
            total += sum(player["points"] for player in found["players"])
            page = found["next_page"]
        total
    """,
    wrong="""
        sum(player["points"] for player in list_players(page=1)["players"])
    """,
)
def points_page_by_page(random: Random) -> Case:
    points = {name: random.randint(1, 99) for name in random.sample(_NAMES, 13)}
    players = [{"name": name, "points": number} for name, number in points.items()]

    def list_players(page: int) -> dict[str, Any]:
        """Return a page of players: `players`, and `next_page`, which is None on the last one. Pages count from 1."""
        following = page + 1 if page * 5 < len(players) else None
        return {"players": players[5 * (page - 1) : 5 * page], "next_page": following}

    return Case(answer=sum(points.values()), lookups=[list_players])


@GROUP.exercise(
    goal="""Answer with the sum of all invoices (list_invoices) in euros, rounded to 2 digits. euro_rate says how many
    euros one unit of a currency is worth.""",
    right="""
        round(sum(invoice["amount"] * euro_rate(currency=invoice["currency"]) for invoice in list_invoices()), 2)
    """,
    wrong="""
        round(sum(invoice["amount"] / euro_rate(currency=invoice["currency"]) for invoice in list_invoices()), 2)
    """,
)
def invoices_in_euros(random: Random) -> Case:
    rates = {"EUR": 1.0, "USD": random.randint(80, 95) / 100, "NOK": 0.08, "GBP": random.randint(110, 125) / 100}
    amounts = [(random.randint(5, 500), currency) for currency in (*rates, *rates, "NOK")]
    invoices = [{"amount": amount, "currency": currency} for amount, currency in amounts]

    def list_invoices() -> list[dict[str, Any]]:
        """Return all invoices, each with `amount` and `currency`."""
        return invoices

    def euro_rate(currency: str) -> float:
        """Return how many euros one unit of a currency is worth."""
        return rates[currency]

    total = sum(amount * rates[currency] for amount, currency in amounts)
    return Case(answer=total, tolerance=0.0051, lookups=[list_invoices, euro_rate])


@GROUP.exercise(
    goal="""Send one reminder (send_reminder) to each customer (list_customers) who is late by more than 30 days and has
    an address. Answer with the sorted list of the names of those late customers who have no address.""",
    right="""
        late = [customer for customer in list_customers() if customer["days_late"] > 30]
        for customer in late:
            if customer["address"] is not None:
                send_reminder(address=customer["address"])
        sorted(customer["name"] for customer in late if customer["address"] is None)
    """,
    wrong="""
        late = [customer for customer in list_customers() if customer["days_late"] > 30]
        for customer in late:
            send_reminder(address=customer["address"].lower())
        sorted(customer["name"] for customer in late if customer["address"] is None)
    """,
)
def reminders(random: Random) -> Case:
    names = random.sample(_NAMES, 9)
    days = [45, 60, 31, 90, 30, 2, 77, 0, 50]
    customers = [
        {"name": name, "days_late": late, "address": None if number in (3, 5) else f"{name.lower()}@example.com"}
        for number, (name, late) in enumerate(zip(names, days, strict=True))
    ]
    sent: list[str] = []

    def list_customers() -> list[dict[str, Any]]:
        """Return all customers, each with `name`, `days_late` and `address`, which is None if it is not known."""
        return customers

    def send_reminder(address: str) -> str:
        """Send a reminder to an address."""
        sent.append(address)
        return "sent"

    due = {f"{names[number].lower()}@example.com" for number in (0, 1, 2, 6, 8)}

    def outside() -> str:
        if len(sent) != len(set(sent)):
            return "somebody got the same reminder twice"
        return "" if set(sent) == due else "the reminders went to other customers than they should have"

    return Case(answer=[names[3]], lookups=[list_customers], actions=[send_reminder], outside=outside)


@GROUP.exercise(
    goal="""The variable stations is a list of names. Answer with a dict of the temperature at each (read_station).
    Reading a station fails now and then; then it has to be tried again, at most three times in all.""",
    right="""
        def read(name):
            for attempt in range(3):
                try:
                    return read_station(name=name)
                except Exception:
                    if attempt == 2:
                        raise

        {name: read(name) for name in stations}
    """,
    wrong="""
        {name: read_station(name=name) for name in stations}
    """,
)
def stations_that_fail(random: Random) -> Case:
    stations = random.sample(_NAMES, 6)
    temperatures = {name: random.randint(-20, 40) for name in stations}
    failures = dict.fromkeys(stations[1:4], 2)

    def read_station(name: str) -> int:
        """Return the temperature at a station. Fails now and then."""
        if failures.get(name, 0) > 0:
            failures[name] -= 1
            raise RuntimeError(f"the station {name} did not answer")
        return temperatures[name]

    return Case(inputs={"stations": stations}, answer=temperatures, lookups=[read_station])


@GROUP.exercise(
    goal="""Answer with the number of bytes of all files below the folder "/", however deep they lie. list_folder gives
    what is in a folder.""",
    right="""
        def size(path):
            return sum(
                size(path + entry["name"] + "/") if entry["is_folder"] else entry["bytes"]
                for entry in list_folder(path=path)
            )

        size("/")
    """,
    wrong="""
        total = 0
        for entry in list_folder(path="/"):
            if entry["is_folder"]:
                total += sum(inner["bytes"] for inner in list_folder(path="/" + entry["name"] + "/"))
            else:
                total += entry["bytes"]
        total
    """,
)
def size_of_folders(random: Random) -> Case:
    folders: dict[str, list[dict[str, Any]]] = {"/": []}
    total = 0
    for path in ("/old/", "/old/more/", "/old/more/deep/", "/new/"):
        above, name = path.rstrip("/").rsplit("/", 1)
        folders[f"{above}/"].append({"name": name, "is_folder": True, "bytes": 0})
        folders[path] = []
    for path in folders:
        for number in range(random.randint(1, 4)):
            size = random.randint(1, 9999)
            folders[path].append({"name": f"file-{number}", "is_folder": False, "bytes": size})
            total += size

    def list_folder(path: str) -> list[dict[str, Any]]:
        """Return the entries of a folder, each with `name`, `is_folder` and `bytes`. Paths of folders end with a /."""
        return folders[path]

    return Case(answer=total, lookups=[list_folder])


@GROUP.exercise(
    goal="""Bring each account of the list accounts that has less than 100 euros to exactly 100 euros, by one transfer
    from the account "savings". balance and transfer work with whole euros. Answer with the sum of what you
    transferred.""",
    right="""
        total = 0
        for account in accounts:
            missing = 100 - balance(account=account)
            if missing > 0:
                transfer(source="savings", target=account, euros=missing)
                total += missing
        total
    """,
    wrong="""
        missing = [100 - balance(account=account) for account in accounts]
        sum(euros for euros in missing if euros > 0)
    """,
)
def transfers(random: Random) -> Case:
    accounts = random.sample(_NAMES, 6)
    balances = dict(zip(accounts, (20, 100, 340, 99, 0, random.randint(1, 90)), strict=True)) | {"savings": 1000}
    missing = sum(max(0, 100 - balances[account]) for account in accounts)
    above = {account: max(100, balances[account]) for account in accounts} | {"savings": 1000 - missing}

    def balance(account: str) -> int:
        """Return the euros on an account."""
        return balances[account]

    def transfer(source: str, target: str, euros: int) -> str:
        """Transfer euros from one account to another."""
        if euros <= 0 or euros > balances[source]:
            raise ValueError("this cannot be transferred")
        balances[source] -= euros
        balances[target] += euros
        return "done"

    def outside() -> str:
        return "" if balances == above else "the accounts do not have what they should have"

    return Case(
        inputs={"accounts": shuffled(random, accounts)},
        answer=missing,
        lookups=[balance],
        actions=[transfer],
        outside=outside,
    )


@GROUP.exercise(
    goal="""Order (order) every item (list_items) of which there are at most as many pieces as its minimum, once for
    each item, and as many pieces as bring it to twice its minimum. Answer with the number of orders.""",
    right="""
        orders = 0
        for item in list_items():
            if item["pieces"] <= item["minimum"]:
                order(name=item["name"], pieces=2 * item["minimum"] - item["pieces"])
                orders += 1
        orders
    """,
    wrong="""
        orders = 0
        for item in list_items():
            if item["pieces"] < item["minimum"]:
                order(name=item["name"], pieces=2 * item["minimum"] - item["pieces"])
                orders += 1
        orders
    """,
)
def orders_for_a_store(random: Random) -> Case:
    names, less = ("bolts", "nuts", "nails", "hooks", "pipes", "wires"), (0, 3, -4, 1, 0, random.choice((-9, 0, 2)))
    minimums = random.sample(range(5, 40), 6)
    items = [
        {"name": name, "pieces": minimum - missing, "minimum": minimum}
        for name, minimum, missing in zip(names, minimums, less, strict=True)
    ]
    wanted = [
        (name, minimum + missing) for name, minimum, missing in zip(names, minimums, less, strict=True) if missing >= 0
    ]
    ordered: list[tuple[str, int]] = []

    def list_items() -> list[dict[str, Any]]:
        """Return all items, each with `name`, `pieces` and `minimum`."""
        return items

    def order(name: str, pieces: int) -> str:
        """Order pieces of an item."""
        ordered.append((name, pieces))
        return f"order {len(ordered)}"

    def outside() -> str:
        return "" if sorted(ordered) == sorted(wanted) else "the orders are not those that were needed"

    return Case(answer=len(wanted), lookups=[list_items], actions=[order], outside=outside)


@GROUP.exercise(
    goal="""Answer with the first time, in minutes after midnight, at which an hour is free between 480 and 1080 (the
    hour has to end by 1080). busy_times gives the times that are taken, as [start, end] in no order; they may overlap
    each other.""",
    right="""
        free, answer = 480, None
        for start, end in sorted(busy_times()) + [[1080, 1080]]:
            if start - free >= 60:
                break
            free = max(free, end)
        free if free <= 1020 else None
    """,
    wrong="""
        free = 480
        for start, end in sorted(busy_times()):
            if start - free >= 60:
                break
            free = end
        free
    """,
)
def a_free_hour(random: Random) -> Case:
    # The second meeting lies within the first one, and seems to end long before the third one begins.
    first = random.randint(150, 250)
    end = 480 + first
    meetings = [[480, end], [500, 520], [end + 20, end + 50], [end + 110 + random.randint(0, 30), end + 200]]

    def busy_times() -> list[list[int]]:
        """Return the times that are taken, each as [start, end] in minutes after midnight."""
        return shuffled(random, meetings)

    return Case(answer=end + 50, lookups=[busy_times])


@GROUP.exercise(
    goal="""The variable sentence is a list of words. look_up gives the translation of a word, or None where it has
    none. Answer with the translated sentence: the words with a space between them, those without a translation as they
    are.""",
    right="""
        " ".join(look_up(word=word) or word for word in sentence)
    """,
    wrong="""
        " ".join(look_up(word=word) for word in sentence)
    """,
)
def translated_sentence(random: Random) -> Case:
    known = {"the": "la", "house": "domo", "is": "estas", "old": "malnova", "new": "nova", "and": "kaj", "tree": "arbo"}
    sentence = shuffled(random, [*random.sample(sorted(known), 5), random.choice(_NAMES), random.choice(_NAMES)])

    def look_up(word: str) -> str | None:
        """Return the translation of a word, or None if there is none."""
        return known.get(word)

    return Case(
        inputs={"sentence": sentence}, answer=" ".join(known.get(word, word) for word in sentence), lookups=[look_up]
    )


@GROUP.exercise(
    goal="""The variable cities is a list of names. Answer with the name of the warmest city. temperature gives a value
    and its unit, which is C (Celsius) or F (Fahrenheit).""",
    right="""
        def celsius(city):
            found = temperature(city=city)
            return found["value"] if found["unit"] == "C" else (found["value"] - 32) * 5 / 9

        max(cities, key=celsius)
    """,
    wrong="""
        max(cities, key=lambda city: temperature(city=city)["value"])
    """,
)
def the_warmest_city(random: Random) -> Case:
    cities = random.sample(("Oslo", "Lima", "Graz", "Pune", "Bern", "Kyiv", "Doha"), 5)
    celsius = dict(zip(cities, [*random.sample(range(10, 25), 4), random.randint(30, 40)], strict=True))
    units = dict(zip(cities, ("F", "F", "C", "C", "C"), strict=True))

    def temperature(city: str) -> dict[str, Any]:
        """Return the temperature in a city: `value` and `unit`, which is C or F."""
        value = celsius[city]
        return {"value": value if units[city] == "C" else value * 9 / 5 + 32, "unit": units[city]}

    return Case(inputs={"cities": shuffled(random, cities)}, answer=cities[4], lookups=[temperature])


@GROUP.exercise(
    goal="""The variable codes is a list of the codes of articles. Answer with the sum of their prices. get_prices takes
    at most 8 codes at once.""",
    right="""
        total = 0
        for start in range(0, len(codes), 8):
            total += sum(get_prices(codes=codes[start : start + 8]))
        total
    """,
    wrong="""
        sum(get_prices(codes=codes))
    """,
)
def prices_in_portions(random: Random) -> Case:
    prices = {f"A{number}": random.randint(1, 500) for number in random.sample(range(100, 999), 21)}

    def get_prices(codes: list[str]) -> list[int]:
        """Return the prices of at most 8 codes, in the same order."""
        if len(codes) > 8:
            raise ValueError("these are more than 8 codes")
        return [prices[code] for code in codes]

    return Case(inputs={"codes": list(prices)}, answer=sum(prices.values()), lookups=[get_prices])


@GROUP.exercise(
    goal="""Answer with the number of different pages that one can reach from the page "home" by following links
    (get_links), with "home" itself. Pages link to each other in circles.""",
    right="""
        seen, edge = {"home"}, ["home"]
        while edge:
            for page in get_links(page=edge.pop()):
                if page not in seen:
                    seen.add(page)
                    edge.append(page)
        len(seen)
    """,
    wrong="""
        def pages(page, before=()):
            return 1 + sum(pages(link, (*before, page)) for link in get_links(page=page) if link not in (*before, page))

        pages("home")
    """,
)
def pages_that_link_in_circles(random: Random) -> Case:
    # Two ways lead to the third page, so that a walk along all ways counts it, and all after it, twice.
    names = ["home", *random.sample(_NAMES, random.randint(6, 9))]
    links = {name: [names[number + 1]] for number, name in enumerate(names[:-1])}
    links[names[-1]] = ["home"]
    links["home"].append(names[2])
    links[names[3]].append(names[1])
    links["nobody links here"] = ["home"]

    def get_links(page: str) -> list[str]:
        """Return the names of the pages to which a page links."""
        return links[page]

    return Case(answer=len(names), lookups=[get_links])


@GROUP.exercise(
    goal="""A message was written in three steps: each letter was moved by 3 places in the alphabet, then the text was
    turned around, and then it was written in hexadecimal. The variable secret is the result, in a list with one text.
    Answer with the message. The tools move_back, turn_around and from_hexadecimal each undo one of the steps.""",
    right="""
        move_back(text=turn_around(text=from_hexadecimal(text=secret[0])), places=3)
    """,
    wrong="""
        from_hexadecimal(text=turn_around(text=move_back(text=secret[0], places=3)))
    """,
)
def message_in_three_steps(random: Random) -> Case:
    message = "".join(random.choice(_NAMES).lower() for _ in range(4))

    def moved(text: str, by: int) -> str:
        return "".join(chr((ord(letter) - 97 + by) % 26 + 97) if "a" <= letter <= "z" else letter for letter in text)

    def move_back(text: str, places: int) -> str:
        """Move each of the letters a to z of a text back by so many places in the alphabet."""
        return moved(text, -places)

    def turn_around(text: str) -> str:
        """Return the text from its end to its beginning."""
        return text[::-1]

    def from_hexadecimal(text: str) -> str:
        """Return the text that hexadecimal digits stand for."""
        return bytes.fromhex(text).decode("latin-1")

    secret = moved(message, 3)[::-1].encode().hex()
    return Case(inputs={"secret": [secret]}, answer=message, lookups=[move_back, turn_around, from_hexadecimal])
