# SPDX-License-Identifier: MIT
"""Being another user."""

import contextlib
import os


@contextlib.contextmanager
def user(uid, *groups):
    """What is done, sent and made here is that user's."""
    before = os.getgroups()
    os.setgroups(groups)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)
