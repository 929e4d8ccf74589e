// Pushes one webhook, and prints the id of its job: producer URL BODY [DELAY [ID]]
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"webhooks/dq"
)

// An ID stays taken for 5 minutes (dq.id-keep). Later than that, the same push could make a second job.
const patience = 4 * time.Minute

// push sends again until there is an answer: with an ID of its own, a job that is pushed twice is one job.
func push(ctx context.Context, db *redis.Client, queue string, payload []byte, id, delay string) (string, error) {
	start := time.Now()
	for tries := 0; ; tries++ {
		answer, err := db.Do(ctx, "DQ.PUSH", queue, payload, "ID", id, "DELAY", delay).Text()
		if err == nil || !passes(err) || time.Since(start) > patience {
			return answer, err
		}
		log.Print("again in a moment: ", err)
		time.Sleep(dq.Backoff(tries))
	}
}

// passes says whether the same push may be taken a moment later: there was no answer, a failover goes on, there is no
// room, the module is being exchanged.
func passes(err error) bool {
	var refused redis.Error
	if !errors.As(err, &refused) {
		return true
	}
	waits := []string{"READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "DQFULL", "OOM", "ERR unknown command"}
	for _, prefix := range waits {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 || len(os.Args) > 5 {
		log.Fatal("usage: producer URL BODY [DELAY [ID]]")
	}
	// The id is made before the first try: whoever calls this again after a crash passes an id of his own.
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		log.Fatal(err)
	}
	args := append(os.Args[1:], []string{"0", hex.EncodeToString(random)}[len(os.Args)-3:]...)
	payload, err := json.Marshal(map[string]string{"kind": "webhook", "url": args[0], "body": args[1]})
	if err != nil {
		log.Fatal(err)
	}
	db, err := dq.Connect(5 * time.Second)
	if err != nil {
		log.Fatal(err)
	}
	id, err := push(context.Background(), db, dq.Env("DQ_QUEUE", "webhooks"), payload, args[3], args[2])
	if err != nil {
		log.Fatal("not pushed: ", err)
	}
	fmt.Println(id)
}
