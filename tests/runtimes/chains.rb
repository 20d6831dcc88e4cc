# A program whose stacks are known: what can be on them is in e2e/test_ruby.py. Recursion, methods of classes, singletons
# and modules, blocks within blocks, callbacks out of C (sort_by, map, inject, Hash's default), define_method, method_missing,
# super, exceptions, ensure, throw, eval, fibers, enumerators and threads; `spin` is where the time goes: in threads
# nearly all of it.

$scale = 1

def spin(n)
  x = 0
  i = 0
  n *= $scale
  while i < n
    x += i * i % 7
    i += 1
  end
  x
end

module Shop
  module Talks
    def talk
      spin(900)
    end
  end

  class Worker
    include Talks
    include Comparable

    def self.build
      spin(700)
    end

    class << self
      def make
        spin(700)
      end
    end

    def recurse(depth)
      return spin(2000) if depth == 0
      recurse(depth - 1)
    end

    def <=>(other)
      spin(50)
      object_id <=> other.object_id
    end

    define_method(:defined) { spin(700) }

    def method_missing(name, *)
      name == :ghost ? spin(700) : super
    end

    def respond_to_missing?(*)
      true
    end

    def yielding
      yield 900
    end

    def nested
      [1, 2].each { |a| [a].each { |b| spin(500 + b) } }
    end
  end

  class Better < Worker
    def talk
      super
    end
  end
end

def sorting
  (1..6).sort_by { |v| spin(300) + v }
end

def comparing
  [Shop::Worker.new, Shop::Worker.new].max
end

def summing
  [1, 2, 3].inject { |a, b| spin(300 + a + b) }
end

def defaulting
  Hash.new { |_, k| spin(k) }[900]
end

def raising
  spin(600)
  raise ArgumentError
ensure
  spin(300)
end

def rescuing
  raising
rescue ArgumentError
  spin(600)
end

def throwing
  catch(:done) { spin(600); throw :done }
end

def evaluating
  eval("spin(700)", binding, "evaluated", 7)
end

def fibers
  f = Fiber.new { spin(600); Fiber.yield 1; spin(600) }
  f.resume
  f.resume
end

def enumerating
  e = Enumerator.new { |y| spin(600); y << 1 }
  e.next
end

def lambdas
  ->(n) { spin(n) }.call(700)
end

def größe # a name that is not ASCII
  spin(900)
end

def symbols
  [700].map(&:succ).each(&method(:spin))
end

def work
  Shop::Worker.new.recurse(8)
  Shop::Worker.build
  Shop::Worker.make
  Shop::Worker.new.talk
  Shop::Better.new.talk
  Shop::Worker.new.defined
  Shop::Worker.new.ghost
  Shop::Worker.new.yielding { |n| spin(n) }
  Shop::Worker.new.nested
  sorting
  comparing
  summing
  defaulting
  rescuing
  throwing
  evaluating
  fibers
  enumerating if ($rounds = $rounds.to_i + 1) % 16 == 0 # its fiber begins with C alone
  lambdas
  größe
  symbols
end

def run(seconds)
  stop = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + seconds
  work while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < stop
end

if ARGV.size > 1 # in as many threads
  $scale = 1000
  ARGV[1].to_i.times.map { Thread.new { run(ARGV[0].to_f) } }.each(&:join)
else
  run(ARGV[0].to_f)
end
