// Delivers webhooks from a queue of DQ. README.md says how to start it; ../dq is the worker, this is its handler.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/url"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"webhooks/dq"
)

// No receiver puts us off for longer. Keep it below dq.max-delay.
const mostRetryAfter = time.Hour

var client = &http.Client{
	Timeout: seconds("DQ_HTTP_TIMEOUT_S", 10),
	// It would follow with a GET, which delivers nothing.
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// handle looks into the payload here, where a fault costs only the job.
func handle(ctx context.Context, payload []byte, id string) error {
	var job struct{ Kind *string }
	if err := json.Unmarshal(payload, &job); err != nil {
		return dq.Permanent("the payload does not parse: %w", err)
	}
	if job.Kind == nil {
		return dq.Permanent("the payload has no kind")
	}
	if *job.Kind != "webhook" {
		return dq.UnknownKind(*job.Kind)
	}
	var hook struct{ URL, Body *string }
	if err := json.Unmarshal(payload, &hook); err != nil {
		return dq.Permanent("the payload does not parse: %w", err)
	}
	if hook.URL == nil || hook.Body == nil {
		return dq.Permanent("the payload has no url or no body")
	}
	return deliver(ctx, *hook.URL, *hook.Body, id)
}

// deliver POSTs one webhook. It can come twice: the receiver knows it again by the job's id.
func deliver(ctx context.Context, to, body, id string) error {
	if parsed, err := url.Parse(to); err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return dq.Permanent("not a web address: %s", to)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader([]byte(body)))
	if err != nil {
		return dq.Permanent("cannot be sent: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", id)
	response, err := client.Do(request)
	if err != nil {
		return dq.Temporary(-1, "no answer: %w", err)
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // Read to its end, the connection is free for the next.
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusTooManyRequests || code >= 500:
		return dq.Temporary(retryAfter(response.Header.Get("Retry-After")), "%s answered %d", to, code)
	default:
		return dq.Permanent("%s answered %d", to, code)
	}
}

// retryAfter reads seconds, or a date; negative where there is neither.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, mostRetryAfter)
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(date), 0), mostRetryAfter)
	}
	return -1
}

func number(name string, or int) int {
	value, err := strconv.Atoi(dq.Env(name, strconv.Itoa(or)))
	if err != nil || value < 1 {
		log.Fatalf("%s must be a whole number from 1 on", name)
	}
	return value
}

func seconds(name string, or int) time.Duration { return time.Duration(number(name, or)) * time.Second }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	worker := dq.Worker{
		Queue: dq.Env("DQ_QUEUE", "webhooks"), Handle: handle, Hands: number("DQ_HANDS", 4),
		Lease: time.Duration(number("DQ_LEASE_MS", 30_000)) * time.Millisecond, Grace: seconds("DQ_GRACE_S", 20),
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
