/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/kafka/bad_batch.h"

#include "proto/base/macros.h"

void bad_batch_init(struct bad_batch *b)
{
    *b = (struct bad_batch){.base = -1};
}

static bool is_sought(const struct bad_batch *b)
{
    return b->base >= 0 && b->n >= BAD_BATCH_SURE;
}

/* `at`: where is being read now. */
static enum bad_batch_turn look_on(struct bad_batch *b, int64_t *at)
{
    const int64_t room = b->next - b->last;
    if (room <= 1) {
        *at = b->asked == b->next ? -1 : b->next;
        return BAD_BATCH_OVER;
    }
    *at = b->asked = b->last + (b->step < room ? b->step : room / 2);
    b->step *= 2;
    return BAD_BATCH_SEEK;
}

enum bad_batch_turn bad_batch_failed(struct bad_batch *b, int64_t base, int64_t end, int64_t *at)
{
    if (is_sought(b) && base > b->base) { /* another one, behind it */
        b->next = min_of(b->next, min_of(b->asked, base));
        return look_on(b, at);
    }
    if (is_sought(b) && base == b->base) {
        b->last = max_of(b->last, b->asked);
        return look_on(b, at);
    }
    if (base != b->base)
        *b = (struct bad_batch){.base = base};
    if (++b->n < BAD_BATCH_SURE)
        return BAD_BATCH_NONE;
    b->last = b->asked = base;
    b->next = max_of(end, base + 1);
    b->step = 1;
    return look_on(b, at);
}

enum bad_batch_turn bad_batch_passed(struct bad_batch *b, int64_t offset, int64_t *at)
{
    if (!is_sought(b) || offset < b->asked) { /* it is read elsewhere now: retention, or another leader */
        bad_batch_init(b);
        return BAD_BATCH_NONE;
    }
    b->next = min_of(b->next, b->asked);
    return look_on(b, at);
}
