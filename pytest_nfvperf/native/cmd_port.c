/* SPDX-License-Identifier: Apache-2.0 */
/* attach, detach, links, stats */
#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>

#include "commands.h"
#include "protocol.h"

static const char *const roles[] = {
	[ROLE_ENDPOINT] = "endpoint", [ROLE_FORWARDER] = "forwarder", [ROLE_MONITOR] = "monitor", [ROLE_HOST] = "host"};
static const char *const modes[] = {[VNF_IO] = "io", [VNF_MAC] = "mac", [VNF_MACSWAP] = "macswap"};

/* The place of a name among these; -1: it is none of them. */
static int choose(const char *const *names, size_t count, const char *name)
{
	for (size_t at = 0; at < count; at++)
		if (strcmp(names[at], name) == 0)
			return (int)at;
	return -1;
}

struct attach_request {
	const char *name, *device, *mac, *role, *peer, *mode, *eth_peer, *bond;
	json_t *addresses;
	int queues, tx_descriptors, rx_descriptors, mtu, vlan, drop_every, timeout_ms, unread, own_ring, learns;
};

static bool in_range(json_t *answer, const char *what, int value, int low, int high)
{
	if (value >= low && value <= high)
		return true;
	return answer_error(answer, "bad_request", "%s must be %d..%d, not %d", what, low, high, value);
}

static bool check_numbers(const struct attach_request *want, json_t *answer)
{
	return in_range(answer, "queues", want->queues, 1, 64) &&
	       in_range(answer, "tx_descriptors", want->tx_descriptors, 32, 32768) &&
	       in_range(answer, "rx_descriptors", want->rx_descriptors, 32, 32768) &&
	       in_range(answer, "mtu", want->mtu, 68, MAX_FRAME_BYTES - 18) &&
	       in_range(answer, "vlan", want->vlan, 0, 4094) &&
	       in_range(answer, "drop_every", want->drop_every, 0, INT32_MAX) &&
	       in_range(answer, "timeout_ms", want->timeout_ms, 1, 3600000);
}

static bool copy_text(json_t *answer, const char *what, const char *text, char *to, size_t size)
{
	if ((size_t)snprintf(to, size, "%s", text) < size)
		return true;
	return answer_error(answer, "bad_request", "%s is longer than %zu characters", what, size - 1);
}

static bool parse_mac(json_t *answer, const char *what, const char *text, struct rte_ether_addr *mac)
{
	if (rte_ether_unformat_addr(text, mac) == 0)
		return true;
	return answer_error(answer, "bad_request", "%s is not a MAC address: \"%s\"", what, text);
}

static bool parse_addresses(const struct attach_request *want, struct port_config *config, json_t *answer)
{
	size_t count = json_array_size(want->addresses);

	if (count > MAX_ADDRESSES)
		return answer_error(answer, "bad_request", "a monitor tells at most %d addresses apart, not %zu", MAX_ADDRESSES,
				    count);
	if (count > 0 && config->role != ROLE_MONITOR)
		return answer_error(answer, "bad_request", "addresses are for a monitor");
	for (size_t at = 0; at < count; at++) {
		const char *text = json_string_value(json_array_get(want->addresses, at));

		if (!parse_mac(answer, "an address", text != NULL ? text : "", &config->addresses[at]))
			return false;
	}
	config->address_count = (uint16_t)count;
	return true;
}

static bool parse_config(const struct attach_request *want, struct port_config *config, json_t *answer)
{
	int role = choose(roles, RTE_DIM(roles), want->role), mode = choose(modes, RTE_DIM(modes), want->mode);

	memset(config, 0, sizeof(*config));
	if (!check_numbers(want, answer))
		return false;
	if (role < 0)
		return answer_error(answer, "bad_request", "role must be endpoint, forwarder, monitor or host, not \"%s\"", want->role);
	if (mode < 0)
		return answer_error(answer, "bad_request", "vnf_mode must be io, mac or macswap, not \"%s\"", want->mode);
	if (role == ROLE_FORWARDER && mode == VNF_MAC && want->eth_peer[0] == '\0')
		return answer_error(answer, "bad_request", "vnf_mode mac needs eth_peer");
	if (want->unread && role != ROLE_MONITOR)
		return answer_error(answer, "bad_request", "only a monitor can be unread");
	config->role = (enum port_role)role;
	config->unread = want->unread;
	config->own_ring = want->own_ring;
	config->learns = want->learns;
	config->mode = (enum vnf_mode)mode;
	config->queues = (uint16_t)want->queues;
	config->tx_descriptors = (uint16_t)want->tx_descriptors;
	config->rx_descriptors = (uint16_t)want->rx_descriptors;
	config->mtu = (uint16_t)want->mtu;
	config->vlan = (uint16_t)want->vlan;
	config->drop_every = (uint32_t)want->drop_every;
	config->timeout_ms = (unsigned int)want->timeout_ms;
	return parse_addresses(want, config, answer) && copy_text(answer, "name", want->name, config->name, sizeof(config->name)) &&
	       copy_text(answer, "device", want->device, config->device, sizeof(config->device)) &&
	       copy_text(answer, "peer", want->peer, config->peer, sizeof(config->peer)) &&
	       copy_text(answer, "bond", want->bond, config->bond, sizeof(config->bond)) &&
	       parse_mac(answer, "mac", want->mac, &config->mac) &&
	       (want->eth_peer[0] == '\0' || parse_mac(answer, "eth_peer", want->eth_peer, &config->eth_peer));
}

/* What a port's device is, and what it granted. */
static void report_device(const struct port *port, json_t *answer)
{
	const struct nic *nic = &port->nic;
	char mac[MAC_TEXT];

	if (port->kind != PORT_DPDK)
		return;
	json_object_set_new(answer, "driver", json_string(nic->driver));
	if (nic->pci[0] != '\0')
		json_object_set_new(answer, "pci", json_string(nic->pci));
	json_object_set_new(answer, "mac", json_string(mac_text(&nic->mac, mac)));
	json_object_set_new(answer, "promiscuous", json_boolean(nic->promiscuous));
	answer_int(answer, "queues", port->config.queues);
	answer_int(answer, "rx_descriptors", nic->rx_descriptors);
	answer_int(answer, "tx_descriptors", nic->tx_descriptors);
}

bool command_attach(struct engine *engine, json_t *request, json_t *answer)
{
	struct attach_request want = {.role = "endpoint", .peer = "", .mode = "io", .eth_peer = "", .bond = "", .queues = 1,
				      .tx_descriptors = 512, .rx_descriptors = 1024, .mtu = 1500, .timeout_ms = 5000, .own_ring = 1};
	struct port_config config;
	const struct port *port;
	json_error_t error;
	char text[512];
	const char *wrong;

	if (json_unpack_ex(request, &error, JSON_STRICT,
			   "{s:s, s:s, s:s, s?s, s?s, s?s, s?s, s?o, s?i, s?i, s?i, s?i, s?i, s?i, s?i, s?b, s?b, s?s, s?b}", "name", &want.name,
			   "device", &want.device, "mac", &want.mac, "role", &want.role, "peer", &want.peer, "vnf_mode",
			   &want.mode, "eth_peer", &want.eth_peer, "addresses", &want.addresses, "queues", &want.queues, "tx_descriptors",
			   &want.tx_descriptors, "rx_descriptors", &want.rx_descriptors, "mtu", &want.mtu, "vlan", &want.vlan,
			   "drop_every", &want.drop_every, "timeout_ms", &want.timeout_ms, "unread", &want.unread,
			   "own_ring", &want.own_ring, "bond", &want.bond, "learns", &want.learns) != 0)
		return answer_error(answer, "bad_request", "attach: %s", error.text);
	if (!parse_config(&want, &config, answer))
		return false;
	wrong = port_attach(&engine->ports, &config, engine->worker_count, text, sizeof(text));
	if (wrong != NULL)
		return answer_error(answer, "attach_failed", "%s", wrong);
	port = port_find(&engine->ports, config.name);
	json_object_set_new(answer, "back_pressure", json_boolean(port->back_pressure));
	json_object_set_new(answer, "own_ring", json_boolean(port->kind == PORT_RING));
	if (port->why_dpdk != NULL)
		json_object_set_new(answer, "why_dpdk", json_string(port->why_dpdk));
	report_device(port, answer);
	return true;
}

bool command_detach(struct engine *engine, json_t *request, json_t *answer)
{
	json_error_t error;
	const char *name;
	struct port *port;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:s}", "name", &name) != 0)
		return answer_error(answer, "bad_request", "detach: %s", error.text);
	port = port_find(&engine->ports, name);
	if (port == NULL)
		return answer_error(answer, "unknown_port", "no port \"%s\" is attached", name);
	port_detach(&engine->ports, port);
	return true;
}

bool command_links(struct engine *engine, json_t *request, json_t *answer)
{
	json_t *links = json_object();

	(void)request;
	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &engine->ports.port[at];

		if (port->used)
			json_object_set_new(links, port->config.name, json_boolean(port_link_up(port)));
	}
	json_object_set_new(answer, "links", links);
	return true;
}

static json_t *stats_of(const struct port *port)
{
	struct rte_eth_stats stats;
	struct nic_counts lost;
	json_t *counts = json_object();

	if (port->kind != PORT_DPDK)
		return counts;
	if (nic_read(&port->nic, &lost, &stats)) {
		answer_int(counts, "rx_packets", stats.ipackets);
		answer_int(counts, "tx_packets", stats.opackets);
		answer_int(counts, "rx_bytes", stats.ibytes);
		answer_int(counts, "tx_bytes", stats.obytes);
		(void)report_lost(counts, &lost);
	}
	return counts;
}

bool command_stats(struct engine *engine, json_t *request, json_t *answer)
{
	json_t *ports = json_object();

	(void)request;
	for (int at = 0; at < MAX_PORTS; at++) {
		const struct port *port = &engine->ports.port[at];

		if (port->used)
			json_object_set_new(ports, port->config.name, stats_of(port));
	}
	json_object_set_new(answer, "ports", ports);
	return true;
}
