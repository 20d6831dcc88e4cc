/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/kinds.h"

#include "gateway/export/exporter.h"

/* clang-format off */
#define KINDS(X)    \
    X(otlp)         \
    X(file)         \
    X(kafka)        \
    X(remote_write)
/* clang-format on */

/* Each is defined in the folder of that name. */
#define DECLARE(name) extern const struct exporter_kind exporter_##name;
KINDS(DECLARE)

#define ROW(name) &exporter_##name.config,
const struct config_kind *const export_kinds[] = {KINDS(ROW) NULL};
