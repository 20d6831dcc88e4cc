/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one listener demands, with the files it is read from. For gateway/access only.
 */
#ifndef GATEWAY_ACCESS_POLICY_H
#define GATEWAY_ACCESS_POLICY_H

#include <pthread.h>
#include <stdatomic.h>

#include "gateway/access/credentials.h"
#include "gateway/access/options.h"

struct access_policy {
    uint32_t index; /* in struct access */
    char *tokens_file, *users_file;
    char **identities;
    uint32_t n_identities;

    pthread_mutex_t lock; /* current */
    struct credentials *current;
    atomic_uint_fast64_t generation; /* current's, so that workers see a change without the lock */
};

/* With its files read. 0 or a negative errno with *e. */
int policy_new(struct access_policy **ret, const struct access_policy_options *options, struct digester *d,
               struct error *e);
struct access_policy *policy_free(struct access_policy *p);

/* Reads the files into a new snapshot, the caller's. 0 or a negative errno with *e naming file and line. */
int policy_load(const struct access_policy *p, struct digester *d, struct credentials **ret, struct error *e);

/* Makes a snapshot, which it takes over, the current one. */
void policy_set(struct access_policy *p, struct credentials *c);

/* The current snapshot, in the place of what *held refers to. Cheap when it is the same. */
const struct credentials *policy_current(struct access_policy *p, struct credentials **held);

/* Whether a certificate's name is one of those that may. */
bool policy_allows(const struct access_policy *p, const char *identity);

#endif
