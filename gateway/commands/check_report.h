/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `profgate check` prints: findings by file as text for people, as JSON, or as SARIF 2.1.0 (OASIS), to
 * standard output.
 */
#ifndef GATEWAY_COMMANDS_CHECK_REPORT_H
#define GATEWAY_COMMANDS_CHECK_REPORT_H

#include "proto/otlp/check/check.h"

struct check_report;

/* Tells what is of this severity or worse. NULL when memory is out. */
typedef struct check_report *check_report_new(enum check_severity least);
check_report_new check_report_text, check_report_json, check_report_sarif;
struct check_report *check_report_free(struct check_report *r);

/* A file: it begins, each of its requests (`place` names it) brought so many findings more, it ends with all
 * that is in `c`. One that ends otherwise is told in no word. All: 0 or -ENOMEM. */
int check_report_begin(struct check_report *r, const char *path);
int check_report_request(struct check_report *r, const char *place, uint32_t n_findings);
int check_report_end(struct check_report *r, const struct check *c);

/* Behind the last file. */
int check_report_finish(struct check_report *r);

/* The rules themselves: as text, or as JSON. */
void check_report_rules(bool json);

#endif
