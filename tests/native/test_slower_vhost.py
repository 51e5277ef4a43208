"""The planted slowdown of the benchmark of bisections (benchmarks/slower_vhost.c), before a stand-in for DPDK."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "benchmarks" / "slower_vhost.c"
DPDK = """
#include <stdint.h>
struct rte_mbuf;
struct rte_mempool;
uint16_t rte_vhost_dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **frames,
                                 uint16_t most);
uint16_t rte_vhost_dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **frames,
                                 uint16_t most)
{
    (void)pool;
    (void)frames;
    return vid == 7 && queue == 1 ? most - 2 : 0;
}
"""
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
struct rte_mbuf;
struct rte_mempool;
uint16_t rte_vhost_dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **frames,
                                 uint16_t most);
int main(void)
{
    printf("%d %d\\n", rte_vhost_dequeue_burst(7, 1, NULL, NULL, 32), rte_vhost_dequeue_burst(7, 0, NULL, NULL, 32));
    return 0;
}
"""
OPTIONS = ("-O2", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(params=[(), ("-fsanitize=address,undefined",)], ids=["plain", "sanitized"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Linked with the slowdown before DPDK's stand-in: as preloaded, and a sanitizer may come first."""
    (tmp_path / "dpdk.c").write_text(DPDK)
    (tmp_path / "program.c").write_text(PROGRAM)
    options = (*OPTIONS, *request.param)
    for name, source in (("dpdk", tmp_path / "dpdk.c"), ("slower", SOURCE)):
        made = str(tmp_path / f"lib{name}.so")
        subprocess.run(["cc", "-shared", "-fPIC", *options, "-o", made, str(source), "-ldl"], check=True)
    libraries = [f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-Wl,--no-as-needed", "-lslower", "-ldpdk"]
    made = str(tmp_path / "program")
    subprocess.run(["cc", *options, "-o", made, str(tmp_path / "program.c"), *libraries], check=True)
    return Path(made)


def test_frames_go_where_they_went(program: Path) -> None:
    environment = {**os.environ, "NFVPERF_ADDITIONS": "3"}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("30 0\n", "")


def test_each_frame_costs_so_many_additions(program: Path) -> None:
    """Thirty frames of ten million additions: no CPU makes them in less than 20 ms."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([str(program)], env={**os.environ, "NFVPERF_ADDITIONS": "10000000"}, check=True)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before > 0.02


def test_without_a_number_the_program_does_not_start(program: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NFVPERF_ADDITIONS"}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("slower_vhost: NFVPERF_ADDITIONS is not set, or the program has no ")
