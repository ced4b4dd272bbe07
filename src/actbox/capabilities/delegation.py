"""The specification's capabilities that write code by a model: `delegate.coding_agent` and `code.refined_execute`.

Both are declared here, with the fields of the specification's sections 4.2, 6.1, 7.2 and 8. A coding agent that
somebody brings carries them out; without one an invocation says that nothing does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from .capability import Capability
from .invocation import Invocation

_TASK: Final = """
  [:task :string]
  [:language {:optional true} :string]
  [:inputs {:optional true} [:vector :string]]
  [:outputs {:optional true} [:vector :string]]
  [:constraints {:optional true} [:map]]
  [:profile {:optional true} :string]
  [:context {:optional true} [:map
    [:input_files {:optional true} [:vector [:map [:name :string] [:schema {:optional true} :string]]]]
    [:output_requirements {:optional true} [:vector :string]]
    [:constraints {:optional true} [:map]]]]
  [:examples {:optional true} [:vector [:map [:input :any] [:expected_output :any]]]]"""
_CODE: Final = """
  [:code :string]
  [:language :string]
  [:dependencies [:vector :string]]
  [:explanation :string]
  [:tests {:optional true} :string]
  [:entry_point {:optional true} :string]
  [:input_parsing {:optional true} :string]
  [:output_format {:optional true} :string]
  [:estimated_runtime_ms {:optional true} :int]"""
_RUN: Final = """
  [:input_files {:optional true} [:map :string :string]]
  [:image {:optional true} :string]
  [:timeout_ms {:optional true} :int]
  [:max_memory_mb {:optional true} :int]
  [:max_attempts {:optional true} [:and :int [:>= 1]]]"""
_ATTEMPTS: Final = """
  [:success :bool]
  [:stdout :string]
  [:stderr :string]
  [:exit_code :int]
  [:files {:optional true} [:map :string :string]]
  [:error {:optional true} :string]
  [:attempts [:vector [:map
    [:code :string]
    [:dependencies [:vector :string]]
    [:exit_code :int]
    [:error {:optional true} :string]
    [:error_type {:optional true}
      [:enum "syntax_error" "import_error" "runtime_error" "timeout" "resource_exhausted"]]]]]"""


class CodingHandler(Protocol):
    """A handler that has code written, or written and run until it works."""

    async def __call__(self, call: Invocation, /) -> Mapping[str, Any]:
        """Return the output's fields, as the capability's schema names them.

        `call.input` has the request. Count what the models take with `call.charge_tokens(model, input=…, output=…)`,
        and invoke other capabilities with `budget=call.account`. An exception fails the invocation, with its message as
        the reason.
        """


def delegate_coding_agent(agent: CodingHandler | None = None) -> Capability:
    """Return `delegate.coding_agent`, which `agent` carries out."""
    return Capability(
        "delegate.coding_agent",
        "Delegate code generation to specialized LLM",
        f"[:map {_TASK}]",
        f"[:map {_CODE}]",
        effects=("llm",),
        handler=agent,  # type: ignore[arg-type]  # every call is an `Invocation`
    )


def refined_execute(agent: CodingHandler | None = None) -> Capability:
    """Return `code.refined_execute`, which `agent` carries out: write code, run it, and correct it while it fails.

    The output has the code of the last attempt, what its run said, and all attempts.
    """
    return Capability(
        "code.refined_execute",
        "Write code for a task, run it in isolated sandbox, and correct it until it works or the attempts are used up",
        f"[:map {_TASK} {_RUN}]",
        f"[:map {_CODE} {_ATTEMPTS}]",
        effects=("llm", "compute"),
        risk="high",
        approvals=("compute",),
        handler=agent,  # type: ignore[arg-type]  # every call is an `Invocation`
    )
