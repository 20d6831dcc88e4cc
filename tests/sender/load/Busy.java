/** A load in Java: strings, maps, sorting, recursion. */
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public class Busy {
    static int fill(Map<String, Integer> counts, int depth, int seed) {
        String key = "item " + seed % 997 + "/" + depth;
        counts.merge(key, 1, Integer::sum);
        return depth == 0 ? key.hashCode() : fill(counts, depth - 1, seed * 31 + depth) ^ key.length();
    }

    public static void main(String[] arguments) {
        int seed = 1;
        for (;;) {
            Map<String, Integer> counts = new HashMap<>();
            for (int i = 0; i < 2000; i++) seed = fill(counts, 20, seed + i);
            List<String> keys = new ArrayList<>(counts.keySet());
            keys.sort(null);
            seed += keys.get(0).length();
        }
    }
}
