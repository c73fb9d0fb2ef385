"""A line that plays the server's part from a transcript: what must come, and what goes back."""

from __future__ import annotations

from vendors.salto.pms_line import LineBroken

HANG_UP = "hang up"
SILENCE = "silence"


class ScriptedLine:
    """`script` is a list of (expected bytes, answers); an answer is bytes, HANG_UP or SILENCE."""

    def __init__(self, *script: tuple[bytes, list[bytes | str]]) -> None:
        self.script = list(script)
        self.answers: list[bytes | str] = []
        self.sent: list[bytes] = []
        self.is_closed = False

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        assert self.script, f"nothing more was expected, but {data.hex(' ')} came"
        expected, answers = self.script.pop(0)
        assert data == expected, f"{data.hex(' ')} came instead of {expected.hex(' ')}"
        self.answers += answers

    def receive(self, timeout_s: float) -> bytes:
        if not self.answers:
            raise AssertionError("the driver waits for what the script does not hold")
        answer = self.answers.pop(0)
        if answer == HANG_UP:
            raise LineBroken("hung up")
        return b"" if answer == SILENCE else bytes(answer)  # type: ignore[arg-type]

    def close(self) -> None:
        self.is_closed = True

    @property
    def is_spent(self) -> bool:
        return not self.script and not self.answers
