// Exceptions on their way: the chain runs in destructors that are called while the stack is being unwound, below the
// C++ library's own unwinder.
#include <stdexcept>

#include "tests/unwind/chain.h"

struct Guard {
    unsigned long n;
    KEPT ~Guard()
    {
        chain_a(n);
        NOT_A_TAIL;
    }
};

template <int Depth> struct Thrower {
    KEPT static unsigned long go(unsigned long n)
    {
        Guard guard{n};
        unsigned long r = Thrower<Depth - 1>::go(n + 1);
        NOT_A_TAIL;
        return r + guard.n;
    }
};

template <> struct Thrower<0> {
    KEPT static unsigned long go(unsigned long n)
    {
        if (n)
            throw std::runtime_error("down there");
        return n;
    }
};

int main()
{
    for (unsigned long n = 20000;; n++) {
        try {
            sink += Thrower<5>::go(n);
        } catch (const std::exception &e) {
            sink += e.what()[0] != 0;
        }
    }
}
