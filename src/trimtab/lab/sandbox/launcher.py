"""Become another program that dies with its parent: `launcher.py PARENT_PID PROGRAM ARGUMENT...`.

Run as a file of its own by a bare Python, so that nothing of ours happens between fork and exec in the
parent, which may hold threads and locks. Only Linux has the death signal; elsewhere the program just runs.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(sys.argv[1]):
            sys.exit("the parent was gone before its child began")
    os.execv(sys.argv[2], sys.argv[2:])
