"""Exercises about files: reading what lies in `/input`, also in old formats, and writing to `/output`."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
from random import Random

from benchmarks.codegen.exercise import Case, Group, csv_bytes, json_bytes, shuffled, text_bytes

GROUP = Group("files")

_NAMES = ("birch", "cedar", "elder", "hazel", "larch", "maple", "olive", "poplar", "rowan", "willow")


@GROUP.exercise(
    goal="""orders.csv has the columns order, country and amount. Write a file for each of the countries at, de and it:
    at.csv, de.csv and it.csv, each with the orders of that country in the order of orders.csv, and with the same
    header.""",
    right="""
        import csv

        with open("/input/orders.csv", newline="") as file:
            header, *rows = csv.reader(file)
        for country in ("at", "de", "it"):
            with open(f"/output/{country}.csv", "w", newline="") as file:
                csv.writer(file).writerows([header, *(row for row in rows if row[1] == country)])
    """,
    wrong="""
        import csv

        with open("/input/orders.csv", newline="") as file:
            header, *rows = csv.reader(file)
        for country in ("at", "de", "it"):
            with open(f"/output/{country}.csv", "w", newline="") as file:
                csv.writer(file).writerows(row for row in rows if row[1] == country)
    """,
)
def a_file_for_each_country(random: Random) -> Case:
    header = ("order", "country", "amount")
    countries = shuffled(random, ["at", "de", "it", *random.choices(("at", "de", "it", "fr"), k=15)])
    rows = [(1000 + number, country, random.randint(1, 999)) for number, country in enumerate(countries)]
    files = {f"{name}.csv": [header, *(row for row in rows if row[1] == name)] for name in ("at", "de", "it")}
    return Case(inputs={"orders.csv": csv_bytes(header, rows)}, files=files)


@GROUP.exercise(
    goal="""defaults.json and local.json are objects. Write settings.json: the values of defaults.json, replaced by
    those of local.json where it has any. Where both have an object, their values are joined in the same way, at any
    depth; lists are replaced as a whole.""",
    right="""
        import json

        def read(name):
            with open(f"/input/{name}") as file:
                return json.load(file)

        def joined(one, other):
            if isinstance(one, dict) and isinstance(other, dict):
                return one | {key: joined(one.get(key), value) for key, value in other.items()}
            return other

        with open("/output/settings.json", "w") as file:
            json.dump(joined(read("defaults.json"), read("local.json")), file)
    """,
    wrong="""
        import json

        def read(name):
            with open(f"/input/{name}") as file:
                return json.load(file)

        with open("/output/settings.json", "w") as file:
            json.dump(read("defaults.json") | read("local.json"), file)
    """,
)
def joined_settings(random: Random) -> Case:
    one, two, three, four = random.sample(_NAMES, 4)
    port, size = random.randint(1000, 9999), random.randint(1, 99)
    defaults = {one: {"port": 80, "host": "localhost", two: {"size": 10, "on": True}}, three: [1, 2, 3], four: 5}
    local = {one: {"port": port, two: {"size": size}}, three: [9], "more": {"debug": False}}
    settings = {
        one: {"port": port, "host": "localhost", two: {"size": size, "on": True}},
        three: [9],
        four: 5,
        "more": {"debug": False},
    }
    inputs = {"defaults.json": json_bytes(defaults), "local.json": json_bytes(local)}
    return Case(inputs=inputs, files={"settings.json": settings})


@GROUP.exercise(
    goal="""Write list.json: an object that has, for each of the files one.txt, two.txt and three.txt, an object with
    its size in bytes as "size" and the SHA-256 of its content, in hexadecimal, as "sha256".""",
    right="""
        import hashlib, json
        from pathlib import Path

        found = {}
        for name in ("one.txt", "two.txt", "three.txt"):
            data = Path("/input", name).read_bytes()
            found[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        Path("/output/list.json").write_text(json.dumps(found))
    """,
    wrong="""
        import hashlib, json
        from pathlib import Path

        found = {}
        for name in ("one.txt", "two.txt", "three.txt"):
            text = Path("/input", name).read_text(encoding="utf-8")
            found[name] = {"size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
        Path("/output/list.json").write_text(json.dumps(found))
    """,
)
def list_of_files(random: Random) -> Case:
    words = [" ".join(random.choices(_NAMES, k=20)) for _ in range(3)]
    contents = {"one.txt": words[0], "two.txt": f"{words[1]}\r\nÄpfel, Öl, 5 €\r\n", "three.txt": f"{words[2]}\n"}
    inputs = {name: text.encode() for name, text in contents.items()}
    found = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in inputs.items()}
    return Case(inputs=inputs, files={"list.json": found})


@GROUP.exercise(
    goal="""old.txt comes from an old machine: its encoding is Latin-1 (ISO 8859-1), and its lines end with a carriage
    return and a line feed. Write new.txt with the same text in UTF-8, in which each line ends with a line feed
    alone.""",
    right=r"""
        from pathlib import Path

        text = Path("/input/old.txt").read_bytes().decode("latin-1")
        Path("/output/new.txt").write_bytes(text.replace("\r\n", "\n").encode())
    """,
    wrong="""
        with open("/input/old.txt", encoding="utf-8", errors="ignore") as old, open("/output/new.txt", "w") as new:
            new.write(old.read())
    """,
)
def text_of_an_old_machine(random: Random) -> Case:
    words = random.sample(("Straße", "Café", "Señor", "Grüße", "Ångström", "déjà vu", "año", "Übung"), 5)
    lines = [f"{number}. {word} {random.choice(_NAMES)}" for number, word in enumerate(words)]
    return Case(
        inputs={"old.txt": "".join(f"{line}\r\n" for line in lines).encode("latin-1")},
        files={"new.txt": text_bytes(lines)},
    )


@GROUP.exercise(
    goal="""pages.zip has text files, also in folders. Write counts.json: an object that has the number of lines of each
    file whose name ends with .txt, by its path in the archive. The last line of a file counts also if nothing ends
    it.""",
    right="""
        import json, zipfile

        counts = {}
        with zipfile.ZipFile("/input/pages.zip") as archive:
            for name in archive.namelist():
                if name.endswith(".txt"):
                    counts[name] = len(archive.read(name).decode().splitlines())
        with open("/output/counts.json", "w") as file:
            json.dump(counts, file)
    """,
    wrong=r"""
        import json, zipfile

        counts = {}
        with zipfile.ZipFile("/input/pages.zip") as archive:
            for name in archive.namelist():
                if name.endswith(".txt"):
                    counts[name] = archive.read(name).count(b"\n")
        with open("/output/counts.json", "w") as file:
            json.dump(counts, file)
    """,
)
def lines_in_an_archive(random: Random) -> Case:
    counts, archive = {}, io.BytesIO()
    with zipfile.ZipFile(archive, "w") as pages:
        for number, name in enumerate(random.sample(_NAMES, 6)):
            path = (f"{name}.txt", f"old/{name}.txt", f"old/more/{name}.txt")[number % 3]
            lines = random.choices(_NAMES, k=random.randint(1, 12))
            counts[path] = len(lines)
            pages.writestr(zipfile.ZipInfo(path), "\n".join(lines) + "\n" * (number % 2))
        pages.writestr(zipfile.ZipInfo("notes.md"), "not\ncounted\n")
    return Case(inputs={"pages.zip": archive.getvalue()}, files={"counts.json": counts})


@GROUP.exercise(
    goal="""machine.ini is a file with sections. Write machine.json: an object that has an object for each section, with
    its keys. Values that consist of digits become numbers, yes and no become true and false, and all others stay text
    as they are.""",
    right="""
        import configparser, json

        def value(text):
            if text.isdigit():
                return int(text)
            return {"yes": True, "no": False}.get(text, text)

        found = configparser.ConfigParser(interpolation=None)
        found.read("/input/machine.ini")
        with open("/output/machine.json", "w") as file:
            json.dump({name: {key: value(found[name][key]) for key in found[name]} for name in found.sections()}, file)
    """,
    wrong="""
        import configparser, json

        found = configparser.ConfigParser(interpolation=None)
        found.read("/input/machine.ini")
        with open("/output/machine.json", "w") as file:
            json.dump({name: dict(found[name]) for name in found.sections()}, file)
    """,
)
def settings_in_sections(random: Random) -> Case:
    sections: dict[str, dict[str, object]] = {}
    lines = []
    for name in random.sample(_NAMES, 3):
        port, version, is_on = random.randint(1, 9999), f"1.{random.randint(0, 9)}", random.random() < 0.5
        sections[name] = {"port": port, "enabled": is_on, "version": version, "load": "40%"}
        lines += [f"[{name}]", "# a comment", f"port = {port}", f"enabled = {'yes' if is_on else 'no'}"]
        lines += [f"version = {version}", "load = 40%", ""]
    return Case(inputs={"machine.ini": text_bytes(lines)}, files={"machine.json": sections})


@GROUP.exercise(
    goal="""numbers.txt has one whole number a line. Write sorted.txt with the same numbers, the least one first, one a
    line.""",
    right=r"""
        with open("/input/numbers.txt") as file:
            numbers = sorted(map(int, file))
        with open("/output/sorted.txt", "w") as file:
            file.writelines(f"{number}\n" for number in numbers)
    """,
    wrong="""
        with open("/input/numbers.txt") as file:
            lines = sorted(file)
        with open("/output/sorted.txt", "w") as file:
            file.writelines(lines)
    """,
)
def sorted_numbers(random: Random) -> Case:
    numbers = [9, 10, -3, -20, *(random.randint(-5000, 5000) for _ in range(30))]
    return Case(
        inputs={"numbers.txt": text_bytes(map(str, shuffled(random, numbers)))},
        files={"sorted.txt": list(map(str, sorted(numbers)))},
    )


@GROUP.exercise(
    goal="""events.jsonl has one JSON object a line; not all have the same keys. Write events.csv with a header and one
    row for each object. The columns are all keys, in the order in which they are first found in the file. Where an
    object lacks a key, the cell is empty.""",
    right="""
        import csv, json

        with open("/input/events.jsonl") as file:
            events = [json.loads(line) for line in file]
        columns = list(dict.fromkeys(key for event in events for key in event))
        with open("/output/events.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(events)
    """,
    wrong="""
        import csv, json

        with open("/input/events.jsonl") as file:
            events = [json.loads(line) for line in file]
        with open("/output/events.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(events[0]))
            writer.writeheader()
            writer.writerows(events)
    """,
)
def events_as_a_table(random: Random) -> Case:
    columns = ["time", "kind", *random.sample(_NAMES, 3)]
    events = [{"time": number, "kind": random.choice(("start", "stop"))} for number in range(100, 112)]
    for number, event in enumerate(events[1:]):
        event[columns[2 + number % 3]] = random.randint(0, 99)
    rows = [[event.get(column, "") for column in columns] for event in events]
    return Case(inputs={"events.jsonl": text_bytes(map(json.dumps, events))}, files={"events.csv": [columns, *rows]})


@GROUP.exercise(
    goal="""prices.csv has a header and rows. Write prices.md with the same as a Markdown table: each line is "| ", the
    cells with " | " between them, and " |". The second line has --- for each column. A | inside of a cell is written
    with a backslash before it.""",
    right=r"""
        import csv

        with open("/input/prices.csv", newline="") as file:
            header, *rows = csv.reader(file)
        with open("/output/prices.md", "w") as file:
            for row in [header, ["---"] * len(header), *rows]:
                file.write("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n")
    """,
    wrong=r"""
        import csv

        with open("/input/prices.csv", newline="") as file:
            header, *rows = csv.reader(file)
        with open("/output/prices.md", "w") as file:
            for row in [header, ["---"] * len(header), *rows]:
                file.write("| " + " | ".join(row) + " |\n")
    """,
)
def markdown_table(random: Random) -> Case:
    header = ("item", "size", "price")
    rows = [(name, random.choice(("S", "M", "L")), str(random.randint(1, 99))) for name in random.sample(_NAMES, 5)]
    rows[random.randrange(5)] = ("pipe | tube", "S|M", "12")
    lines = [header, ["---"] * 3, *rows]
    table = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
    return Case(inputs={"prices.csv": csv_bytes(header, rows)}, files={"prices.md": table})


@GROUP.exercise(
    goal="""A log was cut into pieces: app.log is the newest one, app.log.1 the one before it, and so on up to
    app.log.11, which is the oldest. Write all.log with all lines, the oldest piece first.""",
    right="""
        from pathlib import Path

        pieces = [f"app.log.{number}" for number in range(11, 0, -1)] + ["app.log"]
        Path("/output/all.log").write_text("".join(Path("/input", piece).read_text() for piece in pieces))
    """,
    wrong="""
        from pathlib import Path

        pieces = sorted(Path("/input").glob("app.log*"), reverse=True)
        Path("/output/all.log").write_text("".join(piece.read_text() for piece in pieces))
    """,
)
def pieces_of_a_log(random: Random) -> Case:
    pieces = {f"app.log.{number}": random.choices(_NAMES, k=2) for number in range(11, 0, -1)}
    pieces["app.log"] = random.choices(_NAMES, k=2)
    pieces = {name: [f"{name[8:] or 0} {word}" for word in words] for name, words in pieces.items()}
    return Case(
        inputs={name: text_bytes(lines) for name, lines in pieces.items()},
        files={"all.log": [line for lines in pieces.values() for line in lines]},
    )


@GROUP.exercise(
    goal="""library.xml has elements named book, at any depth, each with the attribute year and, inside, an element
    title. Write books.csv with the columns year and title, and a row for each book in the order of the file.""",
    right="""
        import csv
        from xml.etree import ElementTree

        root = ElementTree.parse("/input/library.xml").getroot()
        with open("/output/books.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["year", "title"])
            writer.writerows([book.get("year"), book.findtext("title")] for book in root.iter("book"))
    """,
    wrong="""
        import csv
        from xml.etree import ElementTree

        root = ElementTree.parse("/input/library.xml").getroot()
        with open("/output/books.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["year", "title"])
            writer.writerows([book.get("year"), book.findtext("title")] for book in root.findall("book"))
    """,
)
def books_of_a_library(random: Random) -> Case:
    books = [(random.randint(1900, 2024), f"The {name} & the sea") for name in random.sample(_NAMES, 6)]
    one, two, three, *more = [
        f'<book year="{year}"><title>{title.replace("&", "&amp;")}</title></book>' for year, title in books
    ]
    xml = f"<library>{one}<series>{two}<part>{three}</part></series>{''.join(more)}</library>"
    return Case(inputs={"library.xml": xml.encode()}, files={"books.csv": [("year", "title"), *books]})


@GROUP.exercise(
    goal="""page.html is the page at https://example.com/docs/start.html. Write links.json: the list of the addresses to
    which its links (the attribute href of elements named a) lead, as full addresses, in the order of the page, each
    once.""",
    right="""
        import json
        from html.parser import HTMLParser
        from urllib.parse import urljoin

        class Links(HTMLParser):
            found = {}

            def handle_starttag(self, tag, attributes):
                href = dict(attributes).get("href")
                if tag == "a" and href is not None:
                    self.found[urljoin("https://example.com/docs/start.html", href)] = None

        links = Links()
        with open("/input/page.html") as file:
            links.feed(file.read())
        with open("/output/links.json", "w") as file:
            json.dump(list(links.found), file)
    """,
    wrong="""
        import json, re

        with open("/input/page.html") as file:
            found = re.findall('href="([^"]*)"', file.read())
        links = [link if link.startswith("http") else "https://example.com" + link for link in found]
        with open("/output/links.json", "w") as file:
            json.dump(list(dict.fromkeys(links)), file)
    """,
)
def links_of_a_page(random: Random) -> Case:
    one, two, three = random.sample(_NAMES, 3)
    links = {
        f"{one}.html": f"https://example.com/docs/{one}.html",
        f"../{two}/": f"https://example.com/{two}/",
        f"/{three}": f"https://example.com/{three}",
        "https://other.example.org/a?b=1": "https://other.example.org/a?b=1",
    }
    order = shuffled(random, links)
    body = "".join(f'<p><a class="x" href="{link}">{random.choice(_NAMES)}</a></p>' for link in [*order, order[0]])
    html = f'<html><head><link rel="icon" href="/icon.png"></head><body>{body}</body></html>'
    return Case(inputs={"page.html": html.encode()}, files={"links.json": [links[link] for link in order]})


@GROUP.exercise(
    goal="""values.bin consists of records of 14 bytes without anything between them, all numbers with their lowest byte
    first: an unsigned 16-bit number (id), a signed 32-bit number (count), and a 64-bit floating-point number (value).
    Write values.json: the list of all records as [id, count, value].""",
    right="""
        import json, struct
        from pathlib import Path

        records = list(struct.iter_unpack("<Hid", Path("/input/values.bin").read_bytes()))
        Path("/output/values.json").write_text(json.dumps(records))
    """,
    wrong="""
        import json, struct
        from pathlib import Path

        records = list(struct.iter_unpack("Hid", Path("/input/values.bin").read_bytes()))
        Path("/output/values.json").write_text(json.dumps(records))
    """,
)
def records_of_bytes(random: Random) -> Case:
    records = [[random.randint(0, 65535), random.randint(-(2**31), 2**31 - 1), random.random()] for _ in range(9)]
    data = b"".join(struct.pack("<Hid", *record) for record in records)
    return Case(inputs={"values.bin": data}, files={"values.json": records})


@GROUP.exercise(
    goal="""stock.txt is a table without separators: the name is in the columns 1 to 16, the place in 17 to 24, and the
    number of pieces in 25 to 30. Write stock.json: a list of [name, place, number], without the spaces that fill the
    columns. Names may have spaces inside, and the place may be empty.""",
    right="""
        import json

        with open("/input/stock.txt") as file:
            rows = [[line[:16].strip(), line[16:24].strip(), int(line[24:30])] for line in file]
        with open("/output/stock.json", "w") as file:
            json.dump(rows, file)
    """,
    wrong="""
        import json, re

        with open("/input/stock.txt") as file:
            rows = [re.split(" {2,}", line.strip()) for line in file]
        with open("/output/stock.json", "w") as file:
            json.dump([[name, place, int(number)] for name, place, number in rows], file)
    """,
)
def columns_of_fixed_width(random: Random) -> Case:
    rows = [
        [f"{name} {random.choice(('big', 'small', 'old'))}", f"R{random.randint(1, 99)}", random.randint(0, 99_999)]
        for name in random.sample(_NAMES, 6)
    ]
    rows[random.randrange(6)][1] = ""
    lines = [f"{name:16}{place:8}{number:6}" for name, place, number in rows]
    return Case(inputs={"stock.txt": text_bytes(lines)}, files={"stock.json": rows})


@GROUP.exercise(
    goal="""totals.csv has the columns region and total. Write chart.svg, a picture with one <rect> for each region, in
    the order of the file. The bar of the largest total has the height 200, and the heights of the others are in
    proportion to it; heights are whole numbers (rounded). All bars stand on the line y = 220.""",
    right="""
        import csv

        with open("/input/totals.csv", newline="") as file:
            totals = [float(row["total"]) for row in csv.DictReader(file)]
        bars = []
        for number, total in enumerate(totals):
            height = round(200 * total / max(totals))
            bars.append(f'<rect x="{10 + 40 * number}" y="{220 - height}" width="30" height="{height}"/>')
        width = 20 + 40 * len(totals)
        with open("/output/chart.svg", "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="240">{"".join(bars)}</svg>')
    """,
    wrong="""
        import csv

        with open("/input/totals.csv", newline="") as file:
            totals = [float(row["total"]) for row in csv.DictReader(file)]
        bars = []
        for number, total in enumerate(totals):
            height = round(200 * total / max(totals))
            bars.append(f'<rect x="{10 + 40 * number}" y="20" width="30" height="{height}"/>')
        width = 20 + 40 * len(totals)
        with open("/output/chart.svg", "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="240">{"".join(bars)}</svg>')
    """,
)
def chart_of_totals(random: Random) -> Case:
    totals = [random.randint(10, 400) for _ in range(5)]
    heights = [200 * total / max(totals) for total in totals]

    def fault(data: bytes) -> str:
        bars = re.findall(rb"<rect\b[^>]*>", data)
        if len(bars) != len(heights):
            return f"chart.svg has {len(bars)} bars"
        for bar, height in zip(bars, heights, strict=True):
            found = {name: re.search(rb"\b%s\s*=\s*[\"'](\d+(?:\.\d+)?)" % name, bar) for name in (b"y", b"height")}
            if not all(found.values()):
                return "a bar of chart.svg lacks y or height"
            top, size = (float(match[1]) for match in found.values() if match)
            if abs(size - height) > 0.5001 or abs(top + size - 220) > 1e-6:
                return "a bar of chart.svg has another place or height than it should have"
        return ""

    rows = zip(random.sample(_NAMES, 5), totals, strict=True)
    return Case(inputs={"totals.csv": csv_bytes(("region", "total"), rows)}, files={"chart.svg": fault})
