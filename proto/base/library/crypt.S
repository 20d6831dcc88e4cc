/* SPDX-License-Identifier: Apache-2.0 */
/* What a file of passwords is read and tried with (gateway/access). The linker says which are missing here. */
#define NAME library_crypt
#define SONAME "libcrypt.so.1"
#define FUNCTIONS \
    crypt_checksalt, crypt_r
#include "proto/base/library/on_demand.inc"
