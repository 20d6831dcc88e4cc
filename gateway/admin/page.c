/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/page.h"

void admin_say(struct admin_answer *a, uint32_t status, const char *words)
{
    a->status = status;
    a->type = ADMIN_TYPE_TEXT;
    a->words = words;
}

void admin_say_json(struct admin_answer *a, int r)
{
    if (r < 0)
        admin_say(a, 500, "out of memory\n");
    else
        a->type = ADMIN_TYPE_JSON;
}
