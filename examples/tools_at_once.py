"""Host tools, called from inside: one by one in plain code, all at once with `asyncio.gather`."""

import asyncio

import actbox


@actbox.tool
async def fetch_price(item: str) -> float:
    """Ask a (slow) service for a price."""
    await asyncio.sleep(0.2)
    return float(len(item))


PLAIN = "[fetch_price(item) for item in items]"
AT_ONCE = "import asyncio\nawait asyncio.gather(*(fetch_price(item) for item in items))"


async def main() -> None:
    """Run both and compare."""
    items = ["tea", "coffee", "cake", "bread", "milk"]
    async with actbox.open_sandbox() as box:
        for name, code in (("one by one", PLAIN), ("at once", AT_ONCE)):
            result = await box.run(actbox.Program(code, inputs={"items": items}), tools=[fetch_price])
            print(f"{name}: {result.value} in {result.usage.wall_ms:.0f} ms")


asyncio.run(main())
