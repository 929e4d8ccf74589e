// Pushes one webhook, and prints the id of its job: Producer URL BODY [DELAY [ID]]

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

public final class Producer {
    /** An ID stays taken for 5 minutes (dq.id-keep). Later than that, the same push could make a second job. */
    static final long PATIENCE_MS = 240_000;

    /** It may be taken a moment later: a failover goes on, there is no room, the module is being exchanged. */
    static final List<String> PASSES = List.of("READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "DQFULL",
            "OOM", "ERR unknown command");

    /** Sends again until there is an answer: with an ID of its own, a job that is pushed twice is one job. */
    static String push(UnifiedJedis db, byte[][] words) throws InterruptedException {
        long start = System.currentTimeMillis();
        for (int tries = 0; ; tries++) {
            try {
                return new String((byte[]) db.sendCommand(Dq.PUSH, words), StandardCharsets.UTF_8);
            } catch (JedisException error) {
                String text = String.valueOf(error.getMessage());
                boolean passes = !(error instanceof JedisDataException) || PASSES.stream().anyMatch(text::startsWith);
                if (!passes || System.currentTimeMillis() - start > PATIENCE_MS) throw error;
                System.err.println("again in a moment: " + text);
                Thread.sleep(Dq.backoffMs(tries));
            }
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 2) {
            System.err.println("usage: Producer URL BODY [DELAY [ID]]");
            System.exit(2);
        }
        Map<String, String> job = Map.of("kind", "webhook", "url", args[0], "body", args[1]);
        // Made before the first try: whoever calls this again after a crash passes an id of his own.
        String id = args.length > 3 ? args[3] : UUID.randomUUID().toString();
        byte[][] words = Dq.words(Dq.text("DQ_QUEUE", "webhooks"), new ObjectMapper().writeValueAsBytes(job), "ID", id,
                "DELAY", args.length > 2 ? args[2] : "0");
        try (UnifiedJedis db = Dq.connect(5000, 1)) {
            System.out.println(push(db, words));
        } catch (JedisException error) {
            System.err.println("not pushed: " + error.getMessage());
            System.exit(1);
        }
    }
}
