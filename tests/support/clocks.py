"""Processes whose clock is wrong."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, now);
    if (!done && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += SECONDS;
    return done;
}
int gettimeofday(struct timeval *now, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int done = real(now, zone);
    if (!done) now->tv_sec += SECONDS;
    return done;
}
"""


def clock_off_by(seconds: int, folder: Path) -> dict[str, str]:
    """The environment of a process whose clock is wrong; empty where there is no C compiler to make one."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_CLOCK)
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-DSECONDS={seconds}", "-o", library, source, "-ldl"], check=True
    )
    return {"LD_PRELOAD": str(library)}
