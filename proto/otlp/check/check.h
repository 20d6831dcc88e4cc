/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checker of OTLP Profiles requests: what of a request is against the specification, on the wire and in
 * what it says, rule by rule (rules.def), each finding with its path in the message.
 *
 * It reads the bytes themselves and not the view, which is made to be tolerant. It knows every layout: those
 * from 1.8 on by their own field numbers; of 1.7 and older the wire is checked as it is, the rest as it reads
 * translated to 1.10, which the paths of such findings say.
 */
#ifndef PROTO_OTLP_CHECK_CHECK_H
#define PROTO_OTLP_CHECK_CHECK_H

#include <stdbool.h>

#include "proto/base/budget.h"
#include "proto/otlp/check/finding.h"
#include "proto/otlp/layouts/layout.h"

struct check;

/* Conditions of check_request. */
enum {
    CHECK_TOO_LARGE = 1, /* 4 GiB and more: it was not looked at */
};

/* Keeps the first `per_rule` findings of each rule, and counts all. Memory is on the budget (may be NULL).
 * NULL when there is none. */
struct check *check_new(uint32_t per_rule, struct budget *budget);
struct check *check_free(struct check *c);

/* Checks an ExportProfilesServiceRequest or ProfilesData, with PROFILES_PADDING readable
 * bytes behind it, and adds what is found to what was before. `layout` is what it is known to have; UNKNOWN:
 * that is found out. `is_own_order`: the order of fields is
 * its writer's, as it is not where the bytes were made from JSON. Any bytes are safe; iterative, and linear
 * but for sorting the attributes of one thing; memory: README.md. 0, the condition above, or -ENOMEM (memory
 * or budget; what was found until then stays). */
int check_request(struct check *c, struct bytes body, enum profiles_layout layout, bool is_own_order);

/* Of all requests since the last clear: how often a rule was broken; the findings kept, in the order found.
 * Valid until the next request or clear. */
uint64_t check_count(const struct check *c, enum check_rule rule);
const struct check_finding *check_findings(const struct check *c, uint32_t *ret_n);

/* Forgets counts and findings; keeps some memory for the next request. */
void check_clear(struct check *c);

#endif
