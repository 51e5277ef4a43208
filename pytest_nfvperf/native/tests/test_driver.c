/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check.h"
#include "driver.h"

static struct port_config config = {
	.mac = {{2, 0, 0, 0, 0, 0x1f}}, .queues = 2, .tx_descriptors = 512, .rx_descriptors = 1024};

static void check(const char *device, const char *wanted, const char *wanted_name)
{
	char devargs[MAX_DEVARGS];
	char name[MAX_DEVARGS];

	snprintf(config.device, sizeof(config.device), "%s", device);
	CHECK(devargs_expand(&config, 7, devargs, name, sizeof(devargs)));
	if (strcmp(devargs, wanted) != 0 || strcmp(name, wanted_name) != 0) {
		fprintf(stderr, "%s became %s named %s\n", device, devargs, name);
		exit(1);
	}
}

static void test_expand(void)
{
	check("net_virtio_user,path=/x/p0.sock,server=1",
	      "net_virtio_user7,path=/x/p0.sock,server=1,mac=02:00:00:00:00:1f,queue_size=1024,queues=2,cq=1", "net_virtio_user7");
	check("net_virtio_user,path=/x,queue_size=256,mac=02:00:00:00:00:01",
	      "net_virtio_user7,path=/x,queue_size=256,mac=02:00:00:00:00:01,queues=2,cq=1", "net_virtio_user7");
	check("net_vhost,iface=/x", "net_vhost7,iface=/x,queues=2", "net_vhost7");
	check("net_af_packet,iface=veth0", "net_af_packet7,iface=veth0", "net_af_packet7");
	check("net_ring", "net_ring7", "net_ring7");
	check("0000:3b:00.0,representor=1", "0000:3b:00.0,representor=1", "0000:3b:00.0");
}

static void test_value(void)
{
	char value[8];

	CHECK(devargs_value("net_x,server=1,path=/a", "server", value, sizeof(value)) && strcmp(value, "1") == 0);
	CHECK(devargs_value("net_x,server=1,path=/a", "path", value, sizeof(value)) && strcmp(value, "/a") == 0);
	CHECK(!devargs_value("net_x,myserver=1", "server", value, sizeof(value)));
	CHECK(!devargs_value("net_x", "server", value, sizeof(value)));
}

static void test_virtual(void)
{
	CHECK(devargs_virtual("net_virtio_user,path=/x") && devargs_virtual("eth_af_xdp0"));
	CHECK(!devargs_virtual("0000:3b:00.0,representor=net_1"));
}

static void test_back_pressure(void)
{
	CHECK(devargs_back_pressure("net_virtio_user,path=/x"));
	CHECK(devargs_back_pressure("net_memif,id=0"));
	CHECK(!devargs_back_pressure("net_virtio_user_other,path=/x"));
	CHECK(!devargs_back_pressure("0000:3b:00.0"));
	CHECK(!devargs_back_pressure("net_af_packet,iface=x"));
}

static void test_too_long(void)
{
	char devargs[MAX_DEVARGS];
	char name[MAX_DEVARGS];

	memset(config.device, 'x', sizeof(config.device) - 1);
	memcpy(config.device, "net_virtio_user,path=", 21);
	CHECK(!devargs_expand(&config, 7, devargs, name, sizeof(devargs)));
}

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
	snprintf(config.device, sizeof(config.device), "net_af_xdp,iface=x");
	CHECK(nic_rx_buffers(&config, 1024, 1) == 4 * (1024 + 3072) + 128);
	snprintf(config.device, sizeof(config.device), "net_af_packet,iface=x");
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
	test_expand();
	test_value();
	test_virtual();
	test_back_pressure();
	test_too_long();
	test_two_rings_a_queue();
	test_one_ring_a_queue();
	test_a_counter_that_a_driver_lacks_is_missing();
	return 0;
}
