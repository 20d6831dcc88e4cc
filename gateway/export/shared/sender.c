/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/shared/sender.h"

#include "proto/client/client.h"

static bool reserve(void *x, size_t n)
{
    return client_reserve(x, n);
}

static void cancel(void *x, size_t n)
{
    client_cancel(x, n);
}

static void push(void *x, struct client_body *body, size_t reserved, uint64_t items)
{
    client_push(x, body, reserved, items);
}

static bool push_tagged(void *x, struct client_body *body, size_t reserved, uint64_t items, uint64_t tag)
{
    return client_push_tagged(x, body, reserved, items, tag);
}

static void push_newest(void *x, struct client_body *body, uint64_t items)
{
    client_push_newest(x, body, items);
}

static size_t queued_bytes(void *x)
{
    return client_queued_bytes(x);
}

static void shut_down(void *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    client_shutdown(x, deadline_ns, done, user);
}

static void free_client(void *x)
{
    client_free(x);
}

struct sender sender_of_client(struct client *x)
{
    static const struct sender_verbs verbs = {
        .reserve = reserve,
        .cancel = cancel,
        .push = push,
        .push_tagged = push_tagged,
        .push_newest = push_newest,
        .queued_bytes = queued_bytes,
        .shutdown = shut_down,
        .free = free_client,
    };
    return (struct sender){&verbs, x};
}
