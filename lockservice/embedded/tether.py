"""Runs a command that dies with its parent: `tether.py PARENT_PID SIGNAL COMMAND...`.

The one rule: standard library only and no import of the project, since it runs in front of
every process that the supervisor starts. Linux only (`prctl(2)`, PR_SET_PDEATHSIG).
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent_pid, death_signal, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have ended before the line above; then nobody would ever signal us.
    if os.getppid() != parent_pid:
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - the command is the supervisor's own


main()
