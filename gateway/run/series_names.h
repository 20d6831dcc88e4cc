/* SPDX-License-Identifier: Apache-2.0 */
/*
 * That each metric of the rules has a name of its own at Prometheus (E137): two metrics whose names become
 * one would be added up there, or the later one left out, and one that is called as profgate's own numbers
 * are makes a page with a family twice, which not every scraper reads.
 */
#ifndef GATEWAY_RUN_SERIES_NAMES_H
#define GATEWAY_RUN_SERIES_NAMES_H

#include "gateway/export/prometheus/names.h"
#include "rules/source/diagnostic.h"

/* Asks the metrics that are enabled, and adds to *ret what is wrong. Names go by the strategy and are then
 * escaped by underscores, as scrapers that ask for nothing else see them. 0 or -ENOMEM. */
int series_names_check(const struct rule_set *set, enum prometheus_strategy strategy,
                       struct rules_diagnostics *ret);

#endif
