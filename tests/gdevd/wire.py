# SPDX-License-Identifier: MIT
"""Control messages from Python: what the fake worker and the tests need of proto/control.h."""

import array
import fcntl
import os
import socket
import struct

HELLO, WELCOME, REFUSED, ADMIN, ADMIN_REPLY = 1, 2, 3, 4, 5
READY, ATTACH, ATTACHED, REGISTER, BYE = 32, 33, 34, 35, 36
MEMORY, MEMORY_REPLY, RESIDENT, SWAP = 40, 41, 42, 43
ACQUIRE, GRANT, REVOKE, RELEASE = 44, 45, 46, 47
EVICT, EVICTED = 48, 49
EVICT_SUSPEND, EVICT_RESUME, EVICT_RETIRE, EVICT_SLOTS, EVICT_FILE, EVICT_MOVE = 1, 2, 8, 16, 32, 64
WISH_OBJECT, WISH_SLOT, WISH_MEMORY, WISH_FILE = range(4)  # of SWAP: what for
SHM, SHM_REPLY = 50, 51
CACHE_GET, CACHE_PUT, CACHE_COMMIT, CACHE_REPLY = 56, 57, 58, 59
EVENT_WATCH, EVENT_DONE = 64, 65
TRACE, TRACE_REPLY, TRACE_BEGIN, TRACE_END = 80, 81, 82, 83

SHM_GET, SHM_BACK, SHM_ATTACH, SHM_DETACH, SHM_STAT, SHM_SET, SHM_REMOVE, SHM_HOLD = range(1, 9)
SHM_LEAVE, SHM_WRITE, SHM_DROP, SHM_STAY, SHM_RESTORE, SHM_MAP, SHM_MOVE = range(9, 16)
SHM_TRANSIENT, SHM_HOST, SHM_MAPPED = 0x40000000, 0x20000000, 0x10000000

SESSION_BYTES = 2756608
TRACE_BYTES = 10498048
TRACE_ENABLED = 64  # offset
PAGE_COMPUTE_NS, PAGE_LONGEST_NS, PAGE_THREAD, PAGE_MAPPED, PAGE_SWAP_KEPT = 8, 128, 152, 168, 240
PAGE_STREAMS_BUSY, PAGE_ACTIVE_NS, PAGE_CONTEXT, PAGE_KEPT_BY = 56, 208, 216, 220
ARENA_BASE, ARENA_BYTES = 0x200000000000, 1 << 40

HEADER = struct.Struct("=IHHIi")
HELLO_BODY = struct.Struct("=IIQQQ4Q")
WELCOME_BODY = struct.Struct("=IIQQQ32s64s16sQ4I")
FEATURE_DEVICE_MAP, FEATURE_TUNING, FEATURE_TRACE = 1, 2, 4
WELCOME_UNTUNED_BYTES = 168
READY_BODY = struct.Struct("=QQQ64s16s")
MEMORY_BODY = struct.Struct("=qQQ")
EVICT_BODY = struct.Struct("=QQII")
GRANT_BODY = struct.Struct("=IIQQ")
SHM_BODY = struct.Struct("=IiIIQQIIIIII16s")
CACHE_BODY = struct.Struct("=16sQ")
EVENT_BODY = struct.Struct("=QQII")
TRACE_BODY = struct.Struct("=QQ")
TRACED_BODY = struct.Struct("=QiI32s32s")


def message(kind, body=b"", serial=0, status=0, version=1, length=None):
    if length is None:
        length = HEADER.size + len(body)
    return HEADER.pack(length, kind, version, serial, status) + body


def send(sock, data, fds=()):
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([data], control)


def receive(sock):
    """(type, serial, status, body, fds); type None at the end of file."""
    data, control, _flags, _address = sock.recvmsg(65536, socket.CMSG_SPACE(128 * 4))
    fds = array.array("i")
    for level, kind, piece in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(piece[: len(piece) - len(piece) % 4])
    if not data:
        return None, 0, 0, b"", list(fds)
    _length, kind, _version, serial, status = HEADER.unpack(data[: HEADER.size])
    return kind, serial, status, data[HEADER.size :], list(fds)


def sealed_memfd(size, name="test"):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    F_ADD_SEALS = 1033
    fcntl.fcntl(fd, F_ADD_SEALS, 1 | 2 | 4)
    return fd


def connect(path, timeout=10):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(timeout)
    sock.connect(str(path))
    return sock


def hello(serial=7, base=ARENA_BASE, size=ARENA_BYTES, versions=(1, 1), features=3, trace=0):
    return message(HELLO, HELLO_BODY.pack(*versions, features, base, size, trace, 0, 0, 0), serial, version=0)


def shm(command, key=0, ident=0, flags=0, size=0, chunk=0, first=0, chunks=0, mode=0, uid=0, gid=0,
        serial=1, token=bytes(16), status=0):
    return message(SHM, SHM_BODY.pack(command, key, ident, flags, size, chunk, first, chunks, uid, gid,
                                      mode, 0, token), serial, status)
