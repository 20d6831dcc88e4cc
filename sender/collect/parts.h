/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request being written: what its parts share (request.c, request_stack.c, request_resource.c).
 */
#ifndef SENDER_COLLECT_PARTS_H
#define SENDER_COLLECT_PARTS_H

#include "proto/base/rng.h"
#include "proto/otlp/write/build.h"
#include "sender/collect/naming.h"
#include "sender/collect/request_facts.h"
#include "sender/collect/resource.h"

/* A stack already in the request: the same frames of another process may have other names (generated code).
 */
struct known_stack {
    uint32_t process; /* its index in the window, from 1; 0: none yet */
    uint32_t index;
};

/* The mapping of a file of the window, already in the request: nearly all frames of a file are in one of its
 * segments. */
struct known_mapping {
    const struct elf_segment *segment;
    uint32_t index; /* 0: none yet */
};

/* A frame that is in the request already, by a hash of what it is: most frames of a window are in several
 * stacks, and to describe one is to hash its names, attributes and mapping again. A seventh of naming's time
 * (44 to 37 ms in half a minute of the bench's mixed load). */
#define KNOWN_FRAMES 2048u
struct known_frame {
    struct frame frame;
    uint32_t process; /* from 1, of generated code; UINT32_MAX: it is the same in each; 0: nothing is here */
    uint32_t location;
};

struct writer {
    struct build *b;
    const struct naming *naming;
    const struct window *window;
    const struct request_facts *facts;
    struct resource *resource; /* room for one */
    struct rng rng;
    struct known_stack *stack;     /* by stack number of the window */
    struct known_mapping *mapping; /* by file of the window */
    struct known_frame *frame;     /* KNOWN_FRAMES */
    uint64_t *times;
    int64_t *values;
    uint64_t hits; /* in the request being built; as are: */
    uint32_t n_profiles;
    uint8_t id[16]; /* of the last of them */
    bool has_id;
};

/* The number of a text in the request, and of an attribute with a text; what is no UTF-8 in it is replaced.
 */
uint32_t request_string(struct writer *w, struct bytes s);
uint32_t request_attribute(struct writer *w, const char *key, struct bytes value);

/* The number of a sample's stack, with all that is in it. */
uint32_t request_stack(struct writer *w, const struct window_sample *s);

/* What a stack lacks, by its walk and by its frames. */
enum window_incomplete request_incomplete(const struct writer *w, const struct window_sample *s);

/* Begins the resource of a process, and our scope in it. */
void request_resource(struct writer *w, const struct window_process *of);

#endif
