"""Exercises about text: counting, finding, reading formats that people write, and rewriting."""

from __future__ import annotations

from datetime import date
from random import Random

from benchmarks.codegen.exercise import Case, Group, csv_bytes, shuffled, text_bytes

GROUP = Group("text")

_WORDS = (
    "river",
    "stone",
    "lamp",
    "paper",
    "garden",
    "window",
    "bread",
    "copper",
    "violin",
    "harbor",
    "ladder",
    "mirror",
)


@GROUP.exercise(
    goal="""Answer with a list of [word, count] of the 5 most frequent words of story.txt, the most frequent first; of
    equally frequent words, the one that is first in the alphabet comes first. Upper and lower case do not matter: use
    lower case. Words consist of letters only; everything else separates them.""",
    right="""
        import re
        from collections import Counter

        with open("/input/story.txt") as file:
            counts = Counter(re.findall("[a-z]+", file.read().lower()))
        sorted(([word, count] for word, count in counts.items()), key=lambda pair: (-pair[1], pair[0]))[:5]
    """,
    wrong="""
        from collections import Counter

        with open("/input/story.txt") as file:
            counts = Counter(file.read().lower().split())
        sorted(([word, count] for word, count in counts.items()), key=lambda pair: (-pair[1], pair[0]))[:5]
    """,
)
def frequent_words(random: Random) -> Case:
    words = random.sample(_WORDS, 8)
    counts = dict(zip(words, (19, 16, 16, 12, 9, 5, 4, 2), strict=True))
    written = shuffled(random, (word for word, count in counts.items() for _ in range(count)))
    marks = (" ", " ", ", ", ". ", " - ", "; ")
    story = "".join(
        (word.title() if number % 4 == 0 else word) + random.choice(marks) for number, word in enumerate(written)
    )
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return Case(inputs={"story.txt": f"{story}\n".encode()}, answer=ranked[:5])


@GROUP.exercise(
    goal="""Each line of app.log has a day, a time, a level and a message, such as "2024-05-01 09:12:44 ERROR disk
    full". Answer with a dict that has, for each hour (such as "09") with lines of the level ERROR, their number.""",
    right="""
        counts = {}
        with open("/input/app.log") as file:
            for line in file:
                _, time, level, _ = line.split(" ", 3)
                if level == "ERROR":
                    counts[time[:2]] = counts.get(time[:2], 0) + 1
        counts
    """,
    wrong="""
        counts = {}
        with open("/input/app.log") as file:
            for line in file:
                if "ERROR" in line:
                    hour = line.split()[1][:2]
                    counts[hour] = counts.get(hour, 0) + 1
        counts
    """,
)
def errors_by_hour(random: Random) -> Case:
    messages = ("disk full", "retry after ERROR", "ERROR page was shown", "saved", "user signed in")
    lines, counts = [], {}
    for hour in range(8, 14):
        levels = ["INFO", "WARNING", *random.choices(("ERROR", "INFO", "WARNING"), k=6), "ERROR"]
        for minute, level in enumerate(levels):
            message = messages[1] if level == "INFO" else random.choice(messages)
            lines.append(f"2024-05-01 {hour:02}:{minute:02}:{random.randint(0, 59):02} {level} {message}")
        counts[f"{hour:02}"] = levels.count("ERROR")
    return Case(inputs={"app.log": text_bytes(lines)}, answer=counts)


@GROUP.exercise(
    goal="""Answer with the sorted list of the different e-mail addresses in mail.txt. Upper and lower case do not
    matter in an address: use lower case. An address has letters, digits, dots, hyphens or underscores before the @,
    and a domain of letters, digits and hyphens with at least one dot after it. A dot at the end of a sentence belongs
    to no address.""",
    right=r"""
        import re

        with open("/input/mail.txt") as file:
            text = file.read().lower()
        sorted(set(re.findall(r"[a-z0-9._-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+", text)))
    """,
    wrong=r"""
        import re

        with open("/input/mail.txt") as file:
            text = file.read().lower()
        sorted(set(re.findall(r"[a-z0-9._-]+@[a-z0-9.-]+", text)))
    """,
)
def addresses_in_mail(random: Random) -> Case:
    names = random.sample(_WORDS, 5)
    addresses = [f"{name}.{random.choice(_WORDS)}@{random.choice(_WORDS)}-works.example.com" for name in names]
    addresses += ["info_2@shop.example.org", "a-b@mail.example.net"]
    lines = [
        f"Please write to {addresses[0].upper()}.",
        f"<{addresses[1].title()}> and {addresses[0]} know more.",
        f"Or ask {addresses[2]}, {addresses[3]}; in doubt {addresses[4]}!",
        f"We are at {addresses[5]}. Nobody is at @home or at work@ any more.",
        f"Last of all: {addresses[6]}.",
    ]
    return Case(inputs={"mail.txt": text_bytes(lines)}, answer=sorted(addresses))


@GROUP.exercise(
    goal="""guide.md is a Markdown page. Answer with the list of its headings as [level, text]: lines that begin with
    one to six # and a space. Lines inside of a code block (between two lines that begin with ```) are no headings.""",
    right="""
        import re

        headings, in_code = [], False
        with open("/input/guide.md") as file:
            for line in file.read().splitlines():
                if line.startswith("```"):
                    in_code = not in_code
                elif not in_code and (found := re.fullmatch("(#{1,6}) +(.*)", line)):
                    headings.append([len(found[1]), found[2].strip()])
        headings
    """,
    wrong="""
        import re

        with open("/input/guide.md") as file:
            lines = file.read().splitlines()
        found = [re.fullmatch("(#{1,6}) +(.*)", line) for line in lines]
        [[len(match[1]), match[2].strip()] for match in found if match]
    """,
)
def headings_of_a_page(random: Random) -> Case:
    lines, headings = ["# Guide", ""], [[1, "Guide"]]
    for number, word in enumerate(random.sample(_WORDS, 6)):
        level = random.randint(2, 4)
        headings.append([level, f"The {word}"])
        lines += [f"{'#' * level} The {word}", "", f"#{number} is a number and no heading.", ""]
        if number % 2:
            lines += ["```sh", f"# print the {word}", f"echo {word}", "```", ""]
    return Case(inputs={"guide.md": text_bytes(lines)}, answer=headings)


@GROUP.exercise(
    goal="""people.csv is a CSV file with the columns name, street and city. Some values contain commas, and are in
    double quotes for that reason. Answer with a dict that has the number of people in each city.""",
    right="""
        import csv

        counts = {}
        with open("/input/people.csv", newline="") as file:
            for row in csv.DictReader(file):
                counts[row["city"]] = counts.get(row["city"], 0) + 1
        counts
    """,
    wrong="""
        counts = {}
        with open("/input/people.csv") as file:
            next(file)
            for line in file:
                city = line.strip().split(",")[2]
                counts[city] = counts.get(city, 0) + 1
        counts
    """,
)
def commas_in_quotes(random: Random) -> Case:
    cities = ["Oslo", "Bergen", "Paris, Texas", *random.choices(("Oslo", "Bergen", "Paris, Texas"), k=9)]
    rows = [
        (f"{word.title()}, {random.choice('ABC')}." if number % 2 else word.title(), f"{word} road {number}", city)
        for number, (word, city) in enumerate(zip(_WORDS, shuffled(random, cities), strict=True))
    ]
    return Case(
        inputs={"people.csv": csv_bytes(("name", "street", "city"), rows)},
        answer={city: cities.count(city) for city in cities},
    )


@GROUP.exercise(
    goal="""letter.txt has places such as {{name}}, sometimes with spaces inside as in {{ name }}. The variable values
    is a dict. Answer with the text of the letter, in which each place is replaced by its value. Leave a place whose
    name is not in the dict exactly as it is.""",
    right=r"""
        import re

        with open("/input/letter.txt") as file:
            letter = file.read()
        re.sub(r"\{\{ *(\w+) *\}\}", lambda place: str(values.get(place[1], place[0])), letter)
    """,
    wrong=r"""
        import re

        with open("/input/letter.txt") as file:
            letter = file.read()
        re.sub(r"\{\{ *(\w+) *\}\}", lambda place: str(values.get(place[1], "")), letter)
    """,
)
def letter_with_places(random: Random) -> Case:
    values = {"name": random.choice(_WORDS).title(), "count": random.randint(2, 99), "day": "Monday"}
    letter = (
        "Dear {{name}},\nyour {{ count }} parcels come on {{day}} to {{ street }}.\nYours, {{sender}} for {{name}}\n"
    )
    answer = letter
    for name, value in values.items():
        answer = answer.replace(f"{{{{{name}}}}}", str(value)).replace(f"{{{{ {name} }}}}", str(value))
    return Case(inputs={"letter.txt": letter.encode(), "values": values}, answer=answer)


@GROUP.exercise(
    goal="""The variable chapters is a list of Roman numerals from I to MMM. Answer with the list of the numbers that
    they stand for.""",
    right="""
        values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}

        def number(numeral):
            total = 0
            for letter, following in zip(numeral, numeral[1:] + "I"):
                total += -values[letter] if values[letter] < values[following] else values[letter]
            return total

        [number(numeral) for numeral in chapters]
    """,
    wrong="""
        values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
        [sum(values[letter] for letter in numeral) for numeral in chapters]
    """,
)
def roman_numerals(random: Random) -> Case:
    numbers = shuffled(random, [4, 9, 1994, *random.sample(range(1, 3001), 9)])
    return Case(inputs={"chapters": list(map(_roman, numbers))}, answer=numbers)


def _roman(number: int) -> str:
    steps = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"))
    text = ""
    for value, letters in (*steps, (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        text += letters * (number // value)
        number %= value
    return text


@GROUP.exercise(
    goal="""old.txt and new.txt are lists with one item a line, in no order; an item may be there several times. Answer
    with a dict with the keys "added" and "removed": sorted lists of the items that new.txt has more often than old.txt,
    and less often. If an item is there three times more, it is in the list three times.""",
    right="""
        from collections import Counter

        def items(name):
            with open(f"/input/{name}") as file:
                return Counter(file.read().splitlines())

        old, new = items("old.txt"), items("new.txt")
        {"added": sorted((new - old).elements()), "removed": sorted((old - new).elements())}
    """,
    wrong="""
        def items(name):
            with open(f"/input/{name}") as file:
                return set(file.read().splitlines())

        old, new = items("old.txt"), items("new.txt")
        {"added": sorted(new - old), "removed": sorted(old - new)}
    """,
)
def changes_of_a_list(random: Random) -> Case:
    words = random.sample(_WORDS, 9)
    both = [words[0], words[0], words[1], words[2], words[3]]
    added, removed = [words[1], words[1], words[4], words[5], words[5]], [words[0], words[6], words[7]]
    return Case(
        inputs={
            "old.txt": text_bytes(shuffled(random, both + removed)),
            "new.txt": text_bytes(shuffled(random, both + added)),
        },
        answer={"added": sorted(added), "removed": sorted(removed)},
    )


@GROUP.exercise(
    goal="""The variable short is a list of abbreviations that end with a full stop. Answer with the number of sentences
    in note.txt. A sentence ends with a full stop, an exclamation mark or a question mark that ends a word; the full
    stop of an abbreviation ends no sentence, and one within a number neither.""",
    right="""
        with open("/input/note.txt") as file:
            words = file.read().split()
        sum(word[-1] in ".!?" and word not in short for word in words)
    """,
    wrong="""
        with open("/input/note.txt") as file:
            words = file.read().split()
        sum(word[-1] in ".!?" for word in words)
    """,
)
def sentences_with_abbreviations(random: Random) -> Case:
    sentences = [
        f"The {random.choice(_WORDS)} costs {random.randint(1, 9)}.{random.randint(10, 99)} euros!",
        f"Ask Dr. {random.choice(_WORDS).title()} for it.",
        f"Is the {random.choice(_WORDS)}, e.g. the old one, for sale?",
        f"We close at 5 p.m. on {random.choice(('Monday', 'Friday'))}.",
    ]
    written = [*sentences, *random.choices(sentences, k=random.randint(5, 12))]
    return Case(
        inputs={"note.txt": text_bytes(shuffled(random, written)), "short": ["Dr.", "e.g.", "p.m."]},
        answer=len(written),
    )


@GROUP.exercise(
    goal="""The variable packed is a list of texts that were packed: a number says how often the letter after it is
    repeated, and a letter without a number is there once. So "3ab12c" stands for "aaab" and 12 times "c". Answer with
    the list of the unpacked texts.""",
    right=r"""
        import re

        ["".join(letter * int(number or 1) for number, letter in re.findall(r"(\d*)(\D)", text)) for text in packed]
    """,
    wrong="""
        def unpack(text):
            result, times = "", 1
            for character in text:
                if character.isdigit():
                    times = int(character)
                else:
                    result, times = result + character * times, 1
            return result

        [unpack(text) for text in packed]
    """,
)
def packed_texts(random: Random) -> Case:
    packed, plain = [], []
    for _ in range(6):
        runs = [(random.choice("abcdxyz"), random.choice((1, 2, 3, 11, 24))) for _ in range(5)] + [("q", 13)]
        packed.append("".join(f"{count if count > 1 else ''}{letter}" for letter, count in runs))
        plain.append("".join(letter * count for letter, count in runs))
    return Case(inputs={"packed": packed}, answer=plain)


@GROUP.exercise(
    goal="""letters.txt has one date a line, each in one of three forms: 2024-03-09, 9.3.2024 or "9 March 2024". In the
    second form the day comes first. Answer with the list of all dates in the first form, sorted.""",
    right="""
        from datetime import datetime

        def date(text):
            for form in ("%Y-%m-%d", "%d.%m.%Y", "%d %B %Y"):
                try:
                    return datetime.strptime(text, form).strftime("%Y-%m-%d")
                except ValueError:
                    pass
            raise ValueError(text)

        with open("/input/letters.txt") as file:
            answer = sorted(date(line.strip()) for line in file)
        answer
    """,
    wrong="""
        from datetime import datetime

        def date(text):
            for form in ("%Y-%m-%d", "%m.%d.%Y", "%d.%m.%Y", "%d %B %Y"):
                try:
                    return datetime.strptime(text, form).strftime("%Y-%m-%d")
                except ValueError:
                    pass
            raise ValueError(text)

        with open("/input/letters.txt") as file:
            answer = sorted(date(line.strip()) for line in file)
        answer
    """,
)
def dates_in_three_forms(random: Random) -> Case:
    months = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
    days = [date(2024, 2, 11), *(date(2024, random.randint(1, 10), random.randint(1, 28)) for _ in range(14))]
    lines = [f"{days[0].day}.{days[0].month}.{days[0].year}"]
    for day in days[1:]:
        forms = (day.isoformat(), f"{day.day}.{day.month}.{day.year}", f"{day.day} {months[day.month - 1]} {day.year}")
        lines.append(random.choice(forms))
    return Case(
        inputs={"letters.txt": text_bytes(shuffled(random, lines))}, answer=sorted(day.isoformat() for day in days)
    )


@GROUP.exercise(
    goal="""The variable names is a list of names of people, some of which were typed several times: with or without
    accents, in upper or lower case, as in "José Núñez" and "jose nunez". Answer with the number of different
    people.""",
    right="""
        import unicodedata

        def plain(name):
            letters = unicodedata.normalize("NFD", name.casefold())
            return "".join(letter for letter in letters if not unicodedata.combining(letter))

        len({plain(name) for name in names})
    """,
    wrong="""
        len({name.casefold() for name in names})
    """,
)
def names_with_accents(random: Random) -> Case:
    people = [
        ("José Núñez", "jose nunez"),
        ("Zoë Brontë", "Zoe Bronte"),
        ("Øyvind Åsen", "ØYVIND ASEN"),
        ("Chloé Bézier", "chloe bezier"),
        ("Agnès Dvořák", "agnes dvorak"),
        ("Björn Müller", "Bjorn Muller"),
        ("Anna Smith", "ANNA SMITH"),
    ]
    chosen = random.sample(people, random.randint(4, 7))
    typed = [name for pair in chosen for name in pair] + [random.choice(chosen)[0] for _ in range(3)]
    return Case(inputs={"names": shuffled(random, typed)}, answer=len(chosen))


@GROUP.exercise(
    goal="""The variable words is a list of words. Words are in one group if they have the same letters, each equally
    often, such as "night" and "thing". Answer with the list of all groups of two or more words: each group sorted, and
    the groups sorted by their first word.""",
    right="""
        groups = {}
        for word in words:
            groups.setdefault("".join(sorted(word)), []).append(word)
        sorted(sorted(group) for group in groups.values() if len(group) > 1)
    """,
    wrong="""
        groups = {}
        for word in words:
            groups.setdefault(frozenset(word), []).append(word)
        sorted(sorted(group) for group in groups.values() if len(group) > 1)
    """,
)
def words_of_the_same_letters(random: Random) -> Case:
    groups = [["night", "thing"], ["listen", "silent", "enlist"], ["stone", "notes", "onset"], ["lamp", "palm"]]
    chosen = random.sample(groups, 3)
    words = [word for group in chosen for word in group] + ["see", "ese", "eses", "teem", "meet", "met", "river"]
    answer = sorted(sorted(group) for group in [*chosen, ["see", "ese"], ["teem", "meet"]])
    return Case(inputs={"words": shuffled(random, words)}, answer=answer)


@GROUP.exercise(
    goal="""The variable lines is a list of texts. Answer with the list of those that read the same backwards, if
    spaces, punctuation and upper and lower case do not matter.""",
    right="""
        def letters(text):
            return [letter.lower() for letter in text if letter.isalnum()]

        [line for line in lines if letters(line) == letters(line)[::-1]]
    """,
    wrong="""
        def letters(text):
            return [letter.lower() for letter in text if not letter.isspace()]

        [line for line in lines if letters(line) == letters(line)[::-1]]
    """,
)
def the_same_backwards(random: Random) -> Case:
    same = ["Never odd or even.", "Was it a car?! Or a cat, I saw?", "Step on no pets", "No lemon, no melon", "12:21"]
    other = [f"The {word} is level" for word in random.sample(_WORDS, 4)] + ["12:12"]
    lines = shuffled(random, [same[0], *random.sample(same[1:], 3), *other])
    return Case(inputs={"lines": lines}, answer=[line for line in lines if line in same])
