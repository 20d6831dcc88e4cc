/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/source/diagnostic.h"

#include <errno.h>
#include <stdlib.h>

int rules_diagnostics_add(struct rules_diagnostics *d, const struct rules_diagnostic *item)
{
    if (d->n == d->room) {
        uint32_t room = d->room ? d->room * 2 : 16;
        struct rules_diagnostic *items = realloc(d->items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        d->items = items;
        d->room = room;
    }
    d->items[d->n++] = *item;
    return 0;
}

void rules_diagnostics_release(struct rules_diagnostics *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        free(d->items[i].text);
    free(d->items);
    *d = (struct rules_diagnostics){0};
}
