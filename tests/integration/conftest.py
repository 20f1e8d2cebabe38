"""`jar`: the program with a state directory of its own, and the proof that nothing of
it is left when the test is over: no process, no registered keeper."""
import contextlib
import os
import signal

import pytest

from jar import Jar


@pytest.fixture
def jar(belljar):
    it = Jar(belljar)
    yield it
    it.close()
    try:
        it.assert_nothing_left()
    finally:
        for pid in it.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
