/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back end of the rule language: a checked tree lowered to what the hot path runs. Immutable and shared
 * by worker threads; each worker asks it through a matcher of its own (rules/match/match.h).
 */
#ifndef RULES_PROGRAM_PROGRAM_H
#define RULES_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "rules/tree/tree.h"

struct rules_program;
struct rule_keep; /* rules/tree/policy.h */

/* Lowers the enabled metrics of a set. The set must outlive the program. NULL with *e set: a bound was passed
 * (automata over 64 MiB, too many predicates) or memory is out. */
struct rules_program *rules_program_new(const struct rule_set *set, struct error *e);
struct rules_program *rules_program_free(struct rules_program *p);

/* The metrics it counts, numbered 0 … n - 1: those of the set that are enabled, in order. */
uint32_t rules_program_metrics(const struct rules_program *p);
const struct rule_metric *rules_program_metric(const struct rules_program *p, uint32_t i);

/* ---- what a matcher's user asks of it (rules/match/match.h) ----------------------------------------------
 */

bool rules_program_wants_inlined(const struct rules_program *p);

/* How many frames a walk may have to remember. */
uint32_t rules_program_registers(const struct rules_program *p);

/* Sources: every way samples reach a metric, numbered; and the metric's number. */
uint32_t rules_program_sources(const struct rules_program *p);
const struct rule_source *rules_program_source(const struct rules_program *p, uint32_t source);
uint32_t rules_program_source_metric(const struct rules_program *p, uint32_t source);

/* 64-bit words that a mask with a bit a source takes: at least 1. */
uint32_t rules_program_mask_words(const struct rules_program *p);

/* The enabled keep rules, numbered. None: nothing is ever kept by rules, and nobody need ask. */
uint32_t rules_program_keeps(const struct rules_program *p);
const struct rule_keep *rules_program_keep(const struct rules_program *p, uint32_t keep);

/* Attribute keys that rules mention, and names of labels. */
uint32_t rules_program_attrs(const struct rules_program *p); /* attribute keys that rules mention */
struct bytes rules_program_attr(const struct rules_program *p, uint32_t key);
struct bytes rules_program_name(const struct rules_program *p, uint32_t name);

#endif
