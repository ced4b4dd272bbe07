"""The common parts of engines that run programs in an embedded interpreter, not in actbox's guest.

`host.py` is the contract and its sessions, for programs without files; `running.py` is one run. For interpreters of a
library, `sandbox.py` adds the files, `evaluation.py` the data exchanged with the library, `calls.py` answers tool
calls, and `http.py` answers requests to hosts, through the function that `http_request.py` describes.
"""

from .calls import CallRefused, HostCalls
from .evaluation import Evaluation, State
from .running import Outcome
from .sandbox import EmbeddedSandbox

__all__ = ["CallRefused", "EmbeddedSandbox", "Evaluation", "HostCalls", "Outcome", "State"]
