/* SPDX-License-Identifier: Apache-2.0 */
#include <rte_common.h>

#include "receive.h"
#include "rejoin.h"

enum {
	LOOK_MS = 1, /* until a polling thread has left a ring alone */
	DRIVER_LOOK_MS = 20, /* DPDK's virtio-user lets its switch in when it is asked for the link */
	MOST_DRAINED = 64, /* turns: no more than lie in a ring that nobody fills */
};

static bool is_drivers(const struct port *port)
{
	return port->used && port->kind == PORT_DPDK && devargs_is(port->config.device, "net_virtio_user");
}

static bool is_ring(const struct port *port)
{
	return port->used && port->kind == PORT_RING;
}

void rejoin_begin(struct ports *ports)
{
	for (int at = 0; at < MAX_PORTS; at++)
		ports->port[at].links = (struct link_log){0};
}

void rejoin_end(struct ports *ports)
{
	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &ports->port[at];

		port->parted = port->left = false;
		if (is_ring(port) && port->hung_up)
			(void)rejoin_set_link(port, true);
	}
}

unsigned int rejoin_wait(const struct ports *ports, struct pollfd *fds, int *timeout_ms)
{
	unsigned int count = 0;
	int look_ms = -1;

	for (int at = 0; at < MAX_PORTS; at++) {
		const struct port *port = &ports->port[at];

		if (is_drivers(port) && look_ms != LOOK_MS)
			look_ms = DRIVER_LOOK_MS;
		if (!is_ring(port) || port->hung_up)
			continue;
		if (!port->parted)
			fds[count++] = (struct pollfd){.fd = port->vhost->connection, .events = POLLIN};
		else if (__atomic_load_n(&port->left, __ATOMIC_ACQUIRE))
			fds[count++] = (struct pollfd){.fd = port->vhost->listener, .events = POLLIN};
		else
			look_ms = LOOK_MS;
	}
	if (look_ms >= 0 && (*timeout_ms < 0 || *timeout_ms > look_ms))
		*timeout_ms = look_ms;
	return count;
}

/* The ring's memory is ours, so nothing is touched that went; only making it anew needs the polling thread's leave. */
static void part_or_join(struct port *port)
{
	if (!port->parted && vhost_connected(port->vhost))
		return;
	if (!port->parted) {
		__atomic_store_n(&port->parted, true, __ATOMIC_RELEASE);
		link_note(&port->links, false);
	}
	if (port->hung_up || !(__atomic_load_n(&port->left, __ATOMIC_ACQUIRE) || port->config.unread) ||
	    !vhost_connect(port->vhost, 0))
		return;
	link_note(&port->links, true);
	__atomic_store_n(&port->parted, false, __ATOMIC_RELEASE);
}

void rejoin_turn(struct ports *ports)
{
	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &ports->port[at];

		if (is_ring(port))
			part_or_join(port);
		else if (is_drivers(port))
			link_note(&port->links, port_link_up(port));
	}
}

const char *rejoin_set_link(struct port *port, bool up)
{
	if (!is_ring(port))
		return "only the far end of a vhost-user ring that the engine drives itself hangs up";
	if (up && port->hung_up && !vhost_listen(port->vhost))
		return port->vhost->error;
	if (!up)
		vhost_hang_up(port->vhost);
	port->hung_up = !up;
	return NULL;
}

void rejoin_look(struct worker *worker)
{
	for (unsigned int at = 0; at < worker->receiver_count; at++) {
		struct port *port = worker->receivers[at];
		bool parted = __atomic_load_n(&port->parted, __ATOMIC_ACQUIRE);

		if (likely(parted == port->left))
			continue;
		for (int turn = 0; parted && turn < MOST_DRAINED; turn++)
			if (receive_turn(port, worker->run->trial, &worker->clock) == 0)
				break;
		if (!parted)
			port->position = 0; /* the ring begins anew */
		__atomic_store_n(&port->left, parted, __ATOMIC_RELEASE);
	}
}
