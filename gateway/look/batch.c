/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/batch.h"

#include <errno.h>
#include <stdlib.h>

/* Text grows by so much at least, so that a batch is charged for it a few times. */
#define TEXT_STEP ((size_t)16 << 10)

struct look_batch *look_batch_new(struct budget *budget)
{
    struct look_batch *b = budget_charge(budget, sizeof *b) ? calloc(1, sizeof *b) : NULL;
    if (!b)
        return NULL;
    b->budget = budget;
    b->strings.budget = b->frames.budget = b->stacks.budget = b->series.budget = b->events.budget = budget;
    b->examples.budget = budget;
    b->string_of.budget = b->series_of.budget = budget;
    if (vec_append(&b->strings, (struct look_text){0}) < 0)
        return look_batch_free(b);
    return b;
}

struct look_batch *look_batch_free(struct look_batch *b)
{
    if (!b)
        return NULL;
    buffer_release(&b->text);
    vec_release(&b->strings);
    vec_release(&b->frames);
    vec_release(&b->stacks);
    vec_release(&b->series);
    vec_release(&b->events);
    vec_release(&b->examples);
    idmap_release(&b->string_of);
    idmap_release(&b->series_of);
    budget_refund(b->budget, b->charged + sizeof *b);
    free(b);
    return NULL;
}

static int text_room(struct look_batch *b, size_t more)
{
    if (b->text.n + more <= b->charged)
        return 0;
    if (b->text.n + more > UINT32_MAX)
        return -ENOMEM;
    const size_t wanted = max_of(2 * b->text.n, b->text.n + more + TEXT_STEP);
    if (!budget_charge(b->budget, wanted - b->charged))
        return -ENOMEM;
    const size_t was = b->charged;
    b->charged = wanted;
    if (buffer_reserve(&b->text, wanted - b->text.n) == 0)
        return 0;
    budget_refund(b->budget, wanted - was);
    b->charged = was;
    return -ENOMEM;
}

int look_batch_add(struct look_batch *b, struct bytes text, uint64_t hash, uint32_t *ret)
{
    *ret = LOOK_EMPTY;
    if (text.n == 0)
        return 0;
    uint32_t *place = idmap_place(&b->string_of, hash == IDMAP_FREE ? 0 : hash, LOOK_EMPTY);
    if (!place)
        return -ENOMEM;
    if (*place == LOOK_EMPTY) {
        text = bytes_cut(text, LOOK_NAME_MAX);
        if (text_room(b, text.n) < 0 ||
            vec_append(&b->strings, (struct look_text){(uint32_t)b->text.n, (uint32_t)text.n}) < 0)
            return -ENOMEM;
        buffer_add_bytes(&b->text, text);
        *place = b->strings.n - 1;
    }
    *ret = *place;
    return 0;
}
