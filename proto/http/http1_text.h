/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of HTTP/1 messages that we write. For proto/http only.
 */
#ifndef PROTO_HTTP_HTTP1_TEXT_H
#define PROTO_HTTP_HTTP1_TEXT_H

#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/http/exchange.h"

#define HTTP_DATE_N 29u

/* "OK"; "" for a number nobody knows. RFC 9110 §15. */
const char *http_status_phrase(uint32_t status);

/* The time now as Date wants it (RFC 9110 §5.6.7), made once a second per thread. The one place of proto/http
 * that asks a clock: no caller could have a reason to say another time. */
struct bytes http_date(void);

/* "name: value\r\n". Bytes that could end the line (CR, LF, NUL) are written as blanks, so that no value from
 * outside can add a header. 0 or -ENOMEM. */
int http1_add_header(struct buffer *out, struct bytes name, struct bytes value);

#endif
