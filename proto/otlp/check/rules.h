/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that a request is checked for: rules.def as an enum and as a table.
 */
#ifndef PROTO_OTLP_CHECK_RULES_H
#define PROTO_OTLP_CHECK_RULES_H

#include "proto/base/bytes.h"

enum check_severity {
    CHECK_NOTE,
    CHECK_WARNING,
    CHECK_ERROR,
    CHECK_SEVERITIES,
};

enum check_rule {
#define RULE(name, id, severity, title, source, says, fix) CHECK_##name,
#include "proto/otlp/check/rules.def"
#undef RULE
    CHECK_RULES,
};

/* A row of rules.def. */
struct check_rule_row {
    const char *id; /* "string-index": what it is called in every output */
    enum check_severity severity;
    const char *title;  /* what is wrong, without the last full stop, as the others */
    const char *source; /* the document and the place in it */
    const char *says;   /* what is said there */
    const char *fix;
};

const struct check_rule_row *check_rule_row(enum check_rule rule);

/* "error", "warning", "note". */
const char *check_severity_name(enum check_severity severity);

#endif
