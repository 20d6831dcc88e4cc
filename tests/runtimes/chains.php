<?php
/* A program whose stacks are known: what can be on them is in e2e/test_php.py. Recursion, methods, closures, callbacks out of internal
 * functions (usort, array_map, preg_replace_callback), generators that delegate to others, fibers, exceptions, magic methods,
 * destructors, eval, an included file; `spin` is where most of the time goes, and in `slow` nearly all. */
namespace Chains;

function spin($n)
{
    $x = 0;
    $n *= $GLOBALS['scale'];
    for ($i = 0; $i < $n; $i++) {
        $x += $i * $i % 7;
    }
    return $x;
}

function recurse($depth)
{
    if ($depth == 0) {
        return spin(1000);
    }
    return recurse($depth - 1);
}

trait Shared
{
    public function shared()
    {
        return spin(400);
    }
}

class Base
{
    use Shared;

    public $x;

    public function __construct()
    {
        $this->x = spin(400);
    }

    public function __get($name)
    {
        return spin(400);
    }

    public function __call($name, $arguments)
    {
        return spin(400);
    }

    public static function __callStatic($name, $arguments)
    {
        return spin(400);
    }

    public function __toString()
    {
        return (string) spin(400);
    }

    public function __destruct()
    {
        spin(300);
    }
}

class Worker extends Base
{
    public function __construct()
    {
        parent::__construct();
        $this->y = spin(300);
    }

    public $y;

    public function method()
    {
        return recurse(8);
    }

    public static function make()
    {
        return spin(700);
    }

    public function compare($a, $b)
    {
        return spin(60) * 0 + $a - $b;
    }
}

function objects()
{
    $w = new Worker();
    $w->method();
    $w->shared();
    $w->missing;
    $w->absent();
    Worker::gone();
    return "$w";
}

function sorted()
{
    $a = range(1, 12);
    usort($a, [new Sorter(), 'compare']);
    return $a;
}

class Sorter
{
    public function compare($a, $b)
    {
        return spin(60) * 0 + $a - $b;
    }
}

function mapped()
{
    return array_map(function ($x) { return spin($x); }, [400, 500]);
}

function replaced()
{
    return preg_replace_callback('/a/', 'Chains\replacement', 'abcabc');
}

function replacement($match)
{
    return spin(400);
}

function native()
{
    return strlen(str_repeat('abc', 30000)) + count(explode('a', str_repeat('ba', 5000)));
}

function inner()
{
    for ($i = 0; $i < 3; $i++) {
        yield spin(500);
    }
}

function middle()
{
    spin(100);
    yield from inner();
}

function outer()
{
    yield from middle();
}

function consume()
{
    $x = 0;
    foreach (outer() as $value) {
        $x += $value;
    }
    return $x;
}

function raising()
{
    try {
        spin(500);
        throw new \Exception();
    } finally {
        spin(200);
    }
}

function catching()
{
    try {
        raising();
    } catch (\Exception $e) {
        return spin(300);
    }
}

function evaluated()
{
    return eval('return Chains\spin(500);');
}

function included()
{
    return include __DIR__ . '/included.php';
}

function fiber()
{
    $fiber = new \Fiber(function () {
        spin(400);
        \Fiber::suspend();
        return spin(400);
    });
    $fiber->start();
    $fiber->resume();
}

function bound()
{
    static $made;
    $made = $made ?? \Closure::fromCallable([Worker::class, 'make']);
    return $made();
}

function Größe() // a name that is not ASCII
{
    return spin(500);
}

function anonymous()
{
    return (new class {
        public function run()
        {
            return spin(500);
        }
    })->run();
}

function work()
{
    objects();
    Worker::make();
    sorted();
    mapped();
    replaced();
    native();
    consume();
    catching();
    evaluated();
    included();
    if (\PHP_VERSION_ID >= 80100) {
        fiber();
    }
    bound();
    Größe();
    anonymous();
}

function slow()
{
    $GLOBALS['scale'] = 1000;
    work();
    $GLOBALS['scale'] = 1;
}

function run($seconds)
{
    $until = hrtime(true) + 1e9 * $seconds;
    while (hrtime(true) < $until) {
        for ($i = 0; $i < 1000; $i++) {
            work();
        }
        slow();
    }
}

$scale = 1;
run((float) ($argv[1] ?? 1));
