/* SPDX-License-Identifier: Apache-2.0
 *
 * A NIC that offloads flows, without a NIC: a double for tests, preloaded into ovs-vswitchd (ld.so(8), LD_PRELOAD).
 *
 * It takes the place of rte_flow_create, _destroy and _query, and does the work of the hardware in receive callbacks:
 * match a frame, mark it or send it on, push or pop a VLAN tag, count it. Ports are those of any driver, such as
 * af_packet on veth pairs. It shows how OVS and nfvperf deal with offload; it says nothing about the speed of any
 * hardware.
 *
 * The environment variable OFFLOADING_NIC says how the NIC behaves, by words with commas between:
 *   full           match and act in hardware
 *   partial        match and mark only: OVS acts in software
 *   none           refuse every flow
 *   flows=N        room for N flows in all
 *   refuses=NAME   no flow that enters by the port whose device name contains NAME
 *   falls_after=N  a flow no longer matches after N frames, and OVS is not told
 *   counts=K       report K times the frames that were handled (0, 2): a lie
 *
 * The same file runs with DPDK 21.11 and later: it calls exported functions, reads the fields of a buffer that have kept
 * their place, and knows both layouts of rte_eth_fp_ops. One poll-mode thread only, as a port's transmit queue has one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_config.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_flow.h>
#include <rte_version.h>

enum {
	MOST_FLOWS = 1024,
	MOST_OUTPUTS = 8,
	MOST_BYTES = 128, /* of headers that a flow can match */
	MOST_QUEUES = 8,
};

struct rte_flow {
	bool used;
	bool acts; /* in hardware; otherwise it marks the frame */
	uint16_t port;
	uint16_t outputs[MOST_OUTPUTS];
	unsigned int output_count; /* none: drop */
	bool pops, pushes;         /* a VLAN tag, before all outputs */
	uint16_t tag;              /* that it pushes: PCP and VLAN */
	uint32_t mark;
	unsigned int length;
	uint8_t value[MOST_BYTES], mask[MOST_BYTES];
	uint64_t frames, bytes; /* since the last reset of the counters */
	uint64_t matched;       /* since the flow was made */
};

struct behaviour {
	bool acts, marks;
	unsigned int flows;
	uint64_t falls_after, counts;
	char refuses[RTE_ETH_NAME_MAX_LEN];
};

struct hooked_port {
	unsigned int flows;
	const struct rte_eth_rxtx_callback *callbacks[MOST_QUEUES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below: OVS makes flows in another thread */
static struct rte_flow table[MOST_FLOWS];
static struct hooked_port ports[RTE_MAX_ETHPORTS];

static struct behaviour behaviour_of(const char *words)
{
	struct behaviour nic = {.acts = true, .marks = true, .flows = MOST_FLOWS, .falls_after = UINT64_MAX, .counts = 1};
	char copy[256], *rest = NULL;

	snprintf(copy, sizeof(copy), "%s", words != NULL ? words : "full");
	for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(word, '=');

		if (value != NULL)
			*value++ = '\0';
		if (strcmp(word, "full") == 0)
			nic.acts = nic.marks = true;
		else if (strcmp(word, "partial") == 0)
			nic.acts = false;
		else if (strcmp(word, "none") == 0)
			nic.acts = nic.marks = false;
		else if (strcmp(word, "flows") == 0 && value != NULL)
			nic.flows = RTE_MIN((unsigned int)strtoul(value, NULL, 10), (unsigned int)MOST_FLOWS);
		else if (strcmp(word, "falls_after") == 0 && value != NULL)
			nic.falls_after = strtoull(value, NULL, 10);
		else if (strcmp(word, "counts") == 0 && value != NULL)
			nic.counts = strtoull(value, NULL, 10);
		else if (strcmp(word, "refuses") == 0 && value != NULL)
			snprintf(nic.refuses, sizeof(nic.refuses), "%s", value);
		else
			rte_exit(EXIT_FAILURE, "OFFLOADING_NIC: unknown word '%s'\n", word);
	}
	return nic;
}

static const struct behaviour *nic(void)
{
	static struct behaviour known;
	static bool read;

	if (!read) { /* under the lock, as all callers are */
		known = behaviour_of(getenv("OFFLOADING_NIC"));
		read = true;
	}
	return &known;
}

/* Transmit one frame; true if the port took it. rte_eth_tx_burst is inline, so its layout would be that of the headers. */
static bool transmit(uint16_t port, uint16_t queue, struct rte_mbuf *frame)
{
	struct queues {
		void **data;
		void **callbacks;
	};
	struct line_to_23_07 { /* rte_ethdev_core.h, the second cache line of a port */
		eth_tx_burst_t burst;
		void *prepare, *status;
		struct queues queues;
	};
	struct line_from_23_11 {
		struct queues queues;
		eth_tx_burst_t burst;
	};
	enum { PORT_BYTES = 2 * 64, LINE_BYTES = 64 };
	const uint8_t *all = dlsym(RTLD_DEFAULT, "rte_eth_fp_ops");
	const uint8_t *line;
	unsigned int year, month;

	if (all == NULL)
		rte_exit(EXIT_FAILURE, "OFFLOADING_NIC: %s has no rte_eth_fp_ops\n", rte_version());
	line = all + (size_t)port * PORT_BYTES + LINE_BYTES;
	if (sscanf(rte_version(), "DPDK %u.%u", &year, &month) != 2)
		rte_exit(EXIT_FAILURE, "OFFLOADING_NIC: no DPDK: %s\n", rte_version());
	if (year * 12 + month < 23 * 12 + 11) {
		const struct line_to_23_07 *old = (const void *)line;
		return old->burst(old->queues.data[queue], &frame, 1) == 1;
	}
	const struct line_from_23_11 *now = (const void *)line;
	return now->burst(now->queues.data[queue], &frame, 1) == 1;
}

static bool matches(const struct rte_flow *flow, uint16_t port, const struct rte_mbuf *frame)
{
	const uint8_t *bytes = (const uint8_t *)frame->buf_addr + frame->data_off;

	if (!flow->used || flow->port != port || frame->data_len < flow->length || flow->matched >= nic()->falls_after)
		return false;
	for (unsigned int at = 0; at < flow->length; at++)
		if ((bytes[at] & flow->mask[at]) != flow->value[at])
			return false;
	return true;
}

/* Take the VLAN tag off, or put one on; false if the frame has no room for it. */
static bool retag(const struct rte_flow *flow, struct rte_mbuf *frame)
{
	enum { ADDRESS_BYTES = 12, TAG_BYTES = 4 };
	uint8_t *bytes = (uint8_t *)frame->buf_addr + frame->data_off;

	if (flow->pops) {
		memmove(bytes + TAG_BYTES, bytes, ADDRESS_BYTES);
		frame->data_off += TAG_BYTES;
		frame->data_len -= TAG_BYTES;
		frame->pkt_len -= TAG_BYTES;
	}
	if (flow->pushes) {
		if (frame->data_off < TAG_BYTES)
			return false;
		frame->data_off -= TAG_BYTES;
		frame->data_len += TAG_BYTES;
		frame->pkt_len += TAG_BYTES;
		bytes = (uint8_t *)frame->buf_addr + frame->data_off;
		memmove(bytes, bytes + TAG_BYTES, ADDRESS_BYTES);
		bytes[ADDRESS_BYTES] = RTE_ETHER_TYPE_VLAN >> 8;
		bytes[ADDRESS_BYTES + 1] = RTE_ETHER_TYPE_VLAN & 0xff;
		bytes[ADDRESS_BYTES + 2] = (uint8_t)(flow->tag >> 8);
		bytes[ADDRESS_BYTES + 3] = (uint8_t)flow->tag;
	}
	return true;
}

/* Send a frame to all outputs of a flow, and release it. */
static void act(const struct rte_flow *flow, struct rte_mbuf *frame)
{
	if (!retag(flow, frame)) {
		rte_pktmbuf_free_bulk(&frame, 1);
		return;
	}
	for (unsigned int at = 0; at + 1 < flow->output_count; at++) {
		struct rte_mbuf *copy = rte_pktmbuf_copy(frame, frame->pool, 0, UINT32_MAX);

		if (copy != NULL && !transmit(flow->outputs[at], 0, copy))
			rte_pktmbuf_free_bulk(&copy, 1);
	}
	if (flow->output_count == 0 || !transmit(flow->outputs[flow->output_count - 1], 0, frame))
		rte_pktmbuf_free_bulk(&frame, 1);
}

/* Do what the flow says; true if software gets the frame. */
static bool handle(uint16_t port, struct rte_mbuf *frame)
{
	for (struct rte_flow *flow = table; flow < table + MOST_FLOWS; flow++) {
		if (!matches(flow, port, frame))
			continue;
		flow->matched++;
		flow->frames++;
		flow->bytes += frame->pkt_len;
		if (flow->acts) {
			act(flow, frame);
			return false;
		}
		frame->hash.fdir.hi = flow->mark;
		frame->ol_flags |= RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
		return true;
	}
	return true;
}

static uint16_t receive(uint16_t port, uint16_t queue, struct rte_mbuf *frames[], uint16_t count, uint16_t most,
			void *unused)
{
	uint16_t kept = 0;

	(void)queue;
	(void)most;
	(void)unused;
	pthread_mutex_lock(&lock);
	for (uint16_t at = 0; at < count; at++)
		if (handle(port, frames[at]))
			frames[kept++] = frames[at];
	pthread_mutex_unlock(&lock);
	return kept;
}

/* The EtherType that a header above Ethernet or VLAN implies, 0 for others. */
static uint16_t implied_type(enum rte_flow_item_type type)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_VLAN:
		return RTE_ETHER_TYPE_VLAN;
	case RTE_FLOW_ITEM_TYPE_IPV4:
		return RTE_ETHER_TYPE_IPV4;
	case RTE_FLOW_ITEM_TYPE_IPV6:
		return RTE_ETHER_TYPE_IPV6;
	default:
		return 0;
	}
}

static unsigned int header_length(enum rte_flow_item_type type)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_ETH:
		return 14;
	case RTE_FLOW_ITEM_TYPE_VLAN:
		return 4;
	case RTE_FLOW_ITEM_TYPE_IPV4:
	case RTE_FLOW_ITEM_TYPE_TCP:
		return 20;
	case RTE_FLOW_ITEM_TYPE_IPV6:
		return 40;
	case RTE_FLOW_ITEM_TYPE_UDP:
		return 8;
	default:
		return 0;
	}
}

static bool add_header(struct rte_flow *flow, const struct rte_flow_item *item)
{
	const uint8_t *value = item->spec, *mask = item->mask;
	unsigned int size = header_length(item->type);
	uint16_t type = implied_type(item->type);

	if (size == 0 || item->last != NULL)
		return false;
	if (flow->length == 0 && item->type != RTE_FLOW_ITEM_TYPE_ETH)
		flow->length = 14; /* any Ethernet header */
	if (flow->length + size > MOST_BYTES)
		return false;
	if (type != 0) {
		flow->value[flow->length - 2] = (uint8_t)(type >> 8);
		flow->value[flow->length - 1] = (uint8_t)type;
		memset(&flow->mask[flow->length - 2], 0xff, 2);
	}
	for (unsigned int at = 0; value != NULL && mask != NULL && at < size; at++) {
		flow->mask[flow->length + at] = mask[at];
		flow->value[flow->length + at] = value[at] & mask[at];
	}
	flow->length += size;
	return true;
}

static bool add_output(struct rte_flow *flow, uint32_t port)
{
	if (flow->output_count == MOST_OUTPUTS)
		return false;
	flow->acts = true;
	flow->outputs[flow->output_count++] = (uint16_t)port;
	return true;
}

/* A VLAN action; false for others, and after an output: all copies of a frame have the same tag. */
static bool add_vlan_action(struct rte_flow *flow, const struct rte_flow_action *action)
{
	if (flow->output_count > 0)
		return false;
	switch (action->type) {
	case RTE_FLOW_ACTION_TYPE_OF_POP_VLAN: {
		bool again = flow->pops || flow->pushes;
		flow->pops = true;
		return !again;
	}
	case RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN: {
		bool again = flow->pushes;
		flow->pushes = true;
		return !again && ((const struct rte_flow_action_of_push_vlan *)action->conf)->ethertype ==
					 rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN);
	}
	case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP:
		flow->tag |= (uint16_t)(((const struct rte_flow_action_of_set_vlan_pcp *)action->conf)->vlan_pcp << 13);
		return flow->pushes;
	case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID:
		flow->tag |= rte_be_to_cpu_16(((const struct rte_flow_action_of_set_vlan_vid *)action->conf)->vlan_vid);
		return flow->pushes;
	default:
		return false;
	}
}

static bool add_action(struct rte_flow *flow, const struct rte_flow_action *action)
{
	switch (action->type) {
	case RTE_FLOW_ACTION_TYPE_VOID:
	case RTE_FLOW_ACTION_TYPE_COUNT:
	case RTE_FLOW_ACTION_TYPE_RSS:
		return true;
	case RTE_FLOW_ACTION_TYPE_MARK:
		flow->mark = ((const struct rte_flow_action_mark *)action->conf)->id;
		return true;
	case RTE_FLOW_ACTION_TYPE_PORT_ID: /* up to OVS 3.1 */
		return add_output(flow, ((const struct rte_flow_action_port_id *)action->conf)->id);
	case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT: /* from OVS 3.2 */
		return add_output(flow, ((const struct rte_flow_action_ethdev *)action->conf)->port_id);
	case RTE_FLOW_ACTION_TYPE_DROP:
		flow->acts = true;
		return true;
	default:
		return add_vlan_action(flow, action);
	}
}

static bool refuses_port(uint16_t port)
{
	char name[RTE_ETH_NAME_MAX_LEN] = "";

	return nic()->refuses[0] != '\0' && rte_eth_dev_get_name_by_port(port, name) == 0 &&
	       strstr(name, nic()->refuses) != NULL;
}

static struct rte_flow *refuse(struct rte_flow_error *error, int code, enum rte_flow_error_type type, const char *why)
{
	rte_flow_error_set(error, code, type, NULL, why);
	return NULL;
}

/* Look at what OVS asks for; NULL with the error if this NIC cannot do it. */
static struct rte_flow *parse(struct rte_flow *flow, const struct rte_flow_item *item,
			      const struct rte_flow_action *action, struct rte_flow_error *error)
{
	if (!nic()->marks)
		return refuse(error, ENOSYS, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, "this NIC has no flow engine");
	if (refuses_port(flow->port))
		return refuse(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, "this port offloads nothing");
	for (; item->type != RTE_FLOW_ITEM_TYPE_END; item++)
		if (!add_header(flow, item))
			return refuse(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, "header not supported");
	for (; action->type != RTE_FLOW_ACTION_TYPE_END; action++)
		if (!add_action(flow, action) || (flow->acts && !nic()->acts))
			return refuse(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, "action not supported");
	return flow;
}

static void hook(uint16_t port)
{
	for (uint16_t queue = 0; queue < MOST_QUEUES; queue++)
		ports[port].callbacks[queue] = rte_eth_add_rx_callback(port, queue, receive, NULL);
}

/* OVS may close the port next, and another device may get its number. */
static void unhook(uint16_t port)
{
	for (uint16_t queue = 0; queue < MOST_QUEUES; queue++)
		if (ports[port].callbacks[queue] != NULL && rte_eth_dev_is_valid_port(port))
			rte_eth_remove_rx_callback(port, queue, ports[port].callbacks[queue]);
	memset(ports[port].callbacks, 0, sizeof(ports[port].callbacks));
}

static struct rte_flow *place(const struct rte_flow *flow, struct rte_flow_error *error)
{
	for (struct rte_flow *free = table; free < table + nic()->flows; free++) {
		if (free->used)
			continue;
		*free = *flow;
		ports[flow->port].flows++;
		return free;
	}
	return refuse(error, ENOSPC, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, "table is full");
}

struct rte_flow *rte_flow_create(uint16_t port_id, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
				 const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct rte_flow flow = {.used = true, .port = port_id}, *made = NULL;
	bool first = false;

	(void)attr;
	pthread_mutex_lock(&lock);
	if (parse(&flow, pattern, actions, error) != NULL)
		made = place(&flow, error);
	first = made != NULL && ports[port_id].flows == 1;
	pthread_mutex_unlock(&lock);
	if (first)
		hook(port_id);
	return made;
}

int rte_flow_destroy(uint16_t port_id, struct rte_flow *flow, struct rte_flow_error *error)
{
	bool last;

	(void)error;
	pthread_mutex_lock(&lock);
	flow->used = false;
	last = --ports[port_id].flows == 0;
	pthread_mutex_unlock(&lock);
	if (last)
		unhook(port_id);
	return 0;
}

int rte_flow_query(uint16_t port_id, struct rte_flow *flow, const struct rte_flow_action *action, void *data,
		   struct rte_flow_error *error)
{
	struct rte_flow_query_count *count = data;

	(void)port_id;
	(void)action;
	(void)error;
	pthread_mutex_lock(&lock);
	count->hits_set = count->bytes_set = 1;
	count->hits = flow->frames * nic()->counts;
	count->bytes = flow->bytes * nic()->counts;
	if (count->reset)
		flow->frames = flow->bytes = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}
