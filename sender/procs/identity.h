/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process says of itself as OTLP resource attributes: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
 * of its environment (OpenTelemetry specification, "Resource SDK"), the process context it publishes (OTEP
 * 4719), and the pod its cgroup is of.
 *
 * The process chooses all of it: it is bounded here, and names what only we can know (its pid, the host, the
 * container) nowhere.
 */
#ifndef SENDER_PROCS_IDENTITY_H
#define SENDER_PROCS_IDENTITY_H

#include "proto/base/arena.h"
#include "proto/otlp/attr.h"

/* An SDK's resource has some ten attributes. */
#define IDENTITY_MAX       64u
#define IDENTITY_TEXT_MAX  1024u  /* of a key or value; longer ones are left out */
#define IDENTITY_BYTES_MAX 65536u /* of a process context's payload */
#define IDENTITY_KEYS_MAX  256u   /* of thread contexts (OTEP 4947: their numbers are bytes) */

struct identity {
    struct attr attr[IDENTITY_MAX];
    uint32_t n;
    /* How its threads say what they work for (OTEP 4947, "Thread-Local Reference Data"). */
    struct bytes schema; /* threadlocal.schema_version; .n 0: they do not */
    struct bytes *key;   /* threadlocal.attribute_key_map; .n 0: a name that was left out */
    uint32_t n_keys;
    struct arena text;
    uint32_t held; /* owners besides the first; private */
};

/* Adds an attribute; the first of a name stays. Copies. */
void identity_add(struct identity *id, struct bytes key, struct attr_value value);

/* Adds what only we may say; the first of a name stays, so this goes before what the process says. Copies. */
void identity_know(struct identity *id, struct bytes key, struct bytes text);

/* "key=value,key=value", percent-encoded (W3C Baggage); a malformed one leaves all of them out, as the
 * specification asks. */
void identity_variable(struct identity *id, struct bytes text);

/* The attributes of a serialized opentelemetry.proto.processcontext.v1development.ProcessContext. */
void identity_context(struct identity *id, struct bytes payload);

/* k8s.pod.uid by the text of /proc/PID/cgroup: "…pod<uid>…", with '_' for '-' under systemd. */
void identity_pod(struct identity *id, struct bytes cgroup);

/* The value of a text attribute; .n 0 if there is none. */
struct bytes identity_text(const struct identity *id, const char *key);

void identity_release(struct identity *id);

/* One owner more of an identity made with calloc, which is read only from then on; returns it. NULL is fine.
 * Owners come and go on one thread, whoever reads meanwhile. */
struct identity *identity_hold(struct identity *id);

/* One owner less: the last one frees it. NULL is fine. */
void identity_free(struct identity *id);

/* Where and what the header of a process context says (OTEP 4719, "Header"). */
struct identity_header {
    uint64_t published; /* never 0 */
    uint64_t payload;   /* address in the process */
    uint32_t size;      /* up to IDENTITY_BYTES_MAX */
};
#define IDENTITY_HEADER_BYTES 32u

/* Reads a header. False: it is none, of another version, or being written. */
bool identity_header(struct bytes bytes, struct identity_header *ret);

#endif
