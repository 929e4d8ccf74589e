// What the worker and the producer share: the commands, and a client by the environment.

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisSentineled;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.JedisURIHelper;

enum Dq implements ProtocolCommand {
    PUSH, CLAIM, ACK, RETRY, RELEASE, FAIL, EXTEND;

    @Override
    public byte[] getRaw() { return toString().getBytes(StandardCharsets.US_ASCII); }

    @Override
    public String toString() { return "DQ." + name(); }

    /** Bytes stay what they are; all else is sent as text. */
    static byte[][] words(Object... words) {
        return Arrays.stream(words)
                .map(word -> word instanceof byte[] bytes ? bytes : word.toString().getBytes(StandardCharsets.UTF_8))
                .toArray(byte[][]::new);
    }

    /** These clients send nothing twice: a claim that is sent again would take jobs twice as many as there are hands. */
    static UnifiedJedis connect(int readTimeoutMs, int connections) {
        URI url = URI.create(text("DQ_URL", "redis://127.0.0.1:6380"));
        JedisClientConfig config = DefaultJedisClientConfig.builder().connectionTimeoutMillis(5000)
                .socketTimeoutMillis(readTimeoutMs).blockingSocketTimeoutMillis(readTimeoutMs)
                .user(JedisURIHelper.getUser(url)).password(JedisURIHelper.getPassword(url))
                .database(JedisURIHelper.getDBIndex(url)).ssl(JedisURIHelper.isRedisSSLScheme(url)).build();
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(connections);
        String sentinels = text("DQ_SENTINELS", "");
        if (sentinels.isEmpty()) return new JedisPooled(JedisURIHelper.getHostAndPort(url), config, pool);
        Set<HostAndPort> addresses =
                Arrays.stream(sentinels.split(",")).map(HostAndPort::from).collect(Collectors.toSet());
        JedisClientConfig ofSentinels =
                DefaultJedisClientConfig.builder().connectionTimeoutMillis(2000).socketTimeoutMillis(2000).build();
        return new JedisSentineled(text("DQ_MASTER", ""), config, pool, addresses, ofSentinels);
    }

    /** After a restart or a failover not all come at once. */
    static long backoffMs(int tries) {
        long longest = Math.min(5000, 100L << Math.min(tries, 6));
        return ThreadLocalRandom.current().nextLong(longest / 2, longest + 1);
    }

    static String text(String name, String or) { return System.getenv().getOrDefault(name, or); }

    static int number(String name, int or) { return Integer.parseInt(text(name, String.valueOf(or))); }
}
