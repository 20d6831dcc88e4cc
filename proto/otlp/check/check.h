/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checker of OTLP Profiles requests: what of a request is against the specification, on the wire and in what it
 * says, rule by rule (rules.def), each finding with its path in the message.
 *
 * It reads the bytes themselves and not the view, which is made to be tolerant. It knows every layout: those from
 * 1.8 on by their own field numbers; of 1.7 and older the wire is checked as it is, the rest as it reads
 * translated to 1.10, which the paths of such findings say.
 */
#ifndef PROTO_OTLP_CHECK_CHECK_H
#define PROTO_OTLP_CHECK_CHECK_H

#include "proto/base/budget.h"
#include "proto/otlp/check/rules.h"
#include "proto/otlp/layouts/layout.h"

struct check;

struct check_finding {
    enum check_rule rule;
    struct bytes path; /* "resource_profiles[0].scope_profiles[0].profiles[2].samples[17].link_index" */
    struct bytes text; /* what is there; "" when the rule says it all. Any bytes may be in it. */
};

/* Keeps the first `per_rule` findings of each rule, and counts all. Memory is on the budget (may be NULL). NULL
 * when there is none. */
struct check *check_new(uint32_t per_rule, struct budget *budget);
struct check *check_free(struct check *c);

/* Checks an ExportProfilesServiceRequest or ProfilesData of less than 4 GiB, with PROFILES_PADDING readable bytes
 * behind it, and adds what is found to what was before. `layout` is what it is known to have; UNKNOWN: that is found
 * out. Any bytes are safe; linear but for sorting attributes of one thing, iterative, and memory is a few times
 * the tables' entries. 0, -EFBIG, or -ENOMEM (memory or budget; findings until then stay). */
int check_request(struct check *c, struct bytes body, enum profiles_layout layout);

/* Of all requests since the last clear: how often a rule was broken; the findings kept, in the order found. Valid
 * until the next request or clear. */
uint64_t check_count(const struct check *c, enum check_rule rule);
const struct check_finding *check_findings(const struct check *c, uint32_t *ret_n);

/* Forgets counts and findings; keeps some memory for the next request. */
void check_clear(struct check *c);

#endif
