"""The attempts to get out of real machines, and the contract with JavaScript in them."""

from __future__ import annotations

import pytest

from actbox import Traits
from actbox.testing import SandboxEscape
from actbox.testing.words import JavaScript, Words
from tests.engines.hyperlight.in_machines import ContractInMachines, InMachines

pytestmark = [pytest.mark.hyperlight, pytest.mark.engines]


class TestHyperlightEscape(InMachines, SandboxEscape):
    """The attempts, which are written in Python."""


class Dialect(JavaScript):
    """JavaScript that has no modules, and files by an object of that name."""

    def write(self, path: str, text: str) -> str:
        return f"files.write({self.literal(path)}, {self.literal(text)});\n"

    def read(self, path: str) -> str:
        return f"files.read({self.literal(path)})"

    def write_large(self, path: str, mebibytes: int) -> str:
        return f"files.write({self.literal(path)}, new Uint8Array({mebibytes} * 2 ** 20));\n"


class TestHyperlightJavaScript(ContractInMachines):
    """The contract."""

    backend = "javascript"

    def words_for(self, traits: Traits) -> Words:
        return Dialect()
