/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections tls and auth of an address as the stages want them; and the admin address's own, which belongs
 * to no worker.
 */
#ifndef GATEWAY_RUN_DOOR_H
#define GATEWAY_RUN_DOOR_H

#include "gateway/access/access.h"
#include "gateway/config/config.h"
#include "gateway/listen/certificates.h"

/* Whether credentials are asked for. */
bool door_asks(const struct config_door *d);

/* Whether nobody comes in of whom it is not known who he is. */
bool door_knows(const struct config_door *d);

/* False: there is none, the address is plain. It points into d. */
bool door_tls(const struct config_door *d, struct listen_tls *ret);

/* As access_policy_new. */
int door_policy(const struct config_door *d, struct access *a, const struct access_policy **ret,
                struct error *e);

/* Says of each file of credentials that lets nobody in that it does. a may be NULL. */
void door_warn_vacant(const struct access *a);

struct admin_door {
    struct certificates certificates;   /* address 0 is it */
    struct access *access;              /* NULL: nobody is asked, as are the next two */
    const struct access_policy *policy; /* access's */
    struct access_worker *worker;       /* the control loop's */
};

/* Reads the files. 0, or a negative errno with *e. Released in any case, after the server. Control loop. */
int admin_door_init(struct admin_door *d, const struct config_door *from, struct io_loop *loop,
                    struct stats *stats, struct budget *budget, struct error *e);
void admin_door_release(struct admin_door *d);

#endif
