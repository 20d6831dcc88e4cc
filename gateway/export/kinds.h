/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of exporters there are.
 */
#ifndef GATEWAY_EXPORT_KINDS_H
#define GATEWAY_EXPORT_KINDS_H

#include "gateway/config/kind.h"

/* For config_new; each is the `config` of a struct exporter_kind. In the order of --help-config; ends with
 * NULL. */
extern const struct config_kind *const export_kinds[];

#endif
