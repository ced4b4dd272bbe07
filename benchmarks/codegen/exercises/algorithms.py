"""Exercises about algorithms: graphs, searching, scheduling, simulation and counting."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

from benchmarks.codegen.exercise import Case, Group, shuffled

GROUP = Group("algorithms")


@GROUP.exercise(
    goal="""The variable roads is a list of [town, town, kilometers]; each road can be used in both directions. Answer
    with the length of the shortest way from the town "A" to the town "Z".""",
    right="""
        import heapq

        near = {}
        for one, other, length in roads:
            near.setdefault(one, []).append((other, length))
            near.setdefault(other, []).append((one, length))
        best, queue = {}, [(0, "A")]
        while queue:
            way, town = heapq.heappop(queue)
            if town not in best:
                best[town] = way
                for other, length in near[town]:
                    heapq.heappush(queue, (way + length, other))
        best["Z"]
    """,
    wrong="""
        from collections import deque

        near = {}
        for one, other, length in roads:
            near.setdefault(one, []).append((other, length))
            near.setdefault(other, []).append((one, length))
        best, queue = {"A": 0}, deque(["A"])
        while queue:
            town = queue.popleft()
            for other, length in near[town]:
                if other not in best:
                    best[other] = best[town] + length
                    queue.append(other)
        best["Z"]
    """,
)
def shortest_way(random: Random) -> Case:
    towns = ["A", *random.sample("BCDEFGHIJKLM", 5), "Z"]
    lengths = [random.randint(2, 20) for _ in range(6)]
    roads = [[one, other, length] for (one, other), length in zip(pairwise(towns), lengths, strict=True)]
    shortcuts = [["A", "Z", sum(lengths) + random.randint(1, 30)], ["A", towns[3], sum(lengths) + 5]]
    return Case(inputs={"roads": shuffled(random, roads + shortcuts)}, answer=sum(lengths))


@GROUP.exercise(
    goal="""The variable coins is a list of the values of coins, of which there is any number. Answer with the list of
    the least number of coins for each of the values in the list amounts, or None where no coins make the amount.""",
    right="""
        def fewest(amount):
            best = [0] + [None] * amount
            for value in range(1, amount + 1):
                found = [best[value - coin] for coin in coins if coin <= value and best[value - coin] is not None]
                best[value] = min(found) + 1 if found else None
            return best[amount]

        [fewest(amount) for amount in amounts]
    """,
    wrong="""
        def fewest(amount):
            count = 0
            for coin in sorted(coins, reverse=True):
                count, amount = count + amount // coin, amount % coin
            return count if amount == 0 else None

        [fewest(amount) for amount in amounts]
    """,
)
def fewest_coins(random: Random) -> Case:
    unit = random.randint(2, 6)
    coins = [unit, 6 * unit, 8 * unit]
    amounts = shuffled(random, [12 * unit, 14 * unit, 3 * unit, 25 * unit, 12 * unit + 1, 30 * unit])
    fewest = {0: 0, 3: 3, 12: 2, 14: 2, 25: 4, 30: 4}
    return Case(
        inputs={"coins": shuffled(random, coins), "amounts": amounts},
        answer=[None if amount % unit else fewest[amount // unit] for amount in amounts],
    )


@GROUP.exercise(
    goal="""The variable spans is a list of [first, last] in no order. Spans that overlap, or of which one begins with
    the number with which the other ends, belong together. Answer with the sorted list of the joined spans.""",
    right="""
        joined = []
        for first, last in sorted(spans):
            if joined and first <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], last)
            else:
                joined.append([first, last])
        joined
    """,
    wrong="""
        joined = []
        for first, last in sorted(spans):
            if joined and first <= joined[-1][1]:
                joined[-1][1] = last
            else:
                joined.append([first, last])
        joined
    """,
)
def joined_spans(random: Random) -> Case:
    spans, joined, start = [], [], 0
    for number in range(5):
        start += random.randint(3, 20)
        end = start + random.randint(10, 40)
        joined.append([start, end])
        spans += [[start, end], [start + 2, start + 5]] if number % 2 == 0 else [[start, start + 4], [start + 4, end]]
        start = end + 1
    return Case(inputs={"spans": shuffled(random, spans)}, answer=joined)


@GROUP.exercise(
    goal="""The variable needs is a dict: for each step, the list of the steps that must come before it. Answer with the
    order of all steps. Wherever several steps could come next, the first one in the alphabet comes next.""",
    right="""
        done, order = set(), []
        while len(order) < len(needs):
            following = min(step for step in needs if step not in done and done.issuperset(needs[step]))
            order.append(following)
            done.add(following)
        order
    """,
    wrong="""
        order = []

        def add(step):
            if step not in order:
                for earlier in sorted(needs[step]):
                    add(earlier)
                order.append(step)

        for step in sorted(needs):
            add(step)
        order
    """,
)
def order_of_steps(random: Random) -> Case:
    # The first step in the alphabet needs the last one, which a search in depth takes at once.
    steps = sorted(random.sample("bcdefghijklmnopqrstuvwxy", 6))
    needs = {step: random.sample(steps[:number], min(number, 2)) for number, step in enumerate(steps)}
    needs |= {"a": ["z"], "z": []}
    done: list[str] = []
    while len(done) < len(needs):
        done.append(min(step for step in needs if step not in done and set(needs[step]) <= set(done)))
    return Case(inputs={"needs": dict(shuffled(random, needs.items()))}, answer=done)


@GROUP.exercise(
    goal="""The variable things is a list of [weight, value]; each thing is there once and cannot be divided. Answer
    with the greatest value that fits into a bag for the weight in the variable limit.""",
    right="""
        best = [0] * (limit + 1)
        for weight, value in things:
            for room in range(limit, weight - 1, -1):
                best[room] = max(best[room], best[room - weight] + value)
        best[limit]
    """,
    wrong="""
        room, total = limit, 0
        for weight, value in sorted(things, key=lambda thing: thing[1] / thing[0], reverse=True):
            if weight <= room:
                room, total = room - weight, total + value
        total
    """,
)
def bag_of_things(random: Random) -> Case:
    scale, worth = random.randint(1, 4), random.randint(1, 5)
    things = [[10 * scale, 60 * worth], [20 * scale, 100 * worth], [30 * scale, 120 * worth], [45 * scale, 90 * worth]]
    return Case(inputs={"things": shuffled(random, things), "limit": 50 * scale}, answer=220 * worth)


@GROUP.exercise(
    goal="""The variable rows is a map as a list of texts: # is land, . is water. Land belongs together where it touches
    above, below, left or right. Answer with the number of islands.""",
    right="""
        land = {(y, x) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark == "#"}
        islands = 0
        while land:
            islands += 1
            edge = [land.pop()]
            while edge:
                y, x = edge.pop()
                for place in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                    if place in land:
                        land.remove(place)
                        edge.append(place)
        islands
    """,
    wrong="""
        land = {(y, x) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark == "#"}
        islands = 0
        while land:
            islands += 1
            edge = [land.pop()]
            while edge:
                y, x = edge.pop()
                for place in [(y + down, x + right) for down in (-1, 0, 1) for right in (-1, 0, 1)]:
                    if place in land:
                        land.remove(place)
                        edge.append(place)
        islands
    """,
)
def islands_on_a_map(random: Random) -> Case:
    grid = [["#" if random.random() < 0.45 else "." for _ in range(12)] for _ in range(8)]
    for y, x in product(range(4), range(4)):  # two fields that touch by a corner only, with water around
        grid[y][x] = "#" if (y, x) in ((0, 0), (1, 1)) else "."
    land = {(y, x) for y, x in product(range(8), range(12)) if grid[y][x] == "#"}
    islands = 0
    while land:
        islands += 1
        edge = {land.pop()}
        while edge:
            near = {(y + down, x + right) for y, x in edge for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1))}
            edge = near & land
            land -= edge
    return Case(inputs={"rows": ["".join(row) for row in grid]}, answer=islands)


@GROUP.exercise(
    goal="""The variable heights is a list of numbers. Answer with the length of the longest list of numbers that grow
    from one to the next and that one gets by leaving numbers out. The order stays as it is.""",
    right="""
        longest = []
        for number, height in enumerate(heights):
            before = [longest[earlier] for earlier in range(number) if heights[earlier] < height]
            longest.append(1 + max(before, default=0))
        max(longest, default=0)
    """,
    wrong="""
        longest = current = 1
        for before, height in zip(heights, heights[1:]):
            current = current + 1 if height > before else 1
            longest = max(longest, current)
        longest
    """,
)
def longest_growth(random: Random) -> Case:
    # Growing numbers with a low one after each: no two of the growing ones stand side by side.
    growing = sorted(random.sample(range(100, 900), random.randint(6, 12)))
    low = sorted(random.sample(range(1, 90), len(growing)), reverse=True)
    heights = [height for pair in zip(growing, low, strict=True) for height in pair]
    return Case(inputs={"heights": heights}, answer=len(growing))


@GROUP.exercise(
    goal="""The variable table is a list of rows of numbers, all of the same length. Answer with the list of all numbers
    in the order of a spiral: the first row from left to right, the last column downwards, the last row from right to
    left, the first column upwards, and so on inside, until each number was there once.""",
    right="""
        rows, answer = [list(row) for row in table], []
        while rows:
            answer += rows.pop(0)
            rows = [list(column) for column in zip(*rows)][::-1]
        answer
    """,
    wrong="""
        answer, top, bottom, left, right = [], 0, len(table) - 1, 0, len(table[0]) - 1
        while top <= bottom and left <= right:
            answer += table[top][left : right + 1]
            answer += [table[row][right] for row in range(top + 1, bottom + 1)]
            answer += [table[bottom][column] for column in range(right - 1, left - 1, -1)]
            answer += [table[row][left] for row in range(bottom - 1, top, -1)]
            top, bottom, left, right = top + 1, bottom - 1, left + 1, right - 1
        answer
    """,
)
def spiral(random: Random) -> Case:
    # With an odd number of rows and more columns, a single row with several numbers is left at the end.
    rows, columns = random.choice((3, 5)), random.choice((7, 8))
    table = [[random.randint(0, 99) for _ in range(columns)] for _ in range(rows)]
    left, answer = [list(row) for row in table], []
    while left:
        answer += left.pop(0)
        left = [list(column) for column in zip(*left, strict=True)][::-1]
    return Case(inputs={"table": table}, answer=answer)


@GROUP.exercise(
    goal="""The variable numbers is a sorted list, in which numbers may be there several times. Answer with the list of
    how many of its numbers are less than each of the numbers in the list limits.""",
    right="""
        from bisect import bisect_left

        [bisect_left(numbers, limit) for limit in limits]
    """,
    wrong="""
        from bisect import bisect

        [bisect(numbers, limit) for limit in limits]
    """,
)
def numbers_below(random: Random) -> Case:
    numbers = sorted(random.choices(range(50), k=60))
    limits = [numbers[7], -1, 99, *random.choices(range(50), k=6)]
    return Case(
        inputs={"numbers": numbers, "limits": limits},
        answer=[sum(number < limit for number in numbers) for limit in limits],
    )


@GROUP.exercise(
    goal="""The variable talks is a list of [start, end] in minutes. A talk may begin at the minute at which another
    ends. Answer with the greatest number of talks that one person can hear from start to end.""",
    right="""
        heard, free = 0, 0
        for start, end in sorted(talks, key=lambda talk: talk[1]):
            if start >= free:
                heard, free = heard + 1, end
        heard
    """,
    wrong="""
        heard, free = 0, 0
        for start, end in sorted(talks):
            if start >= free:
                heard, free = heard + 1, end
        heard
    """,
)
def most_talks(random: Random) -> Case:
    # A long talk begins first and ends last; the others follow each other.
    starts = [10]
    for _ in range(random.randint(4, 8)):
        starts.append(starts[-1] + random.randint(15, 60))
    short = [list(pair) for pair in pairwise(starts)]
    talks = [[0, starts[-1] + 30], *short, [short[0][0] + 1, short[1][1]]]
    return Case(inputs={"talks": shuffled(random, talks)}, answer=len(short))


@GROUP.exercise(
    goal="""The variable pairs is a list of [word, word]. Answer with the list of how many single letters one has to
    insert, remove or replace, at least, to make the one word of each pair from the other.""",
    right="""
        def changes(one, other):
            row = list(range(len(other) + 1))
            for number, letter in enumerate(one, start=1):
                before, row = row, [number]
                for place, wanted in enumerate(other, start=1):
                    row.append(min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != wanted)))
            return row[-1]

        [changes(one, other) for one, other in pairs]
    """,
    wrong="""
        def changes(one, other):
            return sum(a != b for a, b in zip(one, other)) + abs(len(one) - len(other))

        [changes(one, other) for one, other in pairs]
    """,
)
def changes_of_words(random: Random) -> Case:
    known = [("kitten", "sitting", 3), ("ladder", "adder", 1), ("stone", "tones", 2), ("paper", "paper", 0)]
    known += [("river", "rivet", 1), ("garden", "gardener", 2), ("bread", "reads", 2), ("lamp", "", 4)]
    chosen = shuffled(random, [known[1], *random.sample([known[0], *known[2:]], 5)])
    return Case(inputs={"pairs": [[one, other] for one, other, _ in chosen]}, answer=[count for *_, count in chosen])


@GROUP.exercise(
    goal="""Life is played on a board without edges: the row above the first one is the last one, and columns are joined
    in the same way. A cell with 3 living ones among its 8 neighbors lives in the next step, and a living cell with 2 of
    them lives on; all others are dead. The variable board is a list of texts, # for living and . for dead. Answer with
    the board after as many steps as the variable steps says, in the same form.""",
    right="""
        rows, columns = len(board), len(board[0])

        def following(board, y, x):
            around = [(y + i) % rows for i in (-1, 0, 1)], [(x + i) % columns for i in (-1, 0, 1)]
            living = sum(board[row][column] == "#" for row in around[0] for column in around[1])
            return "#" if living == 3 or (living == 4 and board[y][x] == "#") else "."

        for _ in range(steps):
            board = ["".join(following(board, y, x) for x in range(columns)) for y in range(rows)]
        board
    """,
    wrong="""
        rows, columns = len(board), len(board[0])

        def following(board, y, x):
            living = sum(
                board[row][column] == "#"
                for row in range(max(0, y - 1), min(rows, y + 2))
                for column in range(max(0, x - 1), min(columns, x + 2))
            )
            return "#" if living == 3 or (living == 4 and board[y][x] == "#") else "."

        for _ in range(steps):
            board = ["".join(following(board, y, x) for x in range(columns)) for y in range(rows)]
        board
    """,
)
def life_without_edges(random: Random) -> Case:
    # A glider, which moves by one field down and to the right in four steps, across the edge.
    size = random.randint(6, 9)
    glider = ((0, 1), (1, 2), (2, 0), (2, 1), (2, 2))
    moves = random.randint(2, 4)

    def board(by: int) -> list[str]:
        living = {((y + by) % size, (x + by) % size) for y, x in glider}
        return ["".join("#" if (y, x) in living else "." for x in range(size)) for y in range(size)]

    return Case(inputs={"board": board(size - 3), "steps": 4 * moves}, answer=board(size - 3 + moves))


@GROUP.exercise(
    goal="""The variable customers is a list of [arrival, minutes] in the order of arrival, the variable counters the
    number of counters of a bank. Each customer goes to the counter that is free first; of several that are free, or are
    free first, to the one with the lowest number. Answer with the list of the counters of all customers, counted from
    0.""",
    right="""
        free, answer = [0] * counters, []
        for arrival, minutes in customers:
            times = [max(time, arrival) for time in free]
            counter = times.index(min(times))
            free[counter] = times[counter] + minutes
            answer.append(counter)
        answer
    """,
    wrong="""
        free, answer = [0] * counters, []
        for arrival, minutes in customers:
            counter = free.index(min(free))
            free[counter] = max(free[counter], arrival) + minutes
            answer.append(counter)
        answer
    """,
)
def counters_of_a_bank(random: Random) -> Case:
    # The second customer comes when the first one has gone: the counter 0 is free again, as is the unused one.
    customers, arrival = [[1, 2]], 4
    for _ in range(12):
        customers.append([arrival, random.randint(3, 15)])
        arrival += random.randint(0, 5)
    counters = random.choice((2, 3))
    free, answer = [0] * counters, []
    for came, minutes in customers:
        counter = min(range(counters), key=lambda number: (max(free[number], came), number))
        free[counter] = max(free[counter], came) + minutes
        answer.append(counter)
    return Case(inputs={"customers": customers, "counters": counters}, answer=answer)


@GROUP.exercise(
    goal="""The variable lines is a list of texts with brackets of the kinds (), [] and {}, and other characters. Answer
    with a list: for each text the index of the first bracket that closes none that is open, or closes another kind than
    the one opened last; the length of the text if only closing brackets are missing; None if nothing is wrong.""",
    right="""
        pairs = {")": "(", "]": "[", "}": "{"}

        def fault(text):
            opened = []
            for place, letter in enumerate(text):
                if letter in pairs.values():
                    opened.append(letter)
                elif letter in pairs and (not opened or opened.pop() != pairs[letter]):
                    return place
            return len(text) if opened else None

        [fault(line) for line in lines]
    """,
    wrong="""
        pairs = {")": "(", "]": "[", "}": "{"}

        def fault(text):
            opened = {"(": 0, "[": 0, "{": 0}
            for place, letter in enumerate(text):
                if letter in opened:
                    opened[letter] += 1
                elif letter in pairs:
                    opened[pairs[letter]] -= 1
                    if opened[pairs[letter]] < 0:
                        return place
            return len(text) if any(opened.values()) else None

        [fault(line) for line in lines]
    """,
)
def faulty_brackets(random: Random) -> Case:
    before = "x" * random.randint(0, 5)
    crossed = (f"{before}([a)]", len(before) + 3)
    known = [("f(a[1], {b})", None), ("(a", 2), ("a)", 1), ("{[()]}]", 6), ("", None), ("[[a]", 4)]
    chosen = shuffled(random, [crossed, *random.sample(known, 5)])
    return Case(inputs={"lines": [text for text, _ in chosen]}, answer=[place for _, place in chosen])
