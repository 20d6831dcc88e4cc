/*
 * The back end of the rule language: a checked tree lowered to what the hot path runs. Immutable and shared by worker
 * threads; each worker asks it through a matcher of its own (match.h).
 */
#ifndef RULES_PROGRAM_H
#define RULES_PROGRAM_H

#include <stdint.h>

#include "proto/base/error.h"
#include "rules/tree.h"

struct rules_program;

/* Lowers the enabled metrics of a set. The set must outlive the program. NULL with *e set: a bound was passed (automata
 * over 64 MiB, too many predicates) or memory is out. */
struct rules_program *rules_program_new(const struct rule_set *set, struct error *e);
struct rules_program *rules_program_free(struct rules_program *p);

/* The metrics it counts, numbered 0 … n - 1: those of the set that are enabled, in order. */
uint32_t rules_program_metrics(const struct rules_program *p);
const struct rule_metric *rules_program_metric(const struct rules_program *p, uint32_t i);

#endif
