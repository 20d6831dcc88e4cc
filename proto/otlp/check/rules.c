/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/check/rules.h"

static const struct check_rule_row rows[] = {
#define RULE(name, id, severity, title, source, says, fix) \
    [CHECK_##name] = {id, CHECK_##severity, title, source, says, fix},
#include "proto/otlp/check/rules.def"
};

const struct check_rule_row *check_rule_row(enum check_rule rule)
{
    return &rows[rule];
}

const char *check_severity_name(enum check_severity severity)
{
    static const char *const names[] = {
        [CHECK_NOTE] = "note", [CHECK_WARNING] = "warning", [CHECK_ERROR] = "error"};
    return names[severity];
}
