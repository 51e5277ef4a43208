/* SPDX-License-Identifier: Apache-2.0 */
/* nfvperf-gen: a traffic generator on DPDK ports, driven by JSON lines. */
#include "control.h"
#include "startup.h"

int main(int argc, char **argv)
{
	static struct engine engine;

	if (!startup(&engine, argc, argv))
		return 1;
	control_loop(&engine);
	shutdown_engine(&engine);
	return 0;
}
