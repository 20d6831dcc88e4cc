/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP requests (wire layout 1.10) that hurt whoever hashes their names, put together by hand. For
 * tests/bench/attack.c; one thread. What needs no hash is made by attack_content.py.
 */
#ifndef TESTS_LIB_ATTACK_PROFILE_H
#define TESTS_LIB_ATTACK_PROFILE_H

#include "tests/lib/attack_wire.h"

/* A valid request of one sample, whose stack has 4096 names of 900 bytes that share a hash under a key of 64
 * bits now and then, and 8192 short ones that share a place of a table under a hash without a key
 * (attack_collide.h). 4 MB. */
void attack_profile_colliding(struct wire *ret);

#endif
