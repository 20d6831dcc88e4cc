/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/convert proto/otlp/view proto/coding */
/*
 * Arrow streams as parca-agent pushes them: any bytes are refused with words or become a request that the
 * view takes whole, within its bounds; and nothing stays on the budget.
 */
#include <string.h>

#include "proto/base/room.h"
#include "proto/convert/from_parca.h"
#include "proto/otlp/view/profiles.h"
#include "tests/fuzz/fuzz.h"

#define OUT_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct profiles_limits limits = {.column_bytes = 256u << 20, .depth = 64};
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    struct buffer out = BUFFER_INIT(OUT_MAX);
    struct error e = {""};
    struct profiles view;
    struct from_parca *c = from_parca_new(&budget);
    require(c && profiles_init(&view, NULL) == 0);
    const int r = from_parca(c, bytes_of(data, len), NULL, &out, &e);
    require((r == FROM_PARCA_MALFORMED) == (e.text[0] != 0) && (r == 0 || out.n == 0));
    if (r == 0 && profiles_decode_as(&view, buffer_bytes(&out), PROFILES_LAYOUT_1_10, &limits, &e) == 0)
        require(view.rejected.samples == 0);
    profiles_release(&view);
    room_release(&out, &budget);
    from_parca_free(c);
    require(budget.used == 0);
    return 0;
}
