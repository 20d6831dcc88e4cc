/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/slot.h"

#include <assert.h>
#include <errno.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

/* Memory for encoded bodies that a slot keeps from one request to the next. */
#define WIRE_KEEP_MAX (1u << 20)

/* The first pause between attempts of a shutdown, how often it doubles, and the shortest at its end. */
#define STOPPING_PAUSE_NS     (100 * NSEC_PER_MSEC)
#define STOPPING_DOUBLED_MAX  6u
#define STOPPING_PAUSE_MIN_NS (10 * NSEC_PER_MSEC)

/* A request that the peer ended with so often is not sent again: it would end with it for ever. Those that
 * were under way then are sent one at a time, so that the others are cleared of it. */
#define POISON_ENDS 5u

/* ---- the end of a request -------------------------------------------------------------------- */

/* Frees the room first and tells then, so that whoever looks at the queue when told sees it without this
 * request. */
static void finish(struct slot *s, enum client_event_kind kind, uint64_t rejected, const char *message)
{
    struct client *x = s->client;
    const struct send_entry was = *s->entry;
    send_queue_finish(&x->queue, s->entry);
    s->entry = NULL;
    if (x->suspect == s)
        x->suspect = NULL;
    s->to_send = (struct call_body){0};
    buffer_clear(&s->wire, WIRE_KEEP_MAX);
    s->state = SLOT_IDLE;
    x->again = true;
    client_tell(x, kind, &was, s->attempts, rejected, message);
}

static void lose(struct slot *s, enum client_event_kind kind, const char *message)
{
    finish(s, kind, 0, message);
}

/* While stopping: the usual pauses, of seconds and more, would be longer than the time that is left. They
 * begin anew and short, and the last ones are half of what is left, but a peer that asked for more gets it.
 * False: no attempt fits any more. */
static bool shorten(struct slot *s, uint64_t now_ns, uint64_t peer_delay_ns, uint64_t *wait_ns)
{
    const uint64_t deadline = s->client->deadline_ns, left = deadline > now_ns ? deadline - now_ns : 0;
    if (peer_delay_ns == 0) {
        const uint64_t pause = STOPPING_PAUSE_NS << min_of(s->hurried++, STOPPING_DOUBLED_MAX);
        *wait_ns = min_of(*wait_ns, max_of(min_of(pause, left / 2), STOPPING_PAUSE_MIN_NS));
    }
    return *wait_ns < left;
}

/* An attempt failed and may be repeated: when, if at all. */
static void fail_attempt(struct slot *s, const char *message, uint64_t peer_delay_ns)
{
    struct client *x = s->client;
    uint64_t wait, now = io_loop_now(x->loop);
    if (x->suspect == s)
        x->suspect = NULL;
    target_failed(s->target, now, peer_delay_ns);
    if (!retry_next(&s->retry, &x->retry, now, peer_delay_ns, &x->rng, &wait)) {
        lose(s, CLIENT_OUT_OF_TIME, message);
        return;
    }
    if (x->stopping && !shorten(s, now, peer_delay_ns, &wait)) {
        lose(s, CLIENT_SHUT_DOWN, message);
        return;
    }
    client_tell(x, CLIENT_RETRIED, s->entry, s->attempts, 0, message);
    s->state = SLOT_BACKOFF;
    x->again = true;
    const bool is_elsewhere = x->targets.n > 1 && target_is_any_well(&x->targets, now);
    s->at_ns = is_elsewhere ? now : now + wait;
    if (x->targets.n > 1)
        return; /* who asked to be left alone is: the others are not */
    if (peer_delay_ns > 0 && s->at_ns > x->throttled_ns)
        x->throttled_ns = s->at_ns;
}

static void settle(struct slot *s, const struct call_result *result)
{
    switch (result->outcome) {
    case CALL_OK:
        target_succeeded(s->target);
        finish(s, result->partial ? CLIENT_PARTIAL : CLIENT_SENT, result->rejected, result->message.text);
        break;
    case CALL_FINAL: lose(s, CLIENT_REFUSED, result->message.text); break;
    case CALL_RETRYABLE: fail_attempt(s, result->message.text, result->retry_after_ns); break;
    }
}

/* ---- calling --------------------------------------------------------------------------------- */

/* A peer that goes away (a proxy does after so many requests) tells which ones it never looked at: these are
 * none that failed, and another connection takes them at once. One that says so again, and took nothing
 * meanwhile, is to have its pause. */
static bool take_again(struct slot *s, enum http_call_result outcome)
{
    const bool again = outcome == HTTP_CALL_REFUSED && s->untaken_at != s->target->n_taken;
    s->untaken_at = outcome == HTTP_CALL_REFUSED ? s->target->n_taken : NEVER_UNTAKEN;
    if (!again)
        return false;
    s->state = SLOT_BACKOFF;
    s->at_ns = 0;
    s->client->again = true;
    return true;
}

static void on_answer(void *user, enum http_call_result outcome, const struct http_response *response)
{
    struct slot *s = user;
    struct client *x = s->client;
    struct call_result result;
    connection_end(s->connection);
    s->call = NULL;
    s->was_broken = outcome == HTTP_CALL_BROKEN;
    if (outcome == HTTP_CALL_DONE)
        s->ends = 0;
    if (take_again(s, outcome))
        return;
    if (x->on_answer && outcome == HTTP_CALL_DONE) {
        struct client_answer answer = {
            .status = response->status,
            .headers = response->headers,
            .n_headers = response->n_headers,
            .items = s->entry->items,
        };
        x->on_answer(x->user, &answer);
    }
    const bool is_stranger =
        outcome == HTTP_CALL_DONE && x->oauth2 && call_is_unauthenticated(&s->target->head, response);
    call_read(&s->target->head, outcome, response, x->decoder, (int64_t)(clock_realtime() / NSEC_PER_SEC),
              &result);
    if (is_stranger && !s->was_unauthenticated)
        result.outcome = CALL_RETRYABLE;
    if (is_stranger)
        oauth2_forget(x->oauth2);
    s->was_unauthenticated = is_stranger;
    settle(s, &result);
}

static void begin_attempt(struct slot *s, uint64_t now_ns)
{
    if (s->ends > 0)
        s->client->suspect = s;
    const uint32_t k = target_pick(&s->client->targets, now_ns);
    s->target = &s->client->targets.at[k];
    s->connection = s->own[k] ? s->own[k] : s->target->shared;
    s->attempts++;
    s->began_ns = now_ns;
    s->at_ns = now_ns + s->client->timeout_ns;
    s->state = SLOT_WAITING;
}

/* The connection is wanted: calls if it is there, else has it opened. */
static void step_waiting(struct slot *s, uint64_t now_ns)
{
    if (now_ns >= s->at_ns) {
        const char *why = s->client->oauth2 ? oauth2_failure(s->client->oauth2) : "";
        fail_attempt(s, why[0] ? why : "no connection in time", 0);
        return;
    }
    const char *authorization = s->client->oauth2 ? oauth2_authorization(s->client->oauth2) : NULL;
    if (s->client->oauth2 && !authorization)
        return; /* until there is one */
    if (!connection_is_ready(s->connection)) {
        /* A little less than what the attempt has: the connector knows better what was waited for. */
        connection_open(s->connection, (s->at_ns - now_ns) / 10 * 9);
        return;
    }
    struct http_request request =
        call_request(&s->target->head, &s->to_send, s->at_ns - now_ns, authorization, s->timeout_text);
    s->state = SLOT_CALLING;
    struct http_call *call = connection_call(s->connection, &request, on_answer, s);
    if (s->state != SLOT_CALLING)
        return; /* it has ended already */
    s->call = call;
    if (call)
        return;
    s->state = SLOT_WAITING; /* the peer's concurrency limit: another call's end wakes us */
    if (connection_is_ready(s->connection))
        fail_attempt(s, "out of memory", 0); /* nothing would */
}

static void step_calling(struct slot *s, uint64_t now_ns)
{
    if (now_ns < s->at_ns)
        return;
    struct http_call *call = s->call;
    s->call = NULL;
    s->state = SLOT_WAITING; /* out of SLOT_CALLING: the call will not come back */
    connection_give_up(s->connection, call, s->began_ns);
    fail_attempt(s, "no answer in time", 0);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* The bytes are as they go on the wire: the first attempt is due at once. */
static void make_ready(struct slot *s, struct bytes bytes)
{
    if (call_body_init(&s->to_send, s->coding, bytes) != 0) {
        lose(s, CLIENT_TOO_LARGE, "larger than a message can be");
        return;
    }
    s->state = SLOT_BACKOFF;
    s->at_ns = 0;
}

/* Requests that come in turns in two codings (CLIENT_COMPRESS_AS_RECEIVED) cost an encoder each time, which
 * is little beside what encoding does. */
static int encode(struct slot *s)
{
    if (s->encoder && coding_encoder_coding(s->encoder) != s->coding)
        s->encoder = coding_encoder_free(s->encoder);
    if (!s->encoder)
        s->encoder = coding_encoder_new(s->coding, s->client->compression_level);
    return s->encoder ? coding_encode(s->encoder, client_body_bytes(s->entry->body), &s->wire) : -ENOMEM;
}

static void encode_in_pool(uv_work_t *work)
{
    struct slot *s = work->data;
    s->encoded = encode(s);
}

static void encoding_is_done(struct slot *s)
{
    if (s->encoded != 0) {
        lose(s, CLIENT_OUT_OF_MEMORY, "cannot be encoded");
        return;
    }
    s->entry->body = client_body_unref(s->entry->body); /* the others may still need it; we do not */
    make_ready(s, buffer_bytes(&s->wire));
}

static void after_encoding(uv_work_t *work, int status)
{
    struct slot *s = work->data;
    (void)status; /* never cancelled */
    encoding_is_done(s);
    if (s->client->expired && s->state != SLOT_IDLE)
        slot_abort(s);
    client_pump(s->client);
}

static void begin_request(struct slot *s, struct send_entry *entry, uint64_t now_ns)
{
    struct client *x = s->client;
    s->entry = entry;
    s->attempts = 0;
    s->hurried = 0;
    s->was_broken = false;
    s->untaken_at = NEVER_UNTAKEN;
    s->was_unauthenticated = false;
    s->ends = 0;
    retry_begin(&s->retry, now_ns);
    s->coding = call_coding(x->targets.at[0].head.compression, entry->body->received);
    if (entry->body->coding == s->coding) {
        make_ready(s, client_body_bytes(entry->body));
        return;
    }
    assert(entry->body->coding == CODING_IDENTITY); /* client_coding */
    s->state = SLOT_ENCODING;
    s->work.data = s;
    if (uv_queue_work(io_loop_uv(x->loop), &s->work, encode_in_pool, after_encoding) == 0)
        return;
    encode_in_pool(&s->work); /* no thread pool */
    encoding_is_done(s);
}

/* Another one is being tried for what both may have done. */
static bool waits_for_suspect(const struct slot *s)
{
    return s->ends > 0 && s->client->suspect && s->client->suspect != s;
}

/* ---- the machine ----------------------------------------------------------------------------- */

void slot_step(struct slot *s, uint64_t now_ns)
{
    struct client *x = s->client;
    if (s->state == SLOT_IDLE) {
        struct send_entry *entry = send_queue_pop(&x->queue);
        if (entry)
            begin_request(s, entry, now_ns);
    }
    if (s->state == SLOT_BACKOFF && now_ns >= s->at_ns && now_ns >= x->throttled_ns && !waits_for_suspect(s))
        begin_attempt(s, now_ns);
    if (s->state == SLOT_WAITING)
        step_waiting(s, now_ns);
    else if (s->state == SLOT_CALLING)
        step_calling(s, now_ns);
}

void slot_disconnected(struct slot *s, const char *why)
{
    if (s->state != SLOT_WAITING)
        return;
    s->ends += s->was_broken;
    s->was_broken = false;
    if (s->ends >= POISON_ENDS)
        lose(s, CLIENT_REFUSED, "the peer ended again and again with this request in hand");
    else
        fail_attempt(s, why, 0);
}

uint64_t slot_deadline(const struct slot *s)
{
    switch (s->state) {
    case SLOT_IDLE:
    case SLOT_ENCODING: break;
    case SLOT_WAITING:
    case SLOT_CALLING: return s->at_ns;
    case SLOT_BACKOFF:
        if (waits_for_suspect(s))
            break; /* for its end */
        return s->at_ns > s->client->throttled_ns ? s->at_ns : s->client->throttled_ns;
    }
    return UINT64_MAX;
}

void slot_abort(struct slot *s)
{
    if (s->state == SLOT_IDLE || s->state == SLOT_ENCODING)
        return;
    if (s->state == SLOT_CALLING) {
        struct http_call *call = s->call;
        s->call = NULL;
        s->state = SLOT_WAITING;
        connection_give_up(s->connection, call, 0);
    }
    lose(s, CLIENT_SHUT_DOWN, "shut down before it was acknowledged");
}
