/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code: the kernel side walks it by rows (sender/unwind), sends addresses and no words, and
 * sender/symbolize names those. So all of it is somebody else's, but for what its frames are called.
 */
#include "sender/runtimes/runtime.h"

const struct runtime runtime_native = {.name = "native", .frame_type = "native"};
