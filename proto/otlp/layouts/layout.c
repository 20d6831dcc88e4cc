/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/layouts/layout.h"

const struct profiles_limits profiles_limits_default = {.column_bytes = 256u << 20, .depth = 64};

const char *profiles_layout_name(enum profiles_layout layout)
{
    switch (layout) {
    case PROFILES_LAYOUT_1_5: return "1.5";
    case PROFILES_LAYOUT_1_7: return "1.7";
    case PROFILES_LAYOUT_1_8: return "1.8";
    case PROFILES_LAYOUT_1_9: return "1.9";
    case PROFILES_LAYOUT_1_10: return "1.10";
    default: return "unknown";
    }
}
