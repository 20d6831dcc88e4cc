/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/pending.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"

#define SLOTS 4096u

static size_t size_of(const struct sample_head *head)
{
    return sizeof(struct pending_stack) + SAMPLE_BODY_BYTES(head);
}

static struct pending_stack **slot_of(const struct pending *p, uint64_t ticket)
{
    return &p->slot[hash_mix(ticket, 0) % SLOTS];
}

static void unlink_age(struct pending *p, struct pending_stack *s)
{
    *(s->older ? &s->older->newer : &p->oldest) = s->newer;
    *(s->newer ? &s->newer->older : &p->newest) = s->older;
}

struct pending_stack *pending_take(struct pending *p, uint64_t ticket)
{
    if (!p->slot)
        return NULL;
    struct pending_stack **at = slot_of(p, ticket);
    while (*at && (*at)->head.ticket != ticket)
        at = &(*at)->next;
    struct pending_stack *found = *at;
    if (!found)
        return NULL;
    *at = found->next;
    unlink_age(p, found);
    p->n--;
    p->bytes -= size_of(&found->head);
    return found;
}

void pending_add(struct pending *p, const struct sample_head *head, const uint64_t *body)
{
    size_t size = size_of(head);
    if (!p->slot)
        p->slot = calloc(SLOTS, sizeof *p->slot);
    struct pending_stack *fresh = p->slot ? malloc(size) : NULL;
    if (!fresh) {
        p->dropped++;
        return;
    }
    free(pending_take(p, head->ticket)); /* its value was lost: the kernel side counted that */
    while (p->oldest && (p->n >= PENDING_MAX || p->bytes + size > PENDING_BYTES)) {
        free(pending_take(p, p->oldest->head.ticket));
        p->dropped++;
    }
    struct pending_stack **slot = slot_of(p, head->ticket);
    *fresh = (struct pending_stack){.next = *slot, .older = p->newest, .head = *head};
    memcpy(fresh->body, body, size - sizeof *fresh);
    *(p->newest ? &p->newest->newer : &p->oldest) = fresh;
    p->newest = fresh;
    *slot = fresh;
    p->n++;
    p->bytes += size;
}

/* A value may be in one of so many places, and drives out the oldest in them: a single one would be another
 * ticket's too soon, though those that are waited for are few. */
#define WAYS 4u

static struct pending_value *places_of(const struct pending *p, uint64_t ticket)
{
    return &p->value[hash_mix(ticket, 0) % (PENDING_VALUES / WAYS) * WAYS];
}

void pending_value(struct pending *p, const struct sample_head *head)
{
    if (!p->value)
        p->value = calloc(PENDING_VALUES, sizeof *p->value);
    if (!p->value)
        return;
    struct pending_value *way = places_of(p, head->ticket), *to = way;
    for (uint32_t i = 1; i < WAYS; i++)
        if (way[i].ticket == head->ticket || (to->ticket != head->ticket && way[i].time < to->time))
            to = &way[i];
    *to = (struct pending_value){head->ticket, head->value, head->time};
}

bool pending_take_value(struct pending *p, uint64_t ticket, struct pending_value *ret)
{
    struct pending_value *way = p->value ? places_of(p, ticket) : NULL;
    for (uint32_t i = 0; way && i < WAYS; i++) {
        if (way[i].ticket != ticket)
            continue;
        *ret = way[i];
        way[i] = (struct pending_value){0};
        return true;
    }
    return false;
}

void pending_release(struct pending *p)
{
    while (p->oldest)
        free(pending_take(p, p->oldest->head.ticket));
    free(p->slot);
    free(p->value);
    *p = (struct pending){0};
}
