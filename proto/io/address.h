/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a peer's address (io_channel_peer) belongs to, when nothing better is known.
 */
#ifndef PROTO_IO_ADDRESS_H
#define PROTO_IO_ADDRESS_H

#include "proto/base/bytes.h"

#define ADDRESS_KEY_MAX 64u

/* Writes the key of a peer's address ("127.0.0.1:40312", "[2001:db8::1%eth0]:4317", "unix…") to `to`: an IPv4
 * address, also where it is mapped into IPv6 (RFC 4291 §2.5.5.2), or an IPv6 address's first 64 bits, which
 * is what one subscriber gets (RFC 6177 §2); anything else as it stands, cut. Returns it. */
struct bytes address_key(const char *address, char to[ADDRESS_KEY_MAX]);

#endif
