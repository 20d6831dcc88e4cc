/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of pods, namespaces and containers, asked for by a thread of its own where --kubernetes says:
 *
 *     unix:/run/containerd/containerd.sock   the container runtime (CRI: containerd, CRI-O)
 *     http://127.0.0.1:10255                 the kubelet's read-only port: GET /pods
 *
 * All containers of the node are asked for at once: at the start, and when one is met that is not known, but
 * not more often than every PODS_AGAIN_NS, and less often while nothing new comes of it. Nobody waits for an
 * answer: who is not known yet is named in the next window.
 */
#ifndef SENDER_PODS_PODS_H
#define SENDER_PODS_PODS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "sender/pods/table.h"

#define PODS_AGAIN_NS     2000000000u
#define PODS_AGAIN_MAX_NS 64000000000u
/* For one answer; and how large it may be: gRPC's usual limit of a runtime is 16 MiB. */
#define PODS_TIMEOUT_NS 5000000000u
#define PODS_ANSWER_MAX (16u << 20)

struct pods;

struct pods_counts {
    uint64_t asked, failed;
};

/* Whether that is where pods can be asked for. 0; -EINVAL with *e; -ENOMEM. */
int pods_check(const char *where, struct error *e);

/* Starts the thread, which calls `begin` first (NULL: nothing). 0; -EINVAL with *e: it is no such place; or
 * -errno with *e. */
int pods_new(struct pods **ret, const char *where, void (*begin)(void), struct error *e);

/* Ends the thread, and waits for it. Returns NULL; NULL is fine. Or `p`, which stays as it is: a name is
 * being resolved (io_loop_is_resolving). */
struct pods *pods_free(struct pods *p);

/* Names of a container, copied. */
struct pods_found {
    char pod[PODS_NAME_MAX + 1], space[PODS_NAME_MAX + 1], container[PODS_NAME_MAX + 1]; /* "": not known */
};

/* False: it is not known now, and asked for. Any thread. */
bool pods_find(struct pods *p, struct bytes container_id, struct pods_found *ret);

/* Any thread. */
struct pods_counts pods_counts(struct pods *p);

#endif
