/* SPDX-License-Identifier: Apache-2.0 */
/* The chain on a greenlet's part of the stack, below which somebody else's frames were: what they were in is
 * written over. */
#include "tests/unwind/chain.h"

static void *volatile nowhere = reinterpret_cast<void *>(0x777);

namespace greenlet
{
struct UserGreenlet {
    KEPT void g_initialstub(void *mark)
    {
        static_cast<void *volatile *>(mark)[0] = nowhere;
        static_cast<void *volatile *>(mark)[1] = nowhere;
        for (;;)
            chain_a(100000);
    }
    KEPT void g_switch()
    {
        g_initialstub(__builtin_frame_address(0)); /* the frame pointer, and the return address */
        NOT_A_TAIL;
    }
};
} // namespace greenlet

int main()
{
    greenlet::UserGreenlet{}.g_switch();
}
