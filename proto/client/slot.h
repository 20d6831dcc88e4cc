/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer of the sending queue: takes one request, encodes it, calls, waits and repeats, until it is
 * settled. Private to the client.
 *
 * A slot's state says what it waits for; slot_step moves it on as far as it goes. Nothing here blocks.
 */
#ifndef PROTO_CLIENT_SLOT_H
#define PROTO_CLIENT_SLOT_H

#include <uv.h>

#include "proto/base/buffer.h"
#include "proto/client/call.h"
#include "proto/client/connection.h"
#include "proto/client/event.h"
#include "proto/client/options.h"
#include "proto/client/oauth2.h"
#include "proto/client/queue.h"
#include "proto/client/target.h"

enum slot_state {
    SLOT_IDLE,     /* for a request */
    SLOT_ENCODING, /* for the thread pool */
    SLOT_WAITING,  /* for the connection, until at_ns */
    SLOT_CALLING,  /* for the answer, until at_ns */
    SLOT_BACKOFF,  /* for at_ns */
};

struct slot {
    struct client *client;
    enum slot_state state;
    struct target *target; /* of this attempt */
    struct client_connection
        *connection; /* to it: its own (HTTP/1.1 has one call at a time), or the shared one */
    struct client_connection *own[CLIENT_ENDPOINTS_MAX]; /* NULL: that target's is shared */
    struct send_entry *entry;
    struct coding_encoder *encoder; /* of the coding that was last encoded; NULL: nothing was */
    struct buffer wire;             /* the encoded body */
    enum coding coding;             /* of the request as it is to be sent */
    struct call_body to_send;
    uv_work_t work;
    int encoded; /* what the thread pool came back with */
    struct retry retry;
    uint64_t attempts, began_ns, at_ns;
#define NEVER_UNTAKEN UINT64_MAX
    uint64_t
        untaken_at; /* what its target had taken when that said of its last call that it did not look at it */
    bool was_unauthenticated; /* with a token: one that is new may be taken */
    bool was_broken;          /* its last call ended with the connection */
    uint32_t ends; /* and so often nobody was there afterwards: the peer had ended with the request in hand */
    uint32_t hurried; /* attempts that failed while stopping */
    struct http_call *call;
    char timeout_text[16];
};

/* What the slots of a client share. */
struct client {
    struct io_loop *loop;
    struct targets targets;
    int compression_level;
    struct endpoint proxy; /* proxy.host NULL: there is none */
    char *proxy_authorization;
    struct oauth2 *oauth2; /* NULL: calls are without */
    char *server_name;
    struct tls_context *tls;
    struct coding_decoder *decoder;
    struct retry_options retry;
    uint64_t timeout_ns;
    struct rng rng;
    client_event_fn on_event;
    client_answer_fn on_answer;
    void *user; /* of both */
    void (*on_queued)(void *user);
    void *on_queued_user;

    struct send_queue queue;
    struct slot *slots;
    uint32_t n_slots;
    struct io_timer *timer;
    struct slot *suspect;  /* the one of those with `ends` that has an attempt now */
    uint64_t throttled_ns; /* no attempt begins before: a peer asked for it (E7) */
    bool again;            /* a slot was settled: look at all of them once more */

    uv_async_t wake;
    pthread_mutex_t wake_lock; /* guards wake against being used after it is closed */
    bool wake_open;

    bool stopping, expired, closing;
    uint64_t deadline_ns;
    void (*done)(void *user);
    void *done_user;
};

/* Moves the slot on as far as it goes now. */
void slot_step(struct slot *s, uint64_t now_ns);

/* Its connection failed: an attempt that waits for it has failed too. */
void slot_disconnected(struct slot *s, const char *why);

/* Gives up what it does; the request is reported as CLIENT_SHUT_DOWN. A slot that is encoding does so
 * afterwards. */
void slot_abort(struct slot *s);

/* When slot_step must be called next at the latest; UINT64_MAX: something else will happen first. */
uint64_t slot_deadline(const struct slot *s);

/* Moves everything on and sets the timer (client.c). Loop thread. */
void client_pump(struct client *x);

/* Tells the user what became of a request (client.c). */
void client_tell(struct client *x, enum client_event_kind kind, const struct send_entry *entry,
                 uint64_t attempts, uint64_t rejected, const char *message);

#endif
