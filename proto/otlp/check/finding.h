/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in a request that breaks a rule.
 */
#ifndef PROTO_OTLP_CHECK_FINDING_H
#define PROTO_OTLP_CHECK_FINDING_H

#include "proto/otlp/check/rules.h"

struct check_finding {
    enum check_rule rule;
    struct bytes path; /* "resource_profiles[0].scope_profiles[0].profiles[2].samples[17].link_index"; "": the
                          request */
    struct bytes text; /* what is there; "" when the rule says it all. Any bytes may be in it. */
};

#endif
