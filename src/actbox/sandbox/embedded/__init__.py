"""What engines share whose programs run in an interpreter that a library embeds, and not in a guest of ours.

`sandbox.py` is the contract but for one hook, how a program is evaluated; `evaluation.py` is what that hook is given
and gives; `running.py` is one run; `calls.py` answers its tool calls, `http.py` its requests to hosts, by the function
that `http_face.py` describes; `session.py` is a session.
"""

from .calls import CallRefused, HostCalls
from .evaluation import Evaluation, Outcome, State
from .sandbox import EmbeddedSandbox

__all__ = ["CallRefused", "EmbeddedSandbox", "Evaluation", "HostCalls", "Outcome", "State"]
