/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for htlhash alone: libcrypto, which has it too, takes 2 MB of pages. */
#ifndef SENDER_SYMBOLIZE_ELF_SHA256_H
#define SENDER_SYMBOLIZE_ELF_SHA256_H

#include <stdint.h>

#include "proto/base/bytes.h"

#define SHA256_BYTES 32u

void sha256(struct bytes text, uint8_t ret[SHA256_BYTES]);

#endif
