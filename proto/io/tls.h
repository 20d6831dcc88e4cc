/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS as a filter between a channel and a session: ciphertext in, plaintext out, and the other way round; it
 * never sees a socket (OpenSSL reads and writes our memory). Nothing of OpenSSL is touched before the first
 * tls_context_new.
 */
#ifndef PROTO_IO_TLS_H
#define PROTO_IO_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"

#define TLS_HANDSHAKE 0x16 /* first byte of a TLS connection (RFC 8446 §5.1), and of no HTTP request */

struct tls_context; /* certificates and settings, shared by connections of one thread or several */
struct tls;         /* one connection */
struct io_channel;

struct tls_options {
    bool server;
    const char *ca_file; /* PEM. Client: NULL means the system's. Server: NULL means no client certificates */
    const char *cert_file, *key_file; /* PEM; both or neither (a server needs them) */
    const char *const *alpn;          /* NULL-ended, best first: "h2", "http/1.1" (RFC 7301); NULL: none */
    bool insecure_skip_verify;        /* client: take any certificate */
    const char *min_version; /* "1.2" or "1.3"; NULL: 1.2, the least HTTP/2 allows (RFC 9113 §9.2) */
};

/* After the handshake a peer may send this many handshake messages (KeyUpdate, RFC 8446 §4.6.3; a try to
 * renegotiate), and one more for each of these bytes of plaintext. The cipher that wears out first may carry
 * 2^24.5 full records with one key (RFC 8446 §5.5), so who needs more is not sending data. */
#define TLS_LATE_HANDSHAKES_MAX 32u
#define TLS_LATE_HANDSHAKE_PER  (1u << 20)

/* TLS 1.2 and 1.3. 0; -EINVAL, -ENOENT … with *e saying which file and what to do; -ENOMEM. A key with a
 * passphrase is refused: there is nobody to ask. */
int tls_context_new(struct tls_context **ret, const struct tls_options *options, struct error *e);

/* Of a client: takes its files anew where they have changed, so that what is renewed on disk is shown and
 * believed by the next connection. What cannot be used (a renewal of which half is written) leaves all as it
 * was, until the next call: a negative errno, with *e as tls_context_new has it, each time. Else 0. Not while
 * another thread uses c. */
int tls_context_renew(struct tls_context *c, struct error *e);

/* One owner more; returns c. Any thread. */
struct tls_context *tls_context_ref(struct tls_context *c);

/* One owner less, any thread. Connections made with it may live on. NULL is fine. Returns NULL. */
struct tls_context *tls_context_free(struct tls_context *c);

/* When our certificate ends (notAfter), in Unix seconds; INT64_MAX without one. */
int64_t tls_context_expiry(const struct tls_context *c);

/* The same of a PEM file with a certificate, that of others; INT64_MAX also where it cannot be read, or is
 * NULL. */
int64_t tls_file_expiry(const char *cert_file);

/* server_name (client only): sent as SNI (RFC 6066 §3; not for IP addresses) and checked against the
 * certificate (RFC 6125; IP addresses against its IP names). A client has a ClientHello to drain at once.
 * NULL: memory is out. */
struct tls *tls_new(struct tls_context *c, const char *server_name);
struct tls *tls_free(struct tls *t);

/* Ciphertext from the peer; plaintext is appended to plain. 0; -ECONNABORTED: the handshake or the record
 * layer failed (tls_error says why; drain the alert, then close); -ENOMEM / -ENOBUFS. */
int tls_feed(struct tls *t, struct bytes in, struct buffer *plain);

/* Plaintext to the peer; before the handshake is done it is kept and sent after it. 0, -ENOMEM,
 * -ECONNABORTED. */
int tls_write(struct tls *t, struct bytes plain);

/* Appends ciphertext for the peer, at most about max bytes. 0 or -ENOMEM / -ENOBUFS. */
int tls_drain(struct tls *t, struct buffer *out, size_t max);
bool tls_has_output(const struct tls *t);

/* Sends all the ciphertext there is, by way of *room, which is left as large as it became. 0 or -ENOMEM. */
int tls_flush(struct tls *t, struct io_channel *to, struct buffer *room);

/* Says goodbye: close_notify to drain (RFC 8446 §6.1). Nothing may be written after it. */
void tls_shutdown(struct tls *t);

/* The handshake is done. */
bool tls_is_established(const struct tls *t);

/* The peer said close_notify: an end of the stream that was meant (without it, an EOF may be an attack). */
bool tls_is_closed(const struct tls *t);

/* The protocol agreed on, or an empty slice. */
struct bytes tls_alpn(const struct tls *t);

/* The name in the peer's certificate, when that was verified: its first URI, else DNS, else e-mail name (RFC
 * 5280 §4.2.1.6), else its common name; "" without. A name that has a NUL or another control character in it
 * or does not fit in name[cap] (cap > 0) is passed over, not cut: half a name is somebody else's. */
void tls_peer_name(const struct tls *t, char *name, size_t cap);

/* Until when, of the clock that says `now`, the peer's verified certificate is good; UINT64_MAX: there is
 * none, or it has no end. */
uint64_t tls_peer_good_until(const struct tls *t, uint64_t now);

/* Why it failed, for a person; "" if it did not. */
const char *tls_error(const struct tls *t);

#endif
