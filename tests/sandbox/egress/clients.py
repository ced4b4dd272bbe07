"""A client that a program might use, run as a process of its own: `python clients.py CLIENT URL [METHOD]`.

Prints JSON: status and body, or the text of the error.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request


def use_urllib(url: str, method: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def use_requests(url: str, method: str) -> tuple[int, str]:
    import requests

    with requests.Session() as session:
        answer = session.request(method, url, timeout=60)
        return answer.status_code, answer.text


def use_httpx(url: str, method: str) -> tuple[int, str]:
    import httpx

    with httpx.Client(timeout=60, follow_redirects=True) as client:
        answer = client.request(method, url)
        return answer.status_code, answer.text


def use_aiohttp(url: str, method: str) -> tuple[int, str]:
    import aiohttp

    async def ask() -> tuple[int, str]:
        async with aiohttp.ClientSession(trust_env=True) as session:
            async with session.request(method, url) as answer:
                return answer.status, await answer.text()

    return asyncio.run(ask())


def main() -> None:
    client, url, *method = sys.argv[1:]
    try:
        status, body = globals()[f"use_{client}"](url, *(method or ["GET"]))
        print(json.dumps({"status": status, "body": body}))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))


if __name__ == "__main__":
    main()
