/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said to a client that speaks plainly where TLS is wanted. For gateway/listen and gateway/admin.
 */
#ifndef GATEWAY_LISTEN_REFUSAL_H
#define GATEWAY_LISTEN_REFUSAL_H

#include "proto/base/bytes.h"

/* The words for one whose first bytes these are: HTTP/2 frames if they are the beginning of its preface, else
 * an HTTP/1 response. Static. */
struct bytes refusal_of_plaintext(struct bytes first);

#endif
