"""A file system with an empty folder, at the folder argv[1], that answers until the file argv[2] exists. After that it
reads what the kernel asks and answers nothing, as a network file system whose server is gone. It ends when the folder
of that file is gone, or after two minutes. Returns when it is mounted; needs the permission to mount."""

import ctypes
import errno
import os
import select
import struct
import sys
import time

LOOKUP, GETATTR, STATFS, INIT, ACCESS = 1, 3, 17, 26, 34
# FORGET, INTERRUPT, BATCH_FORGET
WITHOUT_ANSWER = (2, 36, 42)


def answer(opcode):
    """The answer's errno and content."""
    if opcode == INIT:
        return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0)
    if opcode == GETATTR:
        attr = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
        # Valid for no time.
        return 0, struct.pack("<QII", 0, 0, 0) + attr
    if opcode == STATFS:
        return 0, struct.pack("<5Q4I24x", 1, 1, 1, 1, 1, 4096, 255, 4096, 0)
    if opcode == ACCESS:
        return 0, b""
    return errno.ENOENT if opcode == LOOKUP else errno.ENOSYS, b""


def serve(device, stall):
    end = time.time() + 120
    while time.time() < end and os.path.isdir(os.path.dirname(stall)):
        if not select.select([device], [], [], 0.2)[0]:
            continue
        request = os.read(device, 1 << 20)
        opcode, unique = struct.unpack_from("<IQ", request, 4)
        if opcode in WITHOUT_ANSWER or os.path.exists(stall):
            continue
        error, content = answer(opcode)
        os.write(device, struct.pack("<IiQ", 16 + len(content), -error, unique) + content)


def main():
    place, stall = (os.path.abspath(path) for path in sys.argv[1:])
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", place.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        serve(device, stall)


main()
