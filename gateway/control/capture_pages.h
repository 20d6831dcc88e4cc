/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person captures: POST /api/v1/capture begins and ends it, GET /api/v1/captures shows what lasts,
 * triggers' captures, too. Control loop.
 */
#ifndef GATEWAY_CONTROL_CAPTURE_PAGES_H
#define GATEWAY_CONTROL_CAPTURE_PAGES_H

#include "gateway/admin/page.h"
#include "gateway/control/capture.h"
#include "proto/base/clock.h"

/* As long as somebody may forget one; and as many at once as people and their scripts look at. */
#define CAPTURES_LASTING_MAX_NS ((uint64_t)3600 * NSEC_PER_SEC)
#define CAPTURES_BY_HAND_MAX    16u

/* captures must outlive the server. */
struct admin_page capture_page(struct captures *captures);
struct admin_page captures_page(struct captures *captures);

#endif
