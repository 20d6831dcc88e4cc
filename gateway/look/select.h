/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks are asked about: a time, a type, and what labels must be, as in
 * {service_name="x",host_name=~"web.*"}.
 */
#ifndef GATEWAY_LOOK_SELECT_H
#define GATEWAY_LOOK_SELECT_H

#include "gateway/look/epoch.h"
#include "proto/base/arena.h"
#include "proto/base/error.h"

#define LOOK_MATCHERS_MAX 16u

/* The type's name where labels are matched, as Pyroscope has it. */
#define LOOK_TYPE_LABEL "__profile_type__"

struct regex;

struct look_matcher {
    enum look_label label; /* LOOK_NO_LABEL: one that nothing has, which is as if it were empty */
    bool is_type;          /* not of a label, but of the type */
    bool is_regex, is_not;
    struct bytes value;
    struct regex *regex;
};

struct look_select {
    uint64_t from_ns, to_ns; /* Unix time */
    struct bytes type;       /* p NULL: all */
    struct look_matcher matchers[LOOK_MATCHERS_MAX];
    uint32_t n;
    struct bytes trace; /* 16 bytes: only examples of it; empty: everything */
};

/* Conditions. */
enum {
    LOOK_WRONG = 1, /* what was asked is nothing of the kind; *e says why */
};

/* Reads matchers into s; texts are put into the arena. A TYPE before the brace is the type. 0, LOOK_WRONG or
 * -ENOMEM; released in any case. */
int look_select_parse(struct look_select *s, struct bytes text, struct arena *arena, struct error *e);
void look_select_release(struct look_select *s);

/* A moment: ms since 1970, RFC 3339, now, now-5m. 0 or LOOK_WRONG. */
int look_moment(struct bytes text, uint64_t now_ns, uint64_t *ret_ns);

/* Whether the coarse level can tell: it knows services only. */
bool look_select_is_of_services(const struct look_select *s);

/* Says of each series of the epoch whether it is asked for: ret[series], room for all. 0 or -ENOMEM. */
int look_select_series(const struct look_select *s, const struct look_epoch *e, uint8_t *ret);

#endif
