"""Leaves a process that wants to live on: forked twice, leader of its own session, with
no descriptor open, deaf to every signal. The first argument marks it, for those who
look for it outside; the second says what the rest of us does then."""
import os
import signal
import sys
import time

marker, then = sys.argv[1:3]
# Said first: who sees the orphan outside may end us at once.
print("started", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 1024)
        os.execv("/usr/bin/sleep", ["orphan-" + marker, "3600"])
    os._exit(0)
os.wait()
if then == "spin":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
if then == "stop":
    os.kill(os.getpid(), signal.SIGSTOP)
if then == "wait":
    sys.stdin.read()
time.sleep(0.1)
