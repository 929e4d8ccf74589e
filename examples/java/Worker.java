// Delivers webhooks from a queue of DQ. It was compiled, but not run: README.md says against what.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

public final class Worker {
    /** It will never go well: the job becomes a dead letter. */
    static final class Permanent extends Exception {
        Permanent(String message, Throwable cause) { super(message, cause); }
    }

    /** No handler is for this kind of job; another release of the worker may have one. */
    static final class UnknownKind extends Exception {
        UnknownKind(String kind) { super(kind); }
    }

    /** It may go well later: after the delay, or after the queue's backoff where it is negative. */
    static final class Temporary extends Exception {
        final long delayMs;
        Temporary(String message, long delayMs) { super(message); this.delayMs = delayMs; }
    }

    static final Logger LOG = Logger.getLogger("worker");
    static final long BLOCK_MS = 2000; // How long a claim waits at the server; a stop waits for it.
    static final long UNKNOWN_KIND_MS = 30_000; // How long a job that this release does not know is left for another.
    static final long LAST_WORDS_MS = 5000; // How long a worker that stops tries to give its jobs back.
    static final long MOST_RETRY_AFTER_S = 3600; // Keep it below dq.max-delay.

    // ---- The handler: this part is yours.

    static final ObjectMapper JSON = new ObjectMapper();
    static final HttpClient HTTP = HttpClient.newBuilder()
            .followRedirects(HttpClient.Redirect.NEVER).connectTimeout(Duration.ofSeconds(5)).build();
    static final Duration HTTP_TIMEOUT = Duration.ofSeconds(Dq.number("DQ_HTTP_TIMEOUT_S", 10));

    /** The thread is interrupted where the lease is lost, or the worker has no more time. */
    static void handle(byte[] payload, String id) throws Exception {
        JsonNode job;
        try {
            job = JSON.readTree(payload);
        } catch (IOException error) {
            throw new Permanent("the payload is not JSON", error);
        }
        String kind = field(job, "kind");
        if (!kind.equals("webhook")) throw new UnknownKind(kind);
        deliver(field(job, "url"), field(job, "body"), id);
    }

    static String field(JsonNode job, String name) throws Permanent {
        JsonNode value = job.path(name);
        if (!value.isTextual()) throw new Permanent("the payload has no text '" + name + "'", null);
        return value.textValue();
    }

    /** POSTs one webhook. It can come twice: the receiver knows it again by the job's id. */
    static void deliver(String url, String body, String id) throws Exception {
        HttpRequest request;
        try {
            request = HttpRequest.newBuilder(URI.create(url)).timeout(HTTP_TIMEOUT)
                    .header("Content-Type", "application/json").header("Idempotency-Key", id)
                    .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        } catch (IllegalArgumentException error) { // Of any scheme but http and https, too.
            throw new Permanent("not a web address: " + url, error);
        }
        HttpResponse<Void> response = HTTP.send(request, HttpResponse.BodyHandlers.discarding());
        int status = response.statusCode();
        if (status >= 200 && status < 300) return;
        String text = url + " answered " + status;
        if (status == 429 || status >= 500) {
            throw new Temporary(text, retryAfterMs(response.headers().firstValue("Retry-After").orElse("")));
        }
        throw new Permanent(text, null);
    }

    /** Seconds, or a date; negative where there is neither. */
    static long retryAfterMs(String text) {
        try {
            long seconds = text.matches("\\d{1,9}") ? Long.parseLong(text)
                    : Duration.between(Instant.now(),
                            ZonedDateTime.parse(text, DateTimeFormatter.RFC_1123_DATE_TIME)).toSeconds();
            return 1000 * Math.min(Math.max(seconds, 0), MOST_RETRY_AFTER_S);
        } catch (DateTimeParseException error) {
            return -1;
        }
    }

    // ---- The worker: this part can stay.

    final String queue = Dq.text("DQ_QUEUE", "webhooks");
    final int hands = Dq.number("DQ_HANDS", 4);
    final long leaseMs = Dq.number("DQ_LEASE_MS", 30_000);
    final long graceMs = 1000L * Dq.number("DQ_GRACE_S", 20);
    // The claim waits at the server, so its connection is more patient than that, and nothing else goes over it.
    final UnifiedJedis claims = Dq.connect((int) BLOCK_MS + 5000, 1);
    final UnifiedJedis db = Dq.connect(5000, hands + 2);
    final Semaphore free = new Semaphore(hands);
    /** By receipt; a receipt is the key as text. What is taken out has nothing to tell any more. */
    final Map<String, Future<?>> held = new ConcurrentHashMap<>();
    final ExecutorService threads = Executors.newCachedThreadPool();
    final CountDownLatch stopping = new CountDownLatch(1);
    volatile long until; // When the grace is over.

    public static void main(String[] args) throws Exception {
        Worker worker = new Worker();
        Thread main = Thread.currentThread();
        // The JVM ends when its hooks have run, whatever else does; after SIGTERM with 143, unless it is halted with 0.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            LOG.info("stopping");
            worker.until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(worker.graceMs);
            worker.stopping.countDown();
            try {
                main.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            Runtime.getRuntime().halt(0);
        }));
        worker.threads.execute(() -> vital(worker::keepLeases));
        vital(() -> {
            worker.claim();
            worker.giveBackTheRest();
            return null;
        });
    }

    /** A part that the worker cannot live without: if it breaks, the process ends, and is started anew. */
    static void vital(Callable<Void> part) {
        try {
            part.call();
        } catch (Throwable error) {
            LOG.log(Level.SEVERE, "the worker broke, the process ends; its jobs come back when their leases end", error);
            Runtime.getRuntime().halt(1);
        }
    }

    boolean isStopping() { return stopping.getCount() == 0; }

    /** Claims as many jobs as there are free hands, never more, until the worker stops. */
    void claim() throws InterruptedException {
        for (int tries = 0; !isStopping(); ) {
            if (!free.tryAcquire(200, TimeUnit.MILLISECONDS)) continue;
            int count = 1 + free.drainPermits();
            List<?> jobs = List.of();
            try {
                jobs = (List<?>) claims.sendBlockingCommand(Dq.CLAIM, Dq.words(queue, "COUNT", count, "LEASE", leaseMs,
                        "BLOCK", BLOCK_MS));
                tries = 0;
            } catch (JedisException error) {
                LOG.warning("no jobs: " + error.getMessage());
                stopping.await(Dq.backoffMs(tries++), TimeUnit.MILLISECONDS);
            }
            if (isStopping() && !jobs.isEmpty()) {
                tell(LAST_WORDS_MS, Dq.RELEASE, release(jobs.stream().map(job -> receipt((List<?>) job)).toList()));
                jobs = List.of();
            }
            for (Object job : jobs) start((List<?>) job);
            free.release(count - jobs.size());
        }
    }

    static String receipt(List<?> job) { return new String((byte[]) job.get(0), StandardCharsets.US_ASCII); }

    void start(List<?> job) { // receipt, payload, id, attempt, lease-ms, retries-left; later versions append
        String receipt = receipt(job), id = new String((byte[]) job.get(2), StandardCharsets.US_ASCII);
        CountDownLatch known = new CountDownLatch(1);
        held.put(receipt, threads.submit(() -> {
            try {
                known.await(); // Else it could end before it is held.
                work(receipt, (byte[]) job.get(1), id);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            } finally {
                free.release();
            }
        }));
        known.countDown();
    }

    void work(String receipt, byte[] payload, String id) {
        byte[][] words;
        Dq verb;
        try {
            handle(payload, id);
            verb = Dq.ACK;
            words = Dq.words(queue, receipt);
        } catch (UnknownKind error) {
            LOG.warning(receipt + " is of the unknown kind " + error.getMessage());
            verb = Dq.RELEASE;
            words = Dq.words(queue, "DELAY", UNKNOWN_KIND_MS, "RECEIPTS", receipt);
        } catch (Permanent error) {
            verb = Dq.FAIL;
            words = Dq.words(queue, receipt, "ERROR", error.getMessage(), "STACK", stack(error));
        } catch (Throwable error) { // A bug too: the next release may have mended it, and retries are bounded.
            verb = Dq.RETRY;
            words = error instanceof Temporary later && later.delayMs >= 0
                    ? Dq.words(queue, receipt, "DELAY", later.delayMs, "ERROR", error.getMessage(), "STACK", stack(error))
                    : Dq.words(queue, receipt, "ERROR", error, "STACK", stack(error));
        }
        // One that was broken off has nothing to tell: its job is somebody else's, or was given back.
        if (held.remove(receipt) != null) tell(Long.MAX_VALUE, verb, words);
    }

    static String stack(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        return text.toString();
    }

    byte[][] release(List<String> receipts) {
        List<Object> words = new ArrayList<>(List.of(queue, "RECEIPTS"));
        words.addAll(receipts);
        return Dq.words(words.toArray());
    }

    /** Tells the end of a job until there is an answer: a receipt acts once, so telling it again does no harm. */
    void tell(long patienceMs, Dq verb, byte[][] words) {
        String what = verb + " " + new String(words[verb == Dq.RELEASE ? words.length - 1 : 1], StandardCharsets.US_ASCII);
        long start = System.nanoTime();
        for (int tries = 0; ; tries++) {
            boolean stale;
            Object answer = null;
            try {
                answer = db.sendCommand(verb, words);
                stale = answer.equals(0L) || answer.equals(List.of(-1L));
            } catch (JedisException error) {
                stale = String.valueOf(error.getMessage()).startsWith("DQLOST");
                if (!stale) {
                    LOG.warning(what + " is not told: " + error.getMessage());
                    // A refusal that lasts for a lease is no failover. Without an answer nobody else has the job either.
                    long patience = error instanceof JedisDataException ? leaseMs : patienceMs;
                    if (TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start) > patience) {
                        LOG.severe(what + " is given up: the job comes back when its lease ends");
                        return;
                    }
                    try {
                        Thread.sleep(Dq.backoffMs(tries));
                    } catch (InterruptedException end) {
                        Thread.currentThread().interrupt();
                        return;
                    }
                    continue;
                }
            }
            if (!stale) LOG.info(what + ": " + (answer instanceof byte[] text ? new String(text, StandardCharsets.UTF_8) : answer));
            else if (tries > 0) LOG.info(what + ": stale: an earlier try did it, or the lease ran out meanwhile");
            else LOG.warning(what + ": stale: its lease ran out, and it is somebody else's");
            return;
        }
    }

    /** One command for all jobs at hand, three times a lease. */
    Void keepLeases() throws InterruptedException {
        while (true) {
            Thread.sleep(leaseMs / 3);
            List<String> receipts = List.copyOf(held.keySet());
            if (receipts.isEmpty()) continue;
            List<Object> words = new ArrayList<>(List.of(queue, leaseMs));
            words.addAll(receipts);
            try {
                List<?> left = (List<?>) db.sendCommand(Dq.EXTEND, Dq.words(words.toArray()));
                for (int i = 0; i < receipts.size(); i++) {
                    if (!left.get(i).equals(-1L)) continue;
                    Future<?> hand = held.remove(receipts.get(i));
                    if (hand == null) continue; // It has just ended.
                    LOG.warning(receipts.get(i) + ": stale: its lease is lost while it runs");
                    hand.cancel(true);
                }
            } catch (JedisException error) {
                LOG.warning("leases are not extended: " + error.getMessage());
            }
        }
    }

    /** The hands have the grace to finish; what still runs then is given back, and no failure is counted. */
    void giveBackTheRest() throws InterruptedException {
        if (free.tryAcquire(hands, until - System.nanoTime(), TimeUnit.NANOSECONDS)) return;
        List<String> rest = new ArrayList<>();
        held.forEach((receipt, hand) -> {
            if (held.remove(receipt) != null) {
                hand.cancel(true);
                rest.add(receipt);
            }
        });
        if (!rest.isEmpty()) tell(LAST_WORDS_MS, Dq.RELEASE, release(rest));
    }
}
