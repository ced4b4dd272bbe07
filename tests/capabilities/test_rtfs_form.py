"""Capabilities are read from their RTFS form and written in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actbox.capabilities import Budget, Capability, Label, Resources, Runtime, standard_registry
from actbox.core.errors import InvalidValue

# The text of section 6.1 of "CCOS Code Generation and Execution Architecture", unchanged.
SPECIFIED = (Path(__file__).parent / "execution_capabilities.rtfs").read_text()
FULL = """
(capability "reports.send"
  :description "Send a \\"report\\""
  :version "2.1.0"
  :input-schema [:map [:to :string] [:kind [:enum :daily :weekly]]]
  :output-schema :bool
  :runtime {:type :microvm :image "mail"}
  :effects [:network :state]
  :risk :high
  :approval [:compute :mail]
  :resources {:memory-mb 256 :timeout-ms 5000}
  :resource-estimates {:usd 0.5 :tool-calls 2}
  :filesystem "/workspace"
  :network ["https://mail.example.com"]
  :secrets ["smtp"]
  :data "internal+pii.email"
  :retry-safe true)
"""


def required(capability: Capability) -> object:
    return capability.input_schema.to_json().get("required", [])


def test_the_specified_capabilities_are_read() -> None:
    python, javascript, rtfs, delegate = Capability.all_from_rtfs(SPECIFIED)

    assert python.id == "ccos.execute.python"
    assert python.description == "Execute Python code in isolated sandbox"
    assert python.input_schema.fields == ("code", "inputs", "dependencies", "image", "timeout_ms")
    assert required(python) == ["code"]
    assert python.output_schema.fields == ("stdout", "stderr", "exit_code", "files", "error")
    assert python.output_schema.to_json()["properties"]["files"] == {
        "type": "object",
        "additionalProperties": {"type": "string", "contentEncoding": "base64"},
    }
    assert python.runtime == Runtime("container")
    assert python.runtime.engines == ("linux", "container")
    assert python.effects == ("compute",)
    assert python.resources == Resources(memory_mb=512, timeout_ms=30000)

    assert javascript.id == "ccos.execute.javascript"
    assert javascript.description == "Execute Node.js code in isolated sandbox"
    assert javascript.input_schema.fields == ("code", "inputs", "dependencies")
    assert javascript.output_schema.fields == ("stdout", "stderr", "exit_code")
    assert javascript.runtime == Runtime("container", image="nodejs-tools")
    assert javascript.effects == ("compute",)
    assert javascript.resources == Resources()

    assert rtfs.id == "ccos.execute.rtfs"
    assert rtfs.description == "Evaluate an RTFS expression"
    assert rtfs.input_schema.fields == ("expression", "bindings")
    assert rtfs.output_schema.to_json() == {}
    assert rtfs.runtime.engines == ("rtfs",)
    assert rtfs.effects == ()

    assert delegate.id == "ccos.delegate.coding_agent"
    assert delegate.description == "Delegate code generation to specialized LLM"
    assert delegate.input_schema.fields == ("task", "language", "inputs", "outputs", "constraints")
    assert required(delegate) == ["task"]
    assert delegate.output_schema.fields == ("code", "language", "dependencies", "explanation", "tests")
    assert delegate.runtime == Runtime("host")
    assert delegate.effects == ("llm",)


def test_every_key_is_read() -> None:
    capability = Capability.from_rtfs(FULL)
    assert capability == Capability(
        "reports.send",
        'Send a "report"',
        {
            "type": "object",
            "properties": {"to": {"type": "string"}, "kind": {"enum": ["daily", "weekly"]}},
            "required": ["to", "kind"],
        },
        {"type": "boolean"},
        version="2.1.0",
        runtime=Runtime("microvm", image="mail"),
        effects=("network", "state"),
        risk="high",
        approvals=("compute", "mail"),
        resources=Resources(memory_mb=256, timeout_ms=5000),
        estimates=Budget(usd=0.5, tool_calls=2),
        filesystem=("/workspace",),
        network=("https://mail.example.com",),
        secrets=("smtp",),
        data=Label("pii.email", "internal"),
        retry_safe=True,
    )


@pytest.mark.parametrize(
    "text",
    [
        SPECIFIED,
        FULL,
        '(capability "a" :input-schema [:map] :approval nil :network false)',
        '(capability "a" :input-schema [:map] :approval ["1" "b.c" "-"])',
    ],
)
def test_what_is_written_reads_as_the_same_capabilities(text: str) -> None:
    for capability in Capability.all_from_rtfs(text):
        written = capability.to_rtfs()
        assert Capability.from_rtfs(written) == capability
        assert Capability.from_rtfs(written).to_rtfs() == written


def test_every_standard_capability_can_be_written() -> None:
    for capability in standard_registry().list():
        assert Capability.from_rtfs(capability.to_rtfs()) == capability


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(capability)", 'line 1, column 1: a capability is (capability "id"'),
        ("[1]", 'a capability is (capability "id"'),
        ("(capability a)", "the id of a capability is a string"),
        ('(capability "a" "b")', "a keyword belongs here"),
        ('(capability "a" :descripton "b")', "has no key 'descripton'; did you mean 'description'?"),
        ('(capability "a"\n :input_schema :any)', "line 2, column 2: a capability has no key 'input_schema'; did you"),
        ('(capability "a" :risk :low :risk :low)', "the key :risk stands twice"),
        ('(capability "a" :risk)', "the key :risk has no value"),
        ('(capability "a" :input-schema [:map] :risk :lo)', "there is no risk 'lo'; did you mean 'low'?"),
        ('(capability "a" :input-schema [:map] :risk [])', "there is no risk '[]'; there are low"),
        ('(capability "a" :input-schema [:map] :effects [:computing])', "did you mean 'compute'?"),
        ('(capability "a" :input-schema [:map] :runtime {:type :containr})', "did you mean 'container'?"),
        ('(capability "a" :runtime {:tpye :wasm})', "runtime has no key 'tpye'; did you mean 'type'?"),
        ('(capability "a" :runtime :wasm)', "the value of :runtime is a map"),
        ('(capability "a" :resources {:memory 5})', "did you mean 'memory-mb'?"),
        ('(capability "a" :resources {:memory-mb 0})', "Resources.memory_mb is a whole number above 0"),
        ('(capability "a" :resource-estimates {:usd -1})', "Budget.usd is a number from 0"),
        ('(capability "a" :input-schema [:map] :network "*")', "*"),
        ('(capability "a" :input-schema [:map] :filesystem {:mode :ro})', "filesystem of a is a tuple of texts"),
        ('(capability "a" :input-schema [:map] :description (f x))', "description of a is a str"),
        ('(capability "a" :description `x)', "is no literal"),
        ('(capability "a" :input-schema :int)', "the input of a is an object"),
        ('(capability "a" :input-schema [:map] :output-schema [:fn [] :int])', "a function has no JSON"),
        ('(capability "a" :risk :low)', "the key :input-schema is missing"),
        ('(capability "A" :input-schema [:map])', "a capability's id is a name such as 'execute.python'"),
        ('(capability "a"', "the capability cannot be read: line 1"),
        ("", "one capability is one form, and this text has 0"),
    ],
)
def test_a_form_that_is_no_capability_is_an_error_that_says_why(text: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(message)):
        Capability.from_rtfs(text)
