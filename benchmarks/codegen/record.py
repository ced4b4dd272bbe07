"""`Record`: the outcome of one exercise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Record:
    """The outcome of one exercise. Times are in seconds.

    `attempts` has the class of error of each attempt, "" for the one that passed. `holds` says whether the program is
    right for other data too; `None` if that was not tried. `forms` has the form of each reply (`CodingResponse.form`).
    `plain_seconds` is the time that the same programs take without an agent, `None` for programs of a model. `failure`
    is the exception that ended the exercise, "" for none.
    """

    name: str
    group: str
    solved: bool = False
    holds: bool | None = None
    stopped: str = ""
    attempts: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    model_seconds: float = 0.0
    plain_seconds: float | None = None
    failure: str = ""

    @property
    def at_first(self) -> bool:
        """True if the first attempt solved the exercise."""
        return self.solved and len(self.attempts) == 1

    @property
    def tokens(self) -> int:
        """The number of tokens that the model read and wrote."""
        return self.input_tokens + self.output_tokens

    @property
    def machinery_ms(self) -> float | None:
        """The milliseconds that the agent adds to each attempt, without model and programs; `None` if unknown."""
        if self.plain_seconds is None or not self.attempts:
            return None
        return 1000 * (self.seconds - self.model_seconds - self.plain_seconds) / len(self.attempts)
