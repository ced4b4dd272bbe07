"""Exercises about tables: reading, cleaning, joining, grouping and adding up."""

from __future__ import annotations

import sqlite3
from datetime import date, timedelta
from random import Random
from statistics import median

from benchmarks.codegen.exercise import Case, Group, csv_bytes, json_bytes, shuffled

GROUP = Group("data")

_REGIONS = ("north", "south", "east", "west")
_PRODUCTS = ("anvil", "bucket", "candle", "drum", "easel", "funnel", "gasket", "hammer")
_PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jan", "Kim", "Lea")


@GROUP.exercise(
    goal="""sales.csv has the columns region, units and price. Answer with a dict that has the sum of units × price for
    each region, rounded to 2 digits. The names of regions were typed by hand: upper and lower case and spaces around
    them do not matter. Use names in lower case without spaces around them.""",
    right="""
        import csv

        totals = {}
        with open("/input/sales.csv", newline="") as file:
            for row in csv.DictReader(file):
                region = row["region"].strip().lower()
                totals[region] = totals.get(region, 0) + int(row["units"]) * float(row["price"])
        {region: round(total, 2) for region, total in totals.items()}
    """,
    wrong="""
        import csv

        totals = {}
        with open("/input/sales.csv", newline="") as file:
            for row in csv.DictReader(file):
                region = row["region"].lower()
                totals[region] = totals.get(region, 0) + int(row["units"]) * float(row["price"])
        {region: round(total, 2) for region, total in totals.items()}
    """,
)
def sales_by_region(random: Random) -> Case:
    typed = [*_REGIONS, " North", "SOUTH ", "east ", *random.choices(_REGIONS, k=30)]
    sales = [(region, random.randint(1, 40), random.randint(100, 9999)) for region in shuffled(random, typed)]
    cents = dict.fromkeys(_REGIONS, 0)
    for region, units, price in sales:
        cents[region.strip().lower()] += units * price
    rows = [(region, units, f"{price / 100:.2f}") for region, units, price in sales]
    return Case(
        inputs={"sales.csv": csv_bytes(("region", "units", "price"), rows)},
        answer={region: total / 100 for region, total in cents.items()},
    )


@GROUP.exercise(
    goal="""orders.json is a list of orders with the fields id, status and cents. Answer with the income in cents: paid
    orders count, refunded orders are taken off, and all others do not matter.""",
    right="""
        import json

        with open("/input/orders.json") as file:
            orders = json.load(file)
        signs = {"paid": 1, "refunded": -1}
        sum(signs.get(order["status"], 0) * order["cents"] for order in orders)
    """,
    wrong="""
        import json

        with open("/input/orders.json") as file:
            orders = json.load(file)
        sum(order["cents"] for order in orders if order["status"] == "paid")
    """,
)
def income_after_refunds(random: Random) -> Case:
    states = shuffled(random, ["paid", "refunded", "open", *random.choices(("paid", "refunded", "open"), k=25)])
    orders = [{"id": 1000 + i, "status": state, "cents": random.randint(99, 9999)} for i, state in enumerate(states)]
    signs = {"paid": 1, "refunded": -1, "open": 0}
    return Case(
        inputs={"orders.json": json_bytes(orders)},
        answer=sum(signs[str(order["status"])] * int(order["cents"]) for order in orders),
    )


@GROUP.exercise(
    goal="""readings.csv has the columns sensor and celsius. Where a sensor gave nothing, celsius is empty or "n/a".
    Answer with a dict that has the mean of the values that each sensor did give, rounded to 1 digit.""",
    right="""
        import csv
        from statistics import mean

        values = {}
        with open("/input/readings.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["celsius"] not in ("", "n/a"):
                    values.setdefault(row["sensor"], []).append(float(row["celsius"]))
        {sensor: round(mean(given), 1) for sensor, given in values.items()}
    """,
    wrong="""
        import csv
        from statistics import mean

        values = {}
        with open("/input/readings.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["celsius"]:
                    values.setdefault(row["sensor"], []).append(float(row["celsius"]))
        {sensor: round(mean(given), 1) for sensor, given in values.items()}
    """,
)
def readings_with_gaps(random: Random) -> Case:
    given = {sensor: [random.randint(-100, 350) for _ in range(9)] for sensor in ("attic", "cellar", "garden")}
    rows = [(sensor, f"{tenths / 10:.1f}") for sensor, values in given.items() for tenths in values]
    rows += [("attic", ""), ("cellar", "n/a"), ("garden", ""), ("garden", "n/a")]
    return Case(
        inputs={"readings.csv": csv_bytes(("sensor", "celsius"), shuffled(random, rows))},
        answer={sensor: sum(values) / 90 for sensor, values in given.items()},
        tolerance=0.0501,
    )


@GROUP.exercise(
    goal="""customers.csv has the columns id and name, orders.csv the columns customer_id and amount. Answer with a list
    of [name, total of the amounts], in the order of customers.csv. Each customer is in the list.""",
    right="""
        import csv

        totals = {}
        with open("/input/orders.csv", newline="") as file:
            for row in csv.DictReader(file):
                totals[row["customer_id"]] = totals.get(row["customer_id"], 0) + int(row["amount"])
        with open("/input/customers.csv", newline="") as file:
            answer = [[row["name"], totals.get(row["id"], 0)] for row in csv.DictReader(file)]
        answer
    """,
    wrong="""
        import csv

        with open("/input/customers.csv", newline="") as file:
            names = {row["id"]: row["name"] for row in csv.DictReader(file)}
        totals = {}
        with open("/input/orders.csv", newline="") as file:
            for row in csv.DictReader(file):
                totals[row["customer_id"]] = totals.get(row["customer_id"], 0) + int(row["amount"])
        [[names[number], totals[number]] for number in names if number in totals]
    """,
)
def customers_without_orders(random: Random) -> Case:
    customers = [(10 + i, name) for i, name in enumerate(random.sample(_PEOPLE, 8))]
    buyers = random.sample(customers, 6)
    orders = [(random.choice(buyers)[0], random.randint(5, 500)) for _ in range(20)]
    totals = {number: sum(amount for buyer, amount in orders if buyer == number) for number, _ in customers}
    return Case(
        inputs={
            "customers.csv": csv_bytes(("id", "name"), customers),
            "orders.csv": csv_bytes(("customer_id", "amount"), orders),
        },
        answer=[[name, totals[number]] for number, name in customers],
    )


@GROUP.exercise(
    goal="""The variable records is a list of dicts with the keys id, version and title. Records of the same id are
    versions of one document, in no order. Answer with a dict that has, for each id, the title of the highest
    version.""",
    right="""
        latest = {}
        for record in records:
            if record["id"] not in latest or record["version"] > latest[record["id"]]["version"]:
                latest[record["id"]] = record
        {number: record["title"] for number, record in latest.items()}
    """,
    wrong="""
        {record["id"]: record["title"] for record in records}
    """,
)
def latest_versions(random: Random) -> Case:
    records, titles = [], {}
    for number in random.sample(range(100, 999), 8):
        versions = random.sample(range(1, 15), 4)
        found = [{"id": f"D{number}", "version": v, "title": f"Title {random.randint(100, 999)}/{v}"} for v in versions]
        titles[f"D{number}"] = max(found, key=lambda record: int(record["version"]))["title"]
        records += found
    records = shuffled(random, records)
    last = {record["id"]: record for record in records}
    if all(titles[number] == record["title"] for number, record in last.items()):
        records.reverse()
    return Case(inputs={"records": records}, answer=titles)


@GROUP.exercise(
    goal="""The variable prices is a list of [city, price]. Answer with a dict that has the median price of each city:
    the middle one of its prices, or the mean of the two middle ones.""",
    right="""
        from statistics import median

        by_city = {}
        for city, price in prices:
            by_city.setdefault(city, []).append(price)
        {city: median(found) for city, found in by_city.items()}
    """,
    wrong="""
        by_city = {}
        for city, price in prices:
            by_city.setdefault(city, []).append(price)
        {city: sorted(found)[len(found) // 2] for city, found in by_city.items()}
    """,
)
def median_prices(random: Random) -> Case:
    by_city = {city: random.sample(range(100, 900), count) for city, count in (("Graz", 6), ("Linz", 5), ("Wels", 8))}
    prices = [[city, price] for city, found in by_city.items() for price in found]
    return Case(
        inputs={"prices": shuffled(random, prices)},
        answer={city: median(found) for city, found in by_city.items()},
    )


@GROUP.exercise(
    goal="""visits.csv has the columns day (such as 2024-03-17) and visitors. Answer with a list of [month, visitors]
    for each month from the first to the last one in the file, such as ["2024-03", 120]. A month without a line had no
    visitors, and is in the list.""",
    right="""
        import csv

        totals = {}
        with open("/input/visits.csv", newline="") as file:
            for row in csv.DictReader(file):
                totals[row["day"][:7]] = totals.get(row["day"][:7], 0) + int(row["visitors"])
        year, month = map(int, min(totals).split("-"))
        answer = []
        while (name := f"{year}-{month:02}") <= max(totals):
            answer.append([name, totals.get(name, 0)])
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        answer
    """,
    wrong="""
        import csv

        totals = {}
        with open("/input/visits.csv", newline="") as file:
            for row in csv.DictReader(file):
                totals[row["day"][:7]] = totals.get(row["day"][:7], 0) + int(row["visitors"])
        [[month, totals[month]] for month in sorted(totals)]
    """,
)
def visitors_by_month(random: Random) -> Case:
    start = random.randint(5, 9)
    months = [f"{2023 + number // 12}-{number % 12 + 1:02}" for number in range(start, start + 10)]
    silent = random.sample(months[1:-1], 2)
    visits = [
        (f"{month}-{random.randint(1, 28):02}", random.randint(1, 90))
        for month in months
        if month not in silent
        for _ in range(3)
    ]
    return Case(
        inputs={"visits.csv": csv_bytes(("day", "visitors"), shuffled(random, visits))},
        answer=[[month, sum(count for day, count in visits if day.startswith(month))] for month in months],
    )


@GROUP.exercise(
    goal="""The variable sold is a dict of product names and how many of each were sold. Answer with the list of the
    names of the 4 products that sold most, the best first. Of products that sold equally well, the one that is first
    in the alphabet comes first.""",
    right="""
        sorted(sold, key=lambda name: (-sold[name], name))[:4]
    """,
    wrong="""
        sorted(sold, key=lambda name: (sold[name], name), reverse=True)[:4]
    """,
)
def best_sellers(random: Random) -> Case:
    names = random.sample(_PRODUCTS, 7)
    counts = [90, 70, 70, 70, 40, 20, 10]
    more = random.randint(0, 500)
    sold = {name: count + more for name, count in shuffled(random, zip(names, counts, strict=True))}
    return Case(inputs={"sold": sold}, answer=sorted(sold, key=lambda name: (-sold[name], name))[:4])


@GROUP.exercise(
    goal="""shop.sqlite is an SQLite database with the tables products (id, name) and sales (product_id, units). The
    product of some sales is unknown: product_id is NULL. Answer with the sorted list of the names of the products of
    which nothing was sold.""",
    right="""
        import sqlite3

        shop = sqlite3.connect("file:/input/shop.sqlite?mode=ro", uri=True)
        found = shop.execute(
            "SELECT name FROM products p WHERE NOT EXISTS (SELECT 1 FROM sales WHERE product_id = p.id) ORDER BY name"
        )
        [name for (name,) in found]
    """,
    wrong="""
        import sqlite3

        shop = sqlite3.connect("file:/input/shop.sqlite?mode=ro", uri=True)
        found = shop.execute(
            "SELECT name FROM products WHERE id NOT IN (SELECT product_id FROM sales) ORDER BY name"
        )
        [name for (name,) in found]
    """,
)
def products_never_sold(random: Random) -> Case:
    products = list(enumerate(_PRODUCTS, start=1))
    sold = random.sample(products, 5)
    sales = [(random.choice(sold)[0], random.randint(1, 9)) for _ in range(12)] + [(number, 1) for number, _ in sold]
    with sqlite3.connect(":memory:") as shop:
        shop.execute("CREATE TABLE products (id INTEGER, name TEXT)")
        shop.execute("CREATE TABLE sales (product_id INTEGER, units INTEGER)")
        shop.executemany("INSERT INTO products VALUES (?, ?)", products)
        shop.executemany("INSERT INTO sales VALUES (?, ?)", shuffled(random, [*sales, (None, 2)]))
    inputs = {"shop.sqlite": shop.serialize()}
    shop.close()
    return Case(inputs=inputs, answer=sorted(name for number, name in products if (number, name) not in sold))


@GROUP.exercise(
    goal="""The variable scores is a list of [student, subject, points]. Answer with a table as a list of rows. The
    first row is "student" and then the subjects in alphabetical order. Then comes a row for each student, in
    alphabetical order: the name, and the points in each subject, or None where there are none.""",
    right="""
        points = {(student, subject): found for student, subject, found in scores}
        subjects = sorted({subject for _, subject in points})
        students = sorted({student for student, _ in points})
        [["student", *subjects]] + [
            [student, *(points.get((student, subject)) for subject in subjects)] for student in students
        ]
    """,
    wrong="""
        table = {}
        for student, subject, points in scores:
            table.setdefault(student, {})[subject] = points
        subjects = sorted({subject for _, subject, _ in scores})
        [["student", *subjects]] + [
            [student, *(table[student][subject] for subject in subjects)] for student in sorted(table)
        ]
    """,
)
def table_of_scores(random: Random) -> Case:
    students, subjects = random.sample(_PEOPLE, 5), ("art", "biology", "chess", "drama")
    missing = list(zip(students, subjects, strict=False))
    pairs = [(student, subject) for student in students for subject in subjects]
    points = {pair: random.randint(0, 100) for pair in pairs if pair not in missing}
    rows = [[student, *(points.get((student, subject)) for subject in subjects)] for student in sorted(students)]
    return Case(
        inputs={"scores": shuffled(random, ([*pair, found] for pair, found in points.items()))},
        answer=[["student", *subjects], *rows],
    )


@GROUP.exercise(
    goal="""account.csv has the columns day (such as 31.12.2024: day, month, year) and cents, in no order, with at most
    one line a day. The account began with 0. Answer with the first day on which it was below zero, written as in the
    file.""",
    right="""
        import csv
        from datetime import datetime

        with open("/input/account.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        rows.sort(key=lambda row: datetime.strptime(row["day"], "%d.%m.%Y"))
        balance, answer = 0, None
        for row in rows:
            balance += int(row["cents"])
            if balance < 0:
                answer = row["day"]
                break
        answer
    """,
    wrong="""
        import csv

        with open("/input/account.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        rows.sort(key=lambda row: row["day"])
        balance, answer = 0, None
        for row in rows:
            balance += int(row["cents"])
            if balance < 0:
                answer = row["day"]
                break
        answer
    """,
)
def first_overdraft(random: Random) -> Case:
    # By text, the first day of February comes before all of January, and its large payment is the first one.
    first = date(random.randint(2015, 2024), 1, 2)
    days = [first + timedelta(days=number) for number in sorted(random.sample(range(5, 25), 8))]
    rows = [(first, 10_000), *((day, -random.randint(100, 900)) for day in days)]
    debt = days[5]
    rows = [(day, cents - 12_000 if day == debt else cents) for day, cents in rows]
    rows.append((date(first.year, 2, 1), -50_000))
    written = [(day.strftime("%d.%m.%Y"), cents) for day, cents in shuffled(random, rows)]
    return Case(
        inputs={"account.csv": csv_bytes(("day", "cents"), written)},
        answer=debt.strftime("%d.%m.%Y"),
    )


@GROUP.exercise(
    goal="""The variable parcels is a list of weights as text, such as "2.5 kg", "300 g" or "1.2 t" (a tonne is
    1000 kg). Answer with their sum in kilograms, rounded to 3 digits.""",
    right="""
        in_kilograms = {"g": 0.001, "kg": 1, "t": 1000}
        total = 0
        for parcel in parcels:
            number, unit = parcel.split()
            total += float(number) * in_kilograms[unit]
        round(total, 3)
    """,
    wrong="""
        total = 0
        for parcel in parcels:
            number, unit = parcel.split()
            total += float(number) / 1000 if unit == "g" else float(number)
        round(total, 3)
    """,
)
def weights_in_units(random: Random) -> Case:
    grams = [(random.randint(1, 50) * 50, 1, "g") for _ in range(6)]
    grams += [(random.randint(2, 90) * 100, 1000, "kg") for _ in range(8)]
    grams += [(random.randint(1, 9) * 100_000, 1_000_000, "t") for _ in range(2)]
    parcels = [f"{weight / size:g} {unit}" for weight, size, unit in grams]
    return Case(
        inputs={"parcels": shuffled(random, parcels)},
        answer=sum(weight for weight, _, _ in grams) / 1000,
        tolerance=0.0005,
    )


@GROUP.exercise(
    goal="""The variable people is a list of dicts with the keys name, boss (a name, or None) and salary. Answer with a
    dict that has, for everybody who is somebody's boss, the sum of the salaries of all who work below that person,
    also indirectly.""",
    right="""
        below = {}
        for person in people:
            below.setdefault(person["boss"], []).append(person)

        def total(name):
            return sum(person["salary"] + total(person["name"]) for person in below.get(name, ()))

        {name: total(name) for name in below if name is not None}
    """,
    wrong="""
        totals = {}
        for person in people:
            if person["boss"] is not None:
                totals[person["boss"]] = totals.get(person["boss"], 0) + person["salary"]
        totals
    """,
)
def salaries_below(random: Random) -> Case:
    names = random.sample(_PEOPLE, 10)
    bosses: list[str | None] = [None, names[0], names[1]]
    bosses += [random.choice(names[:number]) for number in range(3, 10)]
    salaries = {name: random.randint(20, 90) * 100 for name in names}
    totals: dict[str, int] = {}
    for name, boss in zip(names, bosses, strict=True):
        above = boss
        while above is not None:
            totals[above] = totals.get(above, 0) + salaries[name]
            above = bosses[names.index(above)]
    people = [{"name": name, "boss": boss, "salary": salaries[name]} for name, boss in zip(names, bosses, strict=True)]
    return Case(inputs={"people": shuffled(random, people)}, answer=totals)
