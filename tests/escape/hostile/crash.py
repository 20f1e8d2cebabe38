"""Dies in a way that makes the kernel dump core, after asking for as much of a dump as
it can get, and then for a limit of 0, which does not keep a helper from being called."""
import os
import resource
import signal
import sys

for limits in ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (0, 1), (0, 0)):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    except (OSError, ValueError):
        pass
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
