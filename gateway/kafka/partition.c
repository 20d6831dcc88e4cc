/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/kafka/partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

struct partition *partitions_find(const struct partitions *ps, const char *topic, int32_t id)
{
    for (uint32_t i = 0; i < ps->of.n; i++) {
        struct partition *p = ps->of.p[i];
        if (p->id == id && strcmp(p->topic, topic) == 0)
            return p;
    }
    return NULL;
}

static void free_partition(struct partition *p)
{
    free(p->topic);
    free(p);
}

int partitions_add(struct partitions *ps, const char *topic, int32_t id)
{
    struct partition *p = calloc(1, sizeof *p);
    if (!p || !(p->topic = strdup(topic)) || vec_append(&ps->of, p) < 0) {
        if (p)
            free_partition(p);
        return -ENOMEM;
    }
    p->all = ps;
    p->id = id;
    TAILQ_INIT(&p->messages);
    p->missing = -1;
    progress_init(&p->progress);
    bad_batch_init(&p->bad);
    return 0;
}

void partitions_remove(struct partitions *ps, struct partition *p)
{
    for (uint32_t i = 0; i < ps->of.n; i++)
        if (ps->of.p[i] == p)
            ps->of.p[i] = vec_pop(&ps->of);
    p->is_gone = true;
    partition_sweep(p, true);
}

bool partition_is_settled(const struct partition *p)
{
    return p->n_working == 0 && progress_is_settled(&p->progress);
}

static bool is_working(enum message_state s)
{
    return s == MESSAGE_WORKING || s == MESSAGE_UNSAFE;
}

/* Its state is counted, or not any more. */
static void count(const struct message *m, uint32_t n)
{
    struct partitions *ps = m->partition->all;
    if (m->state == MESSAGE_READY)
        ps->n_ready += n;
    if (is_working(m->state)) {
        ps->n_working += n;
        m->partition->n_working += n;
    }
}

void message_becomes(struct message *m, enum message_state state)
{
    count(m, -1u);
    m->state = state;
    count(m, 1);
}

void partition_add(struct partition *p, struct message *m, rd_kafka_message_t *from, int64_t end)
{
    m->partition = p;
    m->from = from;
    m->end = end;
    m->state = MESSAGE_READY;
    count(m, 1);
    TAILQ_INSERT_TAIL(&p->messages, m, next);
    p->all->n_messages++;
    p->all->bytes += from ? from->len : 0;
}

static void free_message(struct message *m)
{
    struct partitions *ps = m->partition->all;
    count(m, -1u);
    ps->n_messages--;
    if (m->from) {
        ps->bytes -= m->from->len;
        rd_kafka_message_destroy(m->from);
    }
    free(m);
}

void partition_sweep(struct partition *p, bool all)
{
    for (struct message *m = TAILQ_FIRST(&p->messages), *next; m; m = next) {
        const bool is_head = m == TAILQ_FIRST(&p->messages);
        next = TAILQ_NEXT(m, next);
        if (m->state == MESSAGE_DONE && is_head)
            progress_done(&p->progress, m->end, clock_monotonic());
        if ((m->state == MESSAGE_DONE && (is_head || all || p->is_gone)) ||
            (m->state == MESSAGE_READY && (all || p->is_gone))) {
            TAILQ_REMOVE(&p->messages, m, next);
            free_message(m);
        }
    }
    if (p->is_gone && TAILQ_EMPTY(&p->messages))
        free_partition(p);
}

void partitions_release(struct partitions *ps)
{
    for (uint32_t i = 0; i < ps->of.n; i++) {
        for (struct message *m; (m = TAILQ_FIRST(&ps->of.p[i]->messages));) {
            TAILQ_REMOVE(&ps->of.p[i]->messages, m, next);
            free_message(m);
        }
        free_partition(ps->of.p[i]);
    }
    vec_release(&ps->of);
}
