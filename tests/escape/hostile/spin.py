"""Burns processor time with several processes for some seconds of wall clock, after
asking for every processor and for the best place in the queue."""
import os
import sys
import time

count, seconds = int(sys.argv[1]), float(sys.argv[2])
os.sched_setaffinity(0, range(os.cpu_count()))
for attempt in (lambda: os.nice(-20), lambda: os.sched_setscheduler(
        0, os.SCHED_FIFO, os.sched_param(99))):
    try:
        attempt()
        print("got it")
    except PermissionError:
        pass
end = time.monotonic() + seconds
children = [os.fork() for _ in range(count - 1)] if count > 1 else []
while time.monotonic() < end:
    pass
