/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What triggers.c, its pages (triggers_show.c) and those of captures share.
 */
#ifndef GATEWAY_CONTROL_PARTS_H
#define GATEWAY_CONTROL_PARTS_H

#include "gateway/aggregate/watch.h"
#include "proto/base/json.h"
#include "rules/trigger/trigger.h"

/* A group that fires. */
struct firing {
    struct firing *next;
    char *text;           /* "service.name=shop,host.name=a": how people see it */
    struct bytes *values; /* one a key, .p NULL: absent; in one piece with their bytes */
    uint64_t since_ns;
    double value;     /* when it began */
    bool is_captured; /* by capture_id */
    uint32_t capture_id;
};

/* One trigger at work. */
struct active_trigger {
    struct control_triggers *owner;
    uint32_t number; /* in triggers */
    const struct rule_trigger *rule;
    struct watch *watch;
    double part_unit, whole_unit; /* what one of the merger's units of addition is: 1, or a nanosecond */
    uint64_t fired;
    struct firing *firing;
};

struct control_triggers {
    struct store *store;
    struct captures *captures;
    struct triggers *triggers;
    struct active_trigger *items;
    uint32_t n;
    uint64_t now_ns; /* of the second being looked at, or the last one */
};

/* {"service.name":"checkout"}: what a group of resources says, null where a value is absent (p is NULL). Keys
 * are cut at 255 bytes, values at 1 MiB. */
void put_members(struct json *j, const struct bytes *keys, const struct bytes *values, uint32_t n);

#endif
