"""The whole contract of the kit in real machines, in Python: the first part of `tests/vm/test-hyperlight`."""

from __future__ import annotations

import pytest

from actbox.testing import SandboxContract
from tests.engines.hyperlight.in_machines import InMachines


@pytest.mark.hyperlight
class TestHyperlightInMachines(InMachines, SandboxContract):
    """The contract."""
