/*
 * Every chain of methods that can be on a thread's stack from `work` on is below: CHAINS of test_hotspot.py has
 * them. Arguments: seconds to run, and how many threads (0: the main one; v: virtual ones).
 */
import java.util.function.IntUnaryOperator;

public class Chains {
    interface Shape {
        long area(int n);
    }

    static final class Square implements Shape {
        public long area(int n) {
            return spin(n);
        }
    }

    static final class Circle implements Shape {
        public long area(int n) {
            return spin(n + 1);
        }
    }

    static final class Ring implements Shape {
        public long area(int n) {
            return spin(n + 2);
        }
    }

    static final Shape[] SHAPES = {new Square(), new Circle(), new Ring()};
    static volatile long sink;

    static long spin(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++)
            sum += i * 31L ^ sum >>> 3;
        return sum;
    }

    static long recurse(int n) {
        return n == 0 ? spin(200) : recurse(n - 1) + 1;
    }

    static long callInterface(int i) {
        return SHAPES[i % 3].area(150);
    }

    static long callLambda(int i) {
        IntUnaryOperator f = x -> (int) spin(x);
        return f.applyAsInt(100 + i % 7);
    }

    static long callStream() {
        return java.util.stream.IntStream.range(0, 3).mapToLong(x -> spin(60 + x)).sum();
    }

    static long thrower(int n) {
        if (n == 0)
            throw new IllegalStateException();
        return thrower(n - 1);
    }

    static long callException() {
        try {
            return thrower(5);
        } catch (IllegalStateException e) {
            return spin(100);
        }
    }

    static final Object LOCK = new Object();

    static long callSynchronized(int i) {
        synchronized (LOCK) {
            return guarded(i);
        }
    }

    static synchronized long guarded(int i) {
        return spin(120 + i % 3);
    }

    /* Native code that calls Java back. */
    static long callReflection(java.lang.reflect.Method m) {
        try {
            return (Long) m.invoke(null, 90);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    static long callSort() {
        Integer[] a = {5, 3, 9, 1, 7, 2, 8};
        java.util.Arrays.sort(a, Chains::compare);
        return a[0];
    }

    static int compare(Integer a, Integer b) {
        return (int) (spin(30) & 1) + a - b;
    }

    static long callPrivileged() {
        return java.security.AccessController.doPrivileged((java.security.PrivilegedAction<Long>) () -> spin(110));
    }

    static long copy(byte[] from, byte[] to) {
        System.arraycopy(from, 0, to, 0, from.length);
        return to[3];
    }

    static void work(int i, java.lang.reflect.Method m, byte[] from, byte[] to) {
        long sum = recurse(i % 40) + callInterface(i) + callLambda(i) + callStream() + callException() + callSynchronized(i) +
                   callReflection(m) + callSort() + callPrivileged() + copy(from, to);
        if (i % 64 == 0)
            sum += recurse(300);
        sink += sum;
    }

    static void run(long until) {
        try {
            java.lang.reflect.Method m = Chains.class.getDeclaredMethod("spin", int.class);
            byte[] from = new byte[4000], to = new byte[4000];
            for (int i = 0; System.nanoTime() < until; i++)
                work(i, m, from, to);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    public static void main(String[] args) throws Exception {
        long until = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        String threads = args.length > 1 ? args[1] : "0";
        if (threads.equals("0")) {
            run(until);
            return;
        }
        boolean isVirtual = threads.startsWith("v");
        Thread[] all = new Thread[Integer.parseInt(isVirtual ? threads.substring(1) : threads)];
        for (int i = 0; i < all.length; i++) {
            Runnable runnable = () -> run(until);
            all[i] = isVirtual ? (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, runnable)
                               : new Thread(runnable);
            if (!isVirtual)
                all[i].start();
        }
        for (Thread thread : all)
            thread.join();
    }
}
