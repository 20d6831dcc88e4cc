"""A program whose stacks are known: every chain of functions that can be on its stack is printed by --chains, root first, with the
lines each may be at. Recursion, methods, closures, callbacks out of C (sorted, map, a metaclass, __del__), generators that
delegate, decorators, exceptions, comprehensions and coroutines; `spin` is where the time goes: in threads nearly all of it.
"""
import sys
import threading
import time


SCALE = 1


def spin(n):
    x = 0
    for i in range(n * SCALE):
        x += i * i % 7
    return x


def recurse(depth):
    if depth == 0:
        return spin(2000)
    return recurse(depth - 1)


class Worker:
    def method(self):
        return recurse(8)

    @staticmethod
    def static():
        return spin(700)

    @property
    def value(self):
        return spin(700)

    def __lt__(self, other):
        spin(50)
        return id(self) < id(other)


def key(value):
    return spin(300) + value


def callback():
    return sorted(range(10), key=key)


def compare():
    return sorted(Worker() for _ in range(4))


def inner():
    for _ in range(3):
        yield spin(900)


def outer():
    yield from inner()


def consume():
    return sum(outer())


def decorated(function):
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper


@decorated
def wrapped():
    return spin(900)


def raising():
    try:
        return spin(900)
    finally:
        raise ValueError


def catching():
    try:
        raising()
    except ValueError:
        return spin(600)


async def step():
    return spin(900)


async def task():
    return await step()


def drive():
    try:
        task().send(None)
    except StopIteration:
        pass


def mapped():
    return list(map(lambda n: spin(n), [400, 500]))


def Größe():  # a name that is not ASCII
    return spin(900)


def work():
    Worker().method()
    Worker.static()
    Worker().value
    callback()
    compare()
    consume()
    wrapped()
    catching()
    drive()
    mapped()
    Größe()


# Each chain that ends in `spin`; what is a prefix of one can be seen, too, but hardly ever in threads.
CHAINS = [
    ["Worker.method"] + ["recurse"] * 9 + ["spin"],
    ["Worker.static", "spin"],
    ["Worker.value", "spin"],
    ["callback", "key", "spin"],
    ["compare", "compare.<locals>.<genexpr>"],
    ["compare", "Worker.__lt__", "spin"],
    ["consume", "outer", "inner", "spin"],
    ["decorated.<locals>.wrapper", "wrapped", "spin"],
    ["catching", "raising", "spin"],
    ["catching", "spin"],
    ["drive", "task", "step", "spin"],
    ["mapped", "mapped.<locals>.<lambda>", "spin"],
    ["Größe", "spin"],
]


def run(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        work()


if __name__ == "__main__":
    if len(sys.argv) > 2:  # in as many threads
        SCALE = 1500
        threads = [threading.Thread(target=run, args=(float(sys.argv[1]),)) for _ in range(int(sys.argv[2]))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        run(float(sys.argv[1]))
