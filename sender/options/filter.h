/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of whom to sample, from what a user writes.
 */
#ifndef SENDER_OPTIONS_FILTER_H
#define SENDER_OPTIONS_FILTER_H

#include "bpf/sample.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"

/* Each fills the key of its kind. 0, or -EINVAL with *e for the user. */

/* A process id. */
int filter_number(struct filter_key *key, struct bytes text, struct error *e);

/* A user's number, or name by /etc/passwd. */
int filter_user(struct filter_key *key, struct bytes text, struct error *e);

/* A cgroup and all below it: its path under the mount of cgroup version 2 (/sys/fs/cgroup, or its `unified`
 * where version 1 is mounted too). */
int filter_cgroup(struct filter_key *key, struct bytes text, struct error *e);

/* The file name of an executable, without folders; compared whole, up to FILTER_NAME_LEN - 1 bytes. */
int filter_executable(struct filter_key *key, struct bytes text, struct error *e);

/* The folder that cgroup version 2 is mounted at, NULL if there is none. */
const char *filter_cgroup_root(void);

#endif
