/* SPDX-License-Identifier: Apache-2.0 */
/* Names that DPDK changed between 20.11 and 25.11. */
#ifndef NFVPERF_COMPAT_H
#define NFVPERF_COMPAT_H

#include <rte_ethdev.h>
#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(21, 11, 0, 0)
#define RTE_ETH_LINK_UP ETH_LINK_UP
#define RTE_ETH_MQ_RX_NONE ETH_MQ_RX_NONE
#define RTE_ETH_MQ_RX_RSS ETH_MQ_RX_RSS
#define RTE_ETH_RSS_IP ETH_RSS_IP
#define RTE_ETH_RSS_UDP ETH_RSS_UDP
#endif

#endif
