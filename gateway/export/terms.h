/* SPDX-License-Identifier: Apache-2.0 */
/* What a request of raw profiles must be for an exporter, or for all of them, to take it. */
#ifndef GATEWAY_EXPORT_TERMS_H
#define GATEWAY_EXPORT_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_terms {
    size_t request_max;  /* bytes; a larger one is lost there */
    uint32_t queue_size; /* more reservations than that never fit */
    bool no_references;  /* it reads layout 1.9, which has no key_strindex and the like */
    size_t room_max;     /* bytes; a larger reservation never fits, however long one waits; 0: unlimited */
};

#endif
