/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which container is whose: pods, namespaces and containers by name, for the ids that cgroups have. Read from
 * what a container runtime or a kubelet says.
 */
#ifndef SENDER_PODS_TABLE_H
#define SENDER_PODS_TABLE_H

#include <stdbool.h>

#include "proto/base/bytes.h"

/* Containers; a node has a few hundred (kubelet's --max-pods is 110). What is above is left out. */
#define PODS_CONTAINERS_MAX 8192u
/* Names are DNS labels and subdomains (RFC 1123): longer ones are left out. */
#define PODS_NAME_MAX 253u

struct pods_names {
    struct bytes pod, space, container; /* .n 0: not known; UTF-8 */
};

struct pods_table;

struct pods_table *pods_table_new(void);                  /* NULL when memory is out */
struct pods_table *pods_table_free(struct pods_table *t); /* NULL is fine; returns NULL */

/* Adds the containers and sandboxes of a serialized runtime.v1.ListContainersResponse (Kubernetes, CRI): by
 * the labels that every kubelet puts on its containers. 0 or -ENOMEM. */
int pods_table_read_cri(struct pods_table *t, struct bytes message);

/* Adds the containers of a PodList in JSON, as a kubelet's /pods gives it. 0; PODS_MALFORMED; -ENOMEM. */
enum { PODS_MALFORMED = 1 };
int pods_table_read_list(struct pods_table *t, struct bytes json);

/* When all was added, and before the first question. */
void pods_table_sort(struct pods_table *t);

/* The names of a container. False: it is not known. They live as long as the table. */
bool pods_table_find(const struct pods_table *t, struct bytes id, struct pods_names *ret);

/* Whether it has a container that the other one has not. */
bool pods_table_is_more(const struct pods_table *t, const struct pods_table *than);

#endif
