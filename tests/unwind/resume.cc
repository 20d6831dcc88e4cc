// C++20 coroutines: the chain runs in a generator that is resumed, which awaits another one. Build with -std=c++20.
#include <coroutine>
#include <exception>
#include <utility>

#include "tests/unwind/chain.h"

struct Task {
    struct promise_type {
        unsigned long value = 0;
        Task get_return_object() { return Task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(unsigned long v)
        {
            value = v;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
    explicit Task(std::coroutine_handle<promise_type> h) : handle(h) {}
    Task(Task &&other) : handle(std::exchange(other.handle, nullptr)) {}
    ~Task()
    {
        if (handle)
            handle.destroy();
    }
    unsigned long next()
    {
        handle.resume();
        return handle.promise().value;
    }
};

static Task inner(unsigned long n)
{
    for (;; n++) {
        chain_a(n);
        co_yield n;
    }
}

static Task outer(unsigned long n)
{
    Task below = inner(n);
    for (;;)
        co_yield below.next() + 1;
}

KEPT static unsigned long drive(Task &task)
{
    unsigned long r = task.next();
    NOT_A_TAIL;
    return r;
}

int main()
{
    Task task = outer(20000);
    for (;;)
        sink += drive(task);
}
