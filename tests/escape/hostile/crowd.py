"""Many processes that each use up a share: "sockets" or "pipes", where one process alone
may not have enough, or "fork" for a bomb that never ends by itself."""
import os
import sys
import time

import exhaust

if sys.argv[1] == "fork":
    while True:
        try:
            os.fork()
        except OSError:
            pass
for _ in range(32):
    if os.fork() == 0:
        exhaust.exhaust(exhaust.WAYS[sys.argv[1]], 1 << 20)
        time.sleep(20)
time.sleep(20)
