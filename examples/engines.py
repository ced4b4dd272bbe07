"""One program on every engine: with a tool, a file that goes in, a file that comes out, and an error.

To change what stands between the program and this machine is to change one word.

    python examples/engines.py           on every engine that works here
    python examples/engines.py wasm      on this one

The ssh engine is not shown, as it needs a machine to connect to. Neither are node and rtfs: they run other languages.
"""

import asyncio
import sys

import actbox

ENGINE = "all"  # or one word: linux, container, process, wasm, monty, hyperlight

ORDERS = "tea,3\ncoffee,2\ncake,12\n"

PROGRAM = """
total = 0.0
for line in open("input/orders.csv").read().splitlines():
    product, amount = line.split(",")
    total = total + price(product) * int(amount)
with open("output/total.txt", "w") as file:
    file.write(f"{total:.2f} euros")
print("the total is", total)
total
"""

MISTAKE = """
stock = {"tea": 4}
print("there is tea:", stock["tea"])
print("there is milk:", stock["milk"])
"""


def price(product: str) -> float:
    """Return what one of a product costs, in euros. This function runs here, not in the sandbox."""
    return {"tea": 2.5, "coffee": 3.0, "cake": 1.25}[product]


async def show(engine: str) -> None:
    async with actbox.open_sandbox(engine, allow_unisolated=True) as box:
        print(f"── {engine}: {box.traits.isolation}")
        result = await box.run(actbox.Program(PROGRAM, files={"orders.csv": ORDERS}), tools=[price])
        print("  printed: ", result.stdout.strip())
        print("  value:   ", result.value)
        for artifact in result.artifacts:
            print("  file:    ", artifact.name, "with", artifact.data.decode())
        failed = await box.run(MISTAKE)
        if failed.error is not None:
            where = f"line {failed.error.line}" if failed.error.line else "a line that it does not say"
            print("  error:   ", f"{failed.error.kind.value}: {failed.error.message} in {where}")
            print("  kept:    ", failed.stdout.strip() or "nothing of what was printed before")


async def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ENGINE
    engines = actbox.ENGINES_OF["python"]  # those of other languages take other programs
    if wanted not in ("all", *engines):
        sys.exit(f"{wanted} runs no Python; these do: {', '.join(engines)}, or all")
    for engine in engines if wanted == "all" else [wanted]:
        found = actbox.check(engine)
        if found.works:
            await show(engine)
        else:
            print(f"── {engine} does not work here: {found.reason}")
            print("  to do:   ", found.advice)


if __name__ == "__main__":
    asyncio.run(main())
