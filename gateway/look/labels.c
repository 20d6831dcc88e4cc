/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/labels.h"

const struct look_label_names look_labels[LOOK_N_LABELS] = {
#define X(label, name, attribute) {name, attribute},
    LOOK_LABELS(X)
#undef X
};

enum look_label look_label_of(struct bytes name)
{
    static const struct {
        const char *name;
        enum look_label label;
    } brief[] = {{"service", LOOK_SERVICE},
                 {"host", LOOK_HOST},
                 {"container", LOOK_CONTAINER},
                 {"thread", LOOK_THREAD}};
    for (uint32_t i = 0; i < LOOK_N_LABELS; i++)
        if (bytes_is(name, look_labels[i].name))
            return (enum look_label)i;
    for (uint32_t i = 0; i < sizeof brief / sizeof *brief; i++)
        if (bytes_is(name, brief[i].name))
            return brief[i].label;
    return LOOK_NO_LABEL;
}
