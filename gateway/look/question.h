/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to the store: an endpoint of /api/v1/look/ and its parameters (README.md), read from a query
 * string.
 */
#ifndef GATEWAY_LOOK_QUESTION_H
#define GATEWAY_LOOK_QUESTION_H

#include "gateway/look/select.h"

/* Name, in words for the list of pages. */
#define LOOK_ENDPOINTS(X)                                                                          \
    X(TYPES, "types", "what there are stacks of")                                                  \
    X(SERVICES, "services", "whose they are, the busiest first")                                   \
    X(LABELS, "labels", "labels of ?query={…}; ?name=host_name: its values")                       \
    X(SERIES, "series", "over time, ?group=runtime, service, host, container, thread or a label")  \
    X(FLAME, "flame", "the call tree as columns (?query={service_name=\"x\"}&from=now-1h&to=now)") \
    X(TOP, "top", "functions, libraries or files by what they have, ?by=, ?sort=self or total")    \
    X(SANDWICH, "sandwich", "callers and callees of ?function=")                                   \
    X(DIFF, "diff", "two selections in one tree: ?a.from=…&b.from=…")                              \
    X(PPROF, "pprof", "the same as a profile for go tool pprof")                                   \
    X(FOLDED, "folded", "the same as folded stacks")                                               \
    X(RULES, "rules", "what the rules count of it, and why")                                       \
    X(EXAMPLES, "examples", "stacks with their traces; ?trace_id=: of one")                        \
    X(STATUS, "status", "what is kept, and in how much memory")

enum look_endpoint {
#define X(endpoint, name, doc) LOOK_##endpoint,
    LOOK_ENDPOINTS(X)
#undef X
        LOOK_N_ENDPOINTS
};

/* Of an answer: as it is unless somebody says so, and the most. */
#define LOOK_NODES_DEFAULT 8192u
#define LOOK_NODES_MAX     65536u

enum look_by { LOOK_BY_FUNCTION, LOOK_BY_LIBRARY, LOOK_BY_FILE };

/* That a series of the metric must have. */
struct look_metric_label {
    struct bytes name, value;
};

struct look_question {
    enum look_endpoint endpoint;
    uint64_t now_ns;
    struct arena arena;           /* of texts */
    struct look_select select[2]; /* a and b; b only of diff */
    uint32_t nodes, limit;
    const struct bytes *under; /* functions that stacks begin with, the outermost first; NULL: any */
    uint32_t n_under;
    VEC(struct bytes) root; /* what `under` is of the parameter root */
    uint64_t step_ns;       /* 0: as it fits */
    enum look_detail detail;
    bool by_total;
    enum look_by by;
    enum look_label group;         /* LOOK_NO_LABEL: runtime */
    enum look_label name;          /* whose values are asked for; LOOK_NO_LABEL: names */
    bool names_unknown;            /* a label that nothing has */
    struct bytes filter, function; /* p NULL: none */
    struct bytes metric;           /* only what it counts; p NULL: everything */
    VEC(struct look_metric_label) metric_labels;
    uint8_t trace[16]; /* of select[0].trace */
};

/* 0, LOOK_WRONG with *e saying why, or -ENOMEM; released in any case. */
int look_question_read(struct look_question *q, enum look_endpoint endpoint, struct bytes query,
                       uint64_t now_ns, struct error *e);
void look_question_release(struct look_question *q);

#endif
