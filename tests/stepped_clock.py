"""A wall clock that a test sets, for a process and all its children, without touching the machine's own.

A library before libc (LD_PRELOAD, ld.so(8)) adds to what the kernel says a number of seconds from a file, which every
process maps: a step is a write to it. Only the wall clock is set, as by NTP or a person.
"""

from __future__ import annotations

import struct
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run

HOUR_S, YEAR_S = 3_600, 31_536_000
FILE = "NFV_TEST_CLOCK"
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void look(void)
{
	const char *path = getenv("NFV_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *mapped = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	ahead = mapped == MAP_FAILED ? NULL : mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, now);

	if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *ahead;
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *told)
{
	struct timespec precise;

	clock_gettime(CLOCK_REALTIME, &precise);
	if (told)
		*told = precise.tv_sec;
	return precise.tv_sec;
}
"""


def make(directory: Path) -> dict[str, str]:
    """Compile it; the variables of processes whose clock ``step`` sets."""
    source, library, ahead = (directory / name for name in ("clock.c", "clock.so", "clock"))
    source.write_text(_SOURCE, encoding="ascii")
    run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], deadline_s=60)
    ahead.write_bytes(struct.pack("=q", 0))
    return {"LD_PRELOAD": str(library), FILE: str(ahead)}


def step(ahead: Path, seconds: int) -> None:
    """Set the clock by so much, against the machine's own. In place: it is mapped."""
    with ahead.open("r+b") as file:
        file.write(struct.pack("=q", seconds))
