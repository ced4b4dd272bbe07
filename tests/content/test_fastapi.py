"""A result is what an endpoint of FastAPI may return."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import actbox
from actbox import Artifact, ErrorInfo, ErrorKind, ExecutionResult

if TYPE_CHECKING:  # the first test imports it, which takes long
    from starlette.testclient import TestClient

PICTURE = b"\x89PNG\r\n\x1a\n\xff"


def served(result: ExecutionResult) -> tuple[dict, TestClient]:
    import fastapi
    from starlette.testclient import TestClient

    app = fastapi.FastAPI()

    @app.get("/run")
    async def run() -> ExecutionResult:
        return result

    client = TestClient(app)
    return client.get("/run").raise_for_status().json(), client


def test_a_result_that_an_endpoint_returns_is_the_document_of_the_result():
    error = ErrorInfo(kind=ErrorKind.RUNTIME, type="KeyError", message="'x'", line=2)
    result = ExecutionResult(
        stdout="hi",
        exit_code=1,
        value_forms={"image/png": PICTURE, "text/html": "<b>1</b>"},
        error=error,
        artifacts=(Artifact("chart.png", PICTURE),),
        warnings=("careful",),
    )
    document, _ = served(result)
    assert document == result.to_dict()
    assert ExecutionResult.from_dict(document) == result
    assert base64.b64decode(document["artifacts"][0]["data"]) == PICTURE


def test_a_run_can_be_served_and_its_schema_too():
    document, client = served(actbox.run("print(6 * 7)\n{'seven': 7}"))
    assert (document["stdout"], document["value"], document["success"]) == ("42\n", {"seven": 7}, True)
    schema = client.get("/openapi.json").raise_for_status().json()
    answer = schema["paths"]["/run"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert "stdout" in str(answer) or "ExecutionResult" in str(answer)
