/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/connections.h"

#include <errno.h>

#include "proto/base/macros.h"
#include "proto/io/channel.h"
#include "proto/io/idle.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

static struct connections *of_host(struct connection_host *h)
{
    return container_of(h, struct connections, host);
}

/* ---- deadlines ---- */

static void arm(struct connection_host *h)
{
    struct deadline *d = deadlines_first(&h->deadlines);
    io_timer_set(of_host(h)->timer, d ? d->at : UINT64_MAX);
}

static void on_timer(void *user)
{
    struct connections *s = user;
    struct deadlines *deadlines = &s->host.deadlines;
    uint64_t now = io_loop_now(s->host.loop);
    for (struct deadline *d = deadlines_first(deadlines); d && d->at <= now; d = deadlines_first(deadlines))
        connection_tick(connection_of(container_of(d, struct connection_node, deadline)));
    arm(&s->host);
}

/* ---- late output ---- */

static void give(struct connections *s, struct connection_node *n);

static void late(struct connection_host *h, struct connection_node *n)
{
    struct connections *s = of_host(h);
    if (n->is_late)
        return;
    n->is_late = true;
    n->next_late = s->late;
    s->late = n;
    io_timer_set(s->late_timer, 0);
}

/* Whoever leaves while it is worked on leaves later. */
static void say(struct connections *s, bool may_leave)
{
    s->host.answers_since = UINT64_MAX;
    for (struct connection_node *n = take_ptr(s->late), *next; n; n = next) {
        next = take_ptr(n->next_late);
        n->is_late = false;
        connection_late(connection_of(n));
        if (!connection_leaves(n, &s->host))
            continue;
        if (may_leave)
            give(s, n);
        else
            late(&s->host, n);
    }
}

static void on_late(void *user)
{
    say(user, true);
}

static void say_late(struct connection_host *h)
{
    say(of_host(h), false);
}

/* ---- who leaves for another worker ---- */

static void look(struct connection_host *h)
{
    io_timer_set(of_host(h)->look_timer, 0);
}

/* Of those that were not chosen already the one that leaves least excess; NULL: nobody should go. */
static struct connection_node *best_to_go(struct connections *s, const struct balance_gift *gift)
{
    struct connection_node *best = NULL;
    uint64_t window = s->host.balance.window, least = UINT64_MAX;
    struct connection_node *n;
    LIST_FOREACH (n, &s->list, others) {
        uint64_t left = balance_left(gift, balance_get(&n->used, window));
        if (left < least && !connection_leaves(n, &s->host)) {
            least = left;
            best = n;
        }
    }
    return best;
}

static void choose(struct connections *s, struct connection_node *n, struct balance_gift *gift)
{
    uint64_t window = s->host.balance.window;
    gift->excess = balance_left(gift, balance_get(&n->used, window));
    n->to = gift->to;
    n->leaves_until = window + BALANCE_REST;
    late(&s->host, n);
    balance_gave(&s->host.balance);
}

/* Chooses who leaves: the best few, then, where many use little, whoever fits. Each goes when it is idle, at
 * once or after its next piece of work. */
static void on_look(void *user)
{
    struct connections *s = user;
    struct balance *b = &s->host.balance;
    struct balance_gift gift = balance_look(b, clock_monotonic());
    if (gift.excess == 0 || s->shutting_down)
        return;
    struct connection_node *n;
    for (uint32_t i = 0; i < CONNECTIONS_BEST && (n = best_to_go(s, &gift)); i++)
        choose(s, n, &gift);
    LIST_FOREACH (n, &s->list, others)
        if (gift.excess > gift.enough && !connection_leaves(n, &s->host) &&
            balance_left(&gift, balance_get(&n->used, b->window)) != UINT64_MAX)
            choose(s, n, &gift);
}

/* ---- turns ---- */

static void await_turn(struct connection_host *h)
{
    io_idle_start(of_host(h)->turn_idle);
}

static void on_turn(void *user)
{
    struct connections *s = user;
    struct turns *turns = &s->host.turns;
    turns_begin(turns, io_loop_now(s->host.loop));
    for (struct turn *t; (t = turns_next(turns));)
        connection_turn(connection_of(container_of(t, struct connection_node, turn)));
    if (turns_is_empty(turns))
        io_idle_stop(s->turn_idle);
}

/* ---- coming and going ---- */

static void add(struct connections *s, struct connection_node *n)
{
    LIST_INSERT_HEAD(&s->list, n, others);
    s->n++;
    stats_set(s->host.stats, STATS_CONNECTIONS_OPEN, s->n);
}

static void take_out(struct connections *s, struct connection_node *n)
{
    LIST_REMOVE(n, others);
    s->n--;
    stats_set(s->host.stats, STATS_CONNECTIONS_OPEN, s->n);
}

static void gone(struct connection_host *h, struct connection_node *n)
{
    struct connections *s = of_host(h);
    take_out(s, n);
    for (struct connection_node **at = &s->late; n->is_late && *at; at = &(*at)->next_late)
        if (*at == n) {
            *at = n->next_late;
            break;
        }
    atomic_fetch_sub(s->of_all, 1);
    if (s->n == 0)
        s->is_empty(s->user);
}

void connections_accept(struct connections *s, struct io_channel *channel,
                        const struct connection_origin *origin)
{
    struct connection *c = NULL;
    uint64_t began = clock_monotonic();
    if (atomic_fetch_add(s->of_all, 1) < s->of_all_max)
        c = connection_accept(&s->host, channel, origin);
    if (!c) {
        atomic_fetch_sub(s->of_all, 1);
        stats_add(s->host.stats, STATS_CONNECTIONS_REFUSED, 1);
        io_channel_close(channel);
        return;
    }
    add(s, connection_node(c));
    stats_add(s->host.stats, STATS_CONNECTIONS, 1);
    connection_start(c, began);
    arm(&s->host);
}

static void give(struct connections *s, struct connection_node *n)
{
    int fd = s->shutting_down ? -1 : connection_leave(connection_of(n));
    if (fd < 0)
        return; /* not idle: after its next piece of work */
    take_out(s, n);
    n->leaves_until = 0;
    n->way.fd = fd;
    n->used = (struct balance_sum){0};
    if (!s->give(s->user, n, n->to))
        connections_arrive(s, n); /* nobody is there any more: it stays */
}

void connections_arrive(struct connections *s, struct connection_node *n)
{
    if (connection_arrive(connection_of(n), &s->host, n->way.fd)) {
        add(s, n);
        if (s->shutting_down)
            connection_shutdown(connection_of(n));
        arm(&s->host);
        return;
    }
    atomic_fetch_sub(s->of_all, 1);
}

void connections_shutdown(struct connections *s)
{
    s->shutting_down = true;
    struct connection_node *n;
    LIST_FOREACH (n, &s->list, others)
        connection_shutdown(connection_of(n));
}

void connections_close(struct connections *s)
{
    struct connection_node *n;
    LIST_FOREACH (n, &s->list, others)
        connection_close(connection_of(n));
}

/* ---- life ---- */

int connections_init(struct connections *s)
{
    struct connection_host *h = &s->host;
    turns_init(&h->turns);
    h->gone = gone;
    h->arm = arm;
    h->turn = await_turn;
    h->late = late;
    h->say_late = say_late;
    h->answers_since = UINT64_MAX;
    h->look = look;
    s->timer = io_timer_new(h->loop, on_timer, s);
    s->late_timer = io_timer_new(h->loop, on_late, s);
    s->look_timer = io_timer_new(h->loop, on_look, s);
    s->turn_idle = io_idle_new(h->loop, on_turn, s);
    return s->timer && s->late_timer && s->look_timer && s->turn_idle ? 0 : -ENOMEM;
}

void connections_release(struct connections *s)
{
    s->timer = io_timer_free(s->timer);
    s->late_timer = io_timer_free(s->late_timer);
    s->look_timer = io_timer_free(s->look_timer);
    s->turn_idle = io_idle_free(s->turn_idle);
    deadlines_release(&s->host.deadlines);
    buffer_release(&s->host.out);
    buffer_release(&s->host.plain);
    buffer_release(&s->host.cipher);
}
