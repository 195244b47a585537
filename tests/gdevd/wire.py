# SPDX-License-Identifier: MIT
"""Control messages from Python: what the fake worker and the tests need of proto/control.h."""

import array
import errno
import fcntl
import json
import os
import socket
import struct

HELLO, WELCOME, REFUSED, ADMIN, ADMIN_REPLY, DESCRIBE, DESCRIPTION = 1, 2, 3, 4, 5, 6, 7
READY, ATTACH, ATTACHED, REGISTER, BYE = 32, 33, 34, 35, 36
MEMORY, MEMORY_REPLY, ALLOCATE, ROOM, SLOT, CHARGED, RETURN = 66, 67, 68, 69, 52, 53, 54
ACQUIRE, GRANT, REVOKE, RELEASE = 44, 45, 46, 47
EVICT, EVICTED, EASED = 48, 55, 61
EVICT_SUSPEND, EVICT_RESUME, EVICT_RETIRE, EVICT_SLOTS, EVICT_FILE, EVICT_MOVE, EVICT_LIMIT = 1, 2, 8, 16, 32, 64, 128
FOR_TURN, FOR_TURN_ALONE, TO_STAY, FOR_CONTEXT = range(4)  # enum room_purpose
ANYWHERE, IN_MEMORY, IN_FILE = range(3)  # enum slot_place
NEVER = 1 << 49  # bytes that nobody has, on the device or in swap
SHM, SHM_REPLY = 50, 51
CACHE_GET, CACHE_PUT, CACHE_COMMIT, CACHE_REPLY = 56, 57, 58, 59
EVENT_WATCH, EVENT_DONE = 64, 65
MOVE, MOVED = 100, 101
TRACE, TRACE_REPLY, TRACE_BEGIN, TRACE_END = 80, 81, 82, 83

SHM_GET, SHM_BACK, SHM_ATTACH, SHM_DETACH, SHM_STAT, SHM_SET, SHM_REMOVE, SHM_HOLD = range(1, 9)
SHM_LEAVE, SHM_WRITE, SHM_DROP, SHM_STAY, SHM_RESTORE, SHM_MAP, SHM_MOVE, SHM_CARRY = range(9, 17)
SHM_PUBLISH, SHM_FETCH = 18, 40
SHM_TRANSIENT, SHM_HOST, SHM_MAPPED, SHM_READER, SHM_PAID = 0x40000000, 0x20000000, 0x10000000, 0x08000000, 0x02000000

SESSION_BYTES = 2756608
TRACE_BYTES = 10498048
TRACE_ENABLED = 64  # offset
PAGE_COMPUTE_NS, PAGE_LONGEST_NS, PAGE_THREAD, PAGE_MAPPED, PAGE_SWAP_KEPT = 8, 128, 152, 168, 240
PAGE_REVOKE, PAGE_LOADING_SINCE = 64, 192
PAGE_STREAMS_BUSY, PAGE_ACTIVE_NS, PAGE_CONTEXT, PAGE_KEPT_BY = 56, 208, 216, 220
ARENA_BASE, ARENA_BYTES = 0x200000000000, 1 << 40

HEADER = struct.Struct("=IHHIi")
HELLO_BODY = struct.Struct("=IIQQQ4Q")
WELCOME_BODY = struct.Struct("=IIQQQ32s64s16sQ4I")
FEATURE_DEVICE_MAP, FEATURE_TUNING, FEATURE_TRACE = 1, 2, 4
WELCOME_UNTUNED_BYTES = 168
DESCRIPTION_BODY = struct.Struct("=32s64s16sQII160i")  # … memory, peers, 0, properties
READY_BODY = struct.Struct("=QQQ64s16s8QLL160i")  # … times, traits, peers, properties
PEERS = 5  # of the fake workers' devices
READY_TIMES = 2_000_000, 30_000, 250_000, 100_000, 300_000, 1_000_000, 0, 0
MEMORY_BODY = struct.Struct("=QQ")
ALLOCATE_BODY = struct.Struct("=QQQII")
ROOM_BODY = struct.Struct("=QII")
CHARGED_BODY = struct.Struct("=QQQQ")
RETURN_BODY = struct.Struct("=QQQ")
EVICTED_BODY = struct.Struct("=QII")
EVICT_BODY = struct.Struct("=QQII")
ATTACH_BYTES = 120  # of its body
GRANT_BODY = struct.Struct("=IIQQ")
SHM_BODY = struct.Struct("=IiIIQQQIIIIII16s")
MOVE_BODY = struct.Struct("=32s32sQII")
CACHE_BODY = struct.Struct("=16sQ")
EVENT_BODY = struct.Struct("=QQII")
TRACE_BODY = struct.Struct("=QQ")
TRACED_BODY = struct.Struct("=QiI32s32s32s")


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


PATIENCE = 60  # seconds, for what comes: more than gdevd lets anybody wait


def connect(path, timeout=PATIENCE):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(timeout)
    sock.connect(str(path))
    return sock


def connect_apart(path):
    """As another process, which is gone."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            try:
                with connect(path) as sock:
                    socket.send_fds(theirs, [b"x"], [sock.fileno()])
            finally:
                os._exit(0)
        theirs.close()
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(pid, 0)
    sock = socket.socket(fileno=fds[0])
    sock.settimeout(PATIENCE)
    return sock


def admin(request):
    return message(ADMIN, json.dumps(request).encode(), serial=1)


def hello(serial=7, base=ARENA_BASE, size=ARENA_BYTES, versions=(1, 1), features=3, trace=0):
    return message(HELLO, HELLO_BODY.pack(*versions, features, base, size, trace, 0, 0, 0), serial, version=0)


def allocate(size, slack=0, swap=0, purpose=TO_STAY, serial=5):
    return message(ALLOCATE, ALLOCATE_BODY.pack(size, slack, swap, purpose, 0), serial)


def swap(size, serial):
    """An object that begins its life in swap."""
    return allocate(NEVER, swap=size, serial=serial)


def room(size, purpose, serial=7):
    return message(ROOM, ROOM_BODY.pack(size, purpose, 0), serial)


def slot(size, place, serial=8):
    return message(SLOT, ROOM_BODY.pack(size, place, 0), serial)


def give_back(size=0, memory=0, file=0):
    return message(RETURN, RETURN_BODY.pack(size, memory, file))


def refused(size):
    """Given back as the driver did not have it."""
    return message(RETURN, RETURN_BODY.pack(size, 0, 0), status=-errno.ENOMEM)


def evicted(serial, retired=False, copied_ns=0, in_use=False):
    return message(EVICTED, EVICTED_BODY.pack(copied_ns, retired, in_use), serial)


def eased():
    return message(EASED, b"")


def shm(command, key=0, ident=0, flags=0, size=0, asked=None, chunk=0, first=0, chunks=0, mode=0, uid=0, gid=0,
        serial=1, token=bytes(16), status=0):
    """size: what it takes; asked: what the creator asked for, if that is less."""
    return message(SHM, SHM_BODY.pack(command, key, ident, flags, size if asked is None else asked, size, chunk, first, chunks, uid, gid,
                                      mode, 0, token), serial, status)
