/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check.h"
#include "nic.h"

/* What vmxnet3 does: it fills two rings a queue as far as the pool reaches, and leaves one descriptor of each free. */
static uint32_t left_by_two_rings(uint32_t buffers, uint32_t descriptors)
{
	uint32_t wanted = 2 * (descriptors - 1);

	return buffers > wanted ? buffers - wanted : 0;
}

static void test_two_rings_a_queue(void)
{
	struct port_config config = {.queues = 1, .device = "0000:03:00.0"};

	for (uint16_t descriptors = 256; descriptors <= 4096; descriptors *= 2) {
		CHECK(nic_rx_buffers(&config, descriptors, 1) == descriptors + 128u);
		CHECK(!nic_rings_are_full(left_by_two_rings(nic_rx_buffers(&config, descriptors, 1), descriptors)));
		CHECK(nic_rings_are_full(left_by_two_rings(nic_rx_buffers(&config, descriptors, 2), descriptors)));
	}
}

static void test_one_ring_a_queue(void)
{
	struct port_config config = {.queues = 4, .device = "net_tap"};

	/* net_tap takes one more than its descriptors. */
	CHECK(nic_rings_are_full(nic_rx_buffers(&config, 1024, 1) - 4 * 1025));
	CHECK(!nic_rings_are_full(0));
	CHECK(nic_tx_buffers(&config, 512) == 4 * 512 + 8 * 32 + 128);
	config.role = ROLE_FORWARDER;
	CHECK(nic_rx_buffers(&config, 1024, 1) == 4 * 3 * 1024 + 128);
}

static void test_a_counter_that_a_driver_lacks_is_missing(void)
{
	CHECK(nic_known("net_vmxnet3") == (1 << NIC_RX_MISSED | 1 << NIC_RX_ERRORS | 1 << NIC_TX_ERRORS));
	CHECK(nic_known("net_af_packet") & 1 << NIC_TX_ERRORS);
	CHECK(!(nic_known("net_af_packet") & 1 << NIC_RX_ERRORS));
	CHECK(nic_known("net_e1000_igb") == (1 << NIC_COUNTERS) - 1);
	CHECK(nic_known("net_e1000_igb_vf") == 1 << NIC_RX_NOMBUF);
	CHECK(nic_known("net_virtio") == (1 << NIC_RX_ERRORS | 1 << NIC_RX_NOMBUF));
	CHECK(nic_known("net_ring") == 0);
	CHECK(nic_known("net_af_xdp") == 1 << NIC_RX_MISSED);
	CHECK(nic_known("net_tap") == (1 << NIC_RX_ERRORS | 1 << NIC_RX_NOMBUF));
	CHECK(strcmp(nic_counter_name(NIC_RX_MISSED), "rx_missed") == 0);
	CHECK(strcmp(nic_counter_name(NIC_RX_NOMBUF), "rx_nombuf") == 0);
}

int main(void)
{
	test_two_rings_a_queue();
	test_one_ring_a_queue();
	test_a_counter_that_a_driver_lacks_is_missing();
	return 0;
}
