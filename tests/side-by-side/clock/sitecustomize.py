"""Divides waits and time limits of sockets in the recorded program by `SIDE_BY_SIDE_CLOCK`.

Python imports this module at its start. The scripted server divides its own waits by the same number, so
that minutes are recorded in seconds.
"""

import os
import socket
import time

FASTER = float(os.environ.get("SIDE_BY_SIDE_CLOCK", "1"))

if FASTER != 1:
    sleep, settimeout = time.sleep, socket.socket.settimeout
    time.sleep = lambda seconds: sleep(seconds / FASTER)
    socket.socket.settimeout = lambda self, seconds: settimeout(self, seconds and seconds / FASTER)
