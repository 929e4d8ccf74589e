// Package dq is a worker for DQ: it claims, keeps leases, tells what came of each job, and stops cleanly.
// It can stay as it is.
package dq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	block       = 2 * time.Second  // How long a claim waits at the server; a stop waits for it.
	unknownKind = 30 * time.Second // How long a job that this release does not know is left for another.
	lastWords   = 5 * time.Second  // How long a worker that stops tries to give its jobs back.
	forEver     = time.Duration(1<<63 - 1)
)

// UnknownKind is returned where no handler is for the job; another release of the worker may have one.
type UnknownKind string

func (kind UnknownKind) Error() string { return "unknown kind " + string(kind) }

// failure is an error that says what becomes of the job, and where it was made: Go's errors do not.
type failure struct {
	error
	permanent bool
	delay     time.Duration // Negative: the queue's backoff.
	stack     []byte
}

// Permanent will never go well: the job becomes a dead letter.
func Permanent(format string, args ...any) error {
	return &failure{fmt.Errorf(format, args...), true, -1, debug.Stack()}
}

// Temporary may go well later: after the delay, or after the queue's backoff where it is negative.
func Temporary(delay time.Duration, format string, args ...any) error {
	return &failure{fmt.Errorf(format, args...), false, delay, debug.Stack()}
}

// Handler does one job. Its context ends when the lease is lost or the worker has no more time. The payload is bytes,
// as pushed by whomever. An error that is neither Permanent nor UnknownKind is taken as temporary.
type Handler func(ctx context.Context, payload []byte, id string) error

// Connect gives a client by the environment.
func Connect(readTimeout time.Duration) (*redis.Client, error) {
	options, err := redis.ParseURL(Env("DQ_URL", "redis://127.0.0.1:6380"))
	if err != nil {
		return nil, fmt.Errorf("DQ_URL: %w", err)
	}
	options.ReadTimeout = readTimeout
	options.MaxRetries = -1 // The library would send a claim again, and take jobs twice as many as there are hands.
	sentinels := Env("DQ_SENTINELS", "")
	if sentinels == "" {
		return redis.NewClient(options), nil
	}
	return redis.NewFailoverClient(&redis.FailoverOptions{
		SentinelAddrs: strings.Split(sentinels, ","), MasterName: Env("DQ_MASTER", ""), DB: options.DB,
		Username: options.Username, Password: options.Password, TLSConfig: options.TLSConfig,
		ReadTimeout: readTimeout, MaxRetries: -1,
	}), nil
}

// Env gives a variable of the environment, or else a default.
func Env(name, or string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return or
}

// Backoff says how long to wait after so many tries: after a restart or a failover not all come at once.
func Backoff(tries int) time.Duration {
	longest := min(5*time.Second, 100*time.Millisecond<<min(tries, 6))
	return longest/2 + time.Duration(rand.Int63n(int64(longest/2)))
}

// Worker does jobs of one queue, up to Hands at once.
type Worker struct {
	Queue        string
	Handle       Handler
	Hands        int
	Lease, Grace time.Duration

	claims, db *redis.Client
	busy       chan struct{} // One element for each hand that is busy, or claimed for.
	mutex      sync.Mutex
	held       map[string]context.CancelFunc // By receipt: what ends the handler's context.
}

type job struct{ receipt, payload, id string }

// Run works until ctx ends. Then its hands have the grace to finish; what still runs is given back, no failure counted.
func (w *Worker) Run(ctx context.Context) (err error) {
	// The claim waits at the server, so its client is more patient than that.
	if w.claims, err = Connect(block + 5*time.Second); err != nil {
		return err
	}
	if w.db, err = Connect(5 * time.Second); err != nil {
		return err
	}
	w.busy = make(chan struct{}, w.Hands)
	w.held = map[string]context.CancelFunc{}
	go w.keepLeases()
	noMoreTime := make(chan struct{})
	context.AfterFunc(ctx, func() {
		slog.Info("stopping")
		time.AfterFunc(w.Grace, func() { close(noMoreTime) })
	})
	var working sync.WaitGroup
	for tries := 0; ctx.Err() == nil; {
		hands := w.takeHands(ctx)
		jobs, err := w.claim(hands)
		if err != nil {
			tries++
			slog.Warn("no jobs", "error", err)
			sleep(ctx, Backoff(tries))
		} else {
			tries = 0
		}
		if ctx.Err() != nil && len(jobs) > 0 {
			w.giveBack(jobs)
			jobs = nil
		}
		for _, job := range jobs {
			working.Add(1)
			jobCtx, cancel := context.WithCancel(context.Background())
			w.hold(job.receipt, cancel)
			go func() {
				defer working.Done()
				defer func() { <-w.busy }()
				defer cancel()
				w.work(jobCtx, job)
			}()
		}
		for range hands - len(jobs) {
			<-w.busy
		}
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	select {
	case <-done:
	case <-noMoreTime:
		var rest []job
		for _, receipt := range w.receipts() {
			if w.letGo(receipt) {
				rest = append(rest, job{receipt: receipt})
			}
		}
		w.giveBack(rest)
	}
	return nil
}

// takeHands takes every hand that is free, at least one: never more jobs are claimed than that. None where ctx ends.
func (w *Worker) takeHands(ctx context.Context) (hands int) {
	select {
	case w.busy <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for hands = 1; ; hands++ {
		select {
		case w.busy <- struct{}{}:
		default:
			return hands
		}
	}
}

func (w *Worker) claim(hands int) (jobs []job, err error) {
	if hands == 0 {
		return nil, nil
	}
	// Not with the worker's context: a claim that is broken off may have been answered, and its jobs would wait.
	reply, err := w.claims.Do(context.Background(), "DQ.CLAIM", w.Queue, "COUNT", hands,
		"LEASE", w.Lease.Milliseconds(), "BLOCK", block.Milliseconds()).Slice()
	for _, item := range reply {
		fields := item.([]any) // receipt, payload, id, attempt, lease-ms, retries-left; later versions append
		jobs = append(jobs, job{fields[0].(string), fields[1].(string), fields[2].(string)})
	}
	return jobs, err
}

func (w *Worker) work(ctx context.Context, job job) {
	end := w.outcome(ctx, job)
	// One that was broken off has nothing to tell: its job is somebody else's, or was given back.
	if w.letGo(job.receipt) && end != nil {
		w.tell(forEver, end...)
	}
}

// outcome runs the handler, and gives the command that tells what came of it.
func (w *Worker) outcome(ctx context.Context, job job) (end []any) {
	defer func() {
		if cause := recover(); cause != nil { // It would end the whole worker.
			end = []any{"DQ.RETRY", job.receipt, "ERROR", fmt.Sprint("panic: ", cause), "STACK", debug.Stack()}
		}
	}()
	err := w.Handle(ctx, []byte(job.payload), job.id)
	var kind UnknownKind
	failed := &failure{error: err, delay: -1}
	switch {
	case err == nil:
		return []any{"DQ.ACK", job.receipt}
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &kind):
		slog.Warn(err.Error(), "receipt", job.receipt)
		return []any{"DQ.RELEASE", "DELAY", unknownKind.Milliseconds(), "RECEIPTS", job.receipt}
	case errors.As(err, &failed) && failed.permanent:
		return []any{"DQ.FAIL", job.receipt, "ERROR", err.Error(), "STACK", failed.stack}
	}
	end = []any{"DQ.RETRY", job.receipt, "ERROR", err.Error(), "STACK", failed.stack}
	if failed.delay >= 0 {
		end = append(end, "DELAY", failed.delay.Milliseconds())
	}
	return end
}

func (w *Worker) giveBack(jobs []job) {
	command := []any{"DQ.RELEASE", "RECEIPTS"}
	for _, job := range jobs {
		command = append(command, job.receipt)
	}
	if len(jobs) > 0 {
		w.tell(lastWords, command...)
	}
}

// tell tells the end of a job until there is an answer: a receipt acts once, so telling it again does no harm.
func (w *Worker) tell(patience time.Duration, command ...any) {
	verb, receipt := command[0], command[1]
	if verb == "DQ.RELEASE" {
		receipt = command[len(command)-1]
	}
	log := slog.With("verb", verb, "receipt", receipt)
	words := append([]any{verb, w.Queue}, command[1:]...)
	start := time.Now()
	for tries := 0; ; tries++ {
		answer, err := w.db.Do(context.Background(), words...).Result()
		var refused redis.Error // The server's own words; all else is no answer.
		switch {
		case redis.HasErrorPrefix(err, "DQLOST") || err == nil && isStale(verb, answer):
			if tries > 0 {
				log.Info("stale: an earlier try did it, or the lease ran out meanwhile")
			} else {
				log.Warn("stale: its lease ran out, and it is somebody else's")
			}
			return
		case err == nil:
			log.Info("told", "answer", answer)
			return
		case errors.As(err, &refused):
			patience = w.Lease // A refusal that lasts for a lease is no failover.
		}
		log.Warn("not told", "error", err)
		if time.Since(start) > patience {
			log.Error("given up: the job comes back when its lease ends")
			return
		}
		time.Sleep(Backoff(tries))
	}
}

func isStale(verb, answer any) bool {
	if verb == "DQ.ACK" {
		return answer == int64(0)
	}
	left, ok := answer.([]any)
	return ok && len(left) == 1 && left[0] == int64(-1)
}

// keepLeases extends the leases of all jobs at hand with one command, three times a lease.
func (w *Worker) keepLeases() {
	for range time.Tick(w.Lease / 3) {
		receipts := w.receipts()
		if len(receipts) == 0 {
			continue
		}
		command := []any{"DQ.EXTEND", w.Queue, w.Lease.Milliseconds()}
		for _, receipt := range receipts {
			command = append(command, receipt)
		}
		left, err := w.db.Do(context.Background(), command...).Int64Slice()
		if err != nil {
			slog.Warn("leases are not extended", "error", err)
			continue
		}
		for i, receipt := range receipts {
			if left[i] == -1 && w.letGo(receipt) { // Else it has just ended.
				slog.Warn("stale: its lease is lost while it runs", "receipt", receipt)
			}
		}
	}
}

func (w *Worker) receipts() (all []string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for receipt := range w.held {
		all = append(all, receipt)
	}
	return all
}

func (w *Worker) hold(receipt string, cancel context.CancelFunc) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.held[receipt] = cancel
}

// letGo ends the handler's context, and says whether the job was still held.
func (w *Worker) letGo(receipt string) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	cancel, held := w.held[receipt]
	if held {
		delete(w.held, receipt)
		cancel()
	}
	return held
}

func sleep(ctx context.Context, time_ time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time_):
	}
}
