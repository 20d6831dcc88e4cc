/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One test of a rule file (LANGUAGE §7) ready to be asked: its own pack's rules lowered, its profile built,
 * a matcher. Private to the runner of tests (run_tests.c) and to what they exercise (coverage.c).
 */
#ifndef RULES_PROVE_PROOF_RUNNER_H
#define RULES_PROVE_PROOF_RUNNER_H

#include "proto/base/error.h"
#include "proto/base/vec.h"
#include "rules/program/lower.h"
#include "rules/match/match.h"
#include "rules/match/keep.h"
#include "rules/match/weigh.h"

/* A series that was counted. */
struct sum {
    uint32_t series;
    int64_t amount; /* nanoseconds where the value is time */
    bool is_time;
    bool expected;
};

struct test_runner {
    const struct rule_test *test;
    struct rules_program *program;
    struct rules_matcher *matcher;
    struct rules_register *registers;
    uint32_t active;
    struct rules_time time;
    uint32_t n_probes;
    bool *held;                       /* [probe] */
    uint32_t keep_active, of_profile; /* the largest share of the profile that a sample asks for */
    uint32_t *kept; /* [sample] rules_matcher_kept, or RULES_NONE of a stack without frames */

    uint32_t sample; /* being run */
    struct rules_frame *frames;
    uint32_t *items, *classes;
    VEC(struct sum) sums;
};

/* Lowers and builds; the test is r->test, the rest is zero. 0; -ENOMEM; 1: the rules pass a bound, *e says
 * which. */
int test_prepare(struct test_runner *r, struct error *e);
void test_release(struct test_runner *r);

/* Frames and walk of sample i; false for an empty stack (or no memory). */
bool test_walk(struct test_runner *r, uint32_t i, struct rules_verdict *v);
struct rules_asker test_asker(struct test_runner *r);

#endif
