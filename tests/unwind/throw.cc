// C++: templates, virtual calls, a lambda, exceptions thrown and caught around the chain.
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/unwind/chain.h"

struct Shape {
    virtual ~Shape() = default;
    virtual unsigned long area(unsigned long n) = 0;
};

template <typename T> struct Square : Shape {
    KEPT unsigned long area(unsigned long n) override
    {
        std::string text(n % 50, 'x');
        chain_a(n);
        if (n % 3 == 0)
            throw std::runtime_error(text);
        return text.size();
    }
};

KEPT static unsigned long through(const std::function<unsigned long(unsigned long)> &f, unsigned long n)
{
    unsigned long r = f(n);
    NOT_A_TAIL;
    return r;
}

int main()
{
    Square<int> square;
    Shape *shape = &square;
    for (unsigned long n = 20000;; n++) {
        try {
            sink += through([shape](unsigned long x) { return shape->area(x) + 1; }, n);
        } catch (const std::exception &e) {
            sink += e.what()[0] != 0;
        }
    }
}
