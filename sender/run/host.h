/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests say of this host, and what profsend says of itself.
 */
#ifndef SENDER_RUN_HOST_H
#define SENDER_RUN_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "sender/collect/request.h"

struct host {
    char name[256], release[65], machine[65];
    char kernel_build_id[129];
    char id[65], description[256]; /* /etc/machine-id, and what /etc/os-release calls the system */
};

/* Asks the system; what it does not tell stays "". */
void host_read(struct host *ret);

/* Fills the host's part of the facts; slices into *h. */
void host_facts(const struct host *h, struct request_facts *facts);

/* Our own use: CPU time of the process so far in ns, and resident memory in bytes. */
uint64_t host_own_cpu(void);
size_t host_own_memory(void);

#endif
