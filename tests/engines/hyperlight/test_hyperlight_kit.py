"""The whole contract of the kit in real machines, in Python: the first part of `tests/vm/test-hyperlight`."""

from __future__ import annotations

import pytest

from tests.engines.hyperlight.in_machines import ContractInMachines


@pytest.mark.hyperlight
@pytest.mark.engines
class TestHyperlightInMachines(ContractInMachines):
    """The contract."""
