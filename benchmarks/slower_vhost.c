/* SPDX-License-Identifier: Apache-2.0
 *
 * A planted slowdown. Preloaded into ovs-vswitchd, it lets each frame that comes in from a vhost-user port cost so many
 * additions more as NFVPERF_ADDITIONS says, each of which needs the one before. DPDK's own function takes the frames
 * (rte_vhost.h), and they go where they went before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct rte_mbuf;
struct rte_mempool;

typedef uint16_t dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **frames,
			       uint16_t most);

dequeue_burst rte_vhost_dequeue_burst;

static dequeue_burst *real;
static uint64_t additions;

__attribute__((constructor)) static void find_dpdk(void)
{
	const char *said = getenv("NFVPERF_ADDITIONS");
	void *found = dlsym(RTLD_NEXT, "rte_vhost_dequeue_burst");

	if (said == NULL || found == NULL) {
		fputs("slower_vhost: NFVPERF_ADDITIONS is not set, or the program has no rte_vhost_dequeue_burst\n", stderr);
		exit(1);
	}
	*(void **)&real = found; /* POSIX's way to make a function of what dlsym found */
	additions = strtoull(said, NULL, 10);
}

uint16_t rte_vhost_dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **frames,
				 uint16_t most)
{
	uint16_t taken = real(vid, queue, pool, frames, most);
	uint64_t sum = taken;

	for (uint64_t left = taken * additions; left > 0; left--)
		__asm__ volatile("add $1, %0" : "+r"(sum));
	return taken;
}
