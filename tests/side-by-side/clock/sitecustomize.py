"""A clock that is `SIDE_BY_SIDE_CLOCK` times as fast, for the program that is recorded.

Python imports this by itself at its start. Waits and the time limits of sockets are divided, so that
minutes are recorded in seconds; the scripted server divides its own waits by the same number.
"""

import os
import socket
import time

FASTER = float(os.environ.get("SIDE_BY_SIDE_CLOCK", "1"))

if FASTER != 1:
    sleep, settimeout = time.sleep, socket.socket.settimeout
    time.sleep = lambda seconds: sleep(seconds / FASTER)
    socket.socket.settimeout = lambda self, seconds: settimeout(self, seconds and seconds / FASTER)
