/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/check proto/otlp/view */
/*
 * A checker of whatever comes: it ends, stays in its memory and gives all of it back. Where it finds the wire
 * to be no message, the decoder does not take it either; what it finds no error in, the decoder takes whole.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/otlp/check/check.h"
#include "proto/otlp/view/profiles.h"
#include "tests/fuzz/fuzz.h"

static uint64_t errors(const struct check *c)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < CHECK_RULES; i++)
        if (check_rule_row((enum check_rule)i)->severity == CHECK_ERROR)
            n += check_count(c, (enum check_rule)i);
    return n;
}

/* What the decoder rejects of it, in the layout of today. */
static void compare(const struct check *c, struct bytes body)
{
    struct error e = {""};
    cleanup(profiles_release) struct profiles v;
    require(profiles_init(&v, NULL) == 0);
    int r = profiles_decode_as(&v, body, PROFILES_LAYOUT_1_10, &profiles_limits_default, &e);
    if (errors(c) == 0 && check_count(c, CHECK_LINK_0) == 0)
        require((r == 0 && v.rejected.samples == 0) || r == PROFILES_OVER_BUDGET || r == PROFILES_TOO_LARGE ||
                strstr(e.text, "hold nothing") || strstr(e.text, "deep"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    struct check *c = check_new(2, &budget);
    autofree uint8_t *body = calloc(1, len + PROFILES_PADDING);
    require(c && body);
    if (len > 0)
        memcpy(body, data, len);
    for (enum profiles_layout layout = PROFILES_LAYOUTS; layout-- > PROFILES_LAYOUT_UNKNOWN;) {
        const int r = check_request(c, bytes_of(body, len), layout, true);
        uint32_t n;
        const struct check_finding *f = check_findings(c, &n);
        require(r == 0 || r == -ENOMEM);
        for (uint32_t i = 0; i < n; i++)
            require(check_count(c, f[i].rule) > 0 && f[i].path.n < 8192 && f[i].text.n < 512);
        if (layout == PROFILES_LAYOUT_1_10 && r == 0)
            compare(c, bytes_of(body, len));
        check_clear(c);
    }
    check_free(c);
    require(budget.used == 0);
    return 0;
}
