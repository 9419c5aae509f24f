// River's side of the benchmark: `migrate` makes its tables, `work` does jobs, `ask` requests them when it is told to,
// by the same JSON lines as driver.py. River keeps jobs in PostgreSQL and has no broker.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

const (
	atOnce     = 1000                  // jobs in one insert
	maxWorkers = 2000                  // jobs that run at once
	look       = time.Millisecond      // between looks for the end of a job
	tick       = 20 * time.Millisecond // between two portions of a steady load
	warm       = 3                     // samples that are not counted
)

type place struct {
	DatabaseURL string `json:"database_url"`
	StampPort   int    `json:"stamp_port"`
}

type noopArgs struct {
	Payload string `json:"payload"`
}

func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
}

func (*noopWorker) Work(context.Context, *river.Job[noopArgs]) error { return nil }

type stampedArgs struct{}

func (stampedArgs) Kind() string { return "stamped" }

type stampedWorker struct {
	river.WorkerDefaults[stampedArgs]
	to net.Conn
}

func (w *stampedWorker) Work(context.Context, *river.Job[stampedArgs]) error {
	_, err := w.to.Write([]byte(strconv.FormatInt(time.Now().UnixNano(), 10)))
	return err
}

type command struct {
	Do      string  `json:"do"`
	Count   int     `json:"count"`
	Payload int     `json:"payload"`
	Samples int     `json:"samples"`
	Rate    float64 `json:"rate"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("expected migrate, work or ask")
	}
	var here place
	if err := json.Unmarshal([]byte(os.Getenv("WARRENER_BENCH_PLACE")), &here); err != nil {
		return fmt.Errorf("expected the place in WARRENER_BENCH_PLACE: %w", err)
	}
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(here.DatabaseURL)
	if err != nil {
		return err
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	switch os.Args[1] {
	case "migrate":
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		if err != nil {
			return err
		}
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	case "work":
		return work(ctx, pool, here.StampPort)
	case "ask":
		return ask(ctx, pool, here.StampPort)
	}
	return fmt.Errorf("expected migrate, work or ask, got %s", os.Args[1])
}

func work(ctx context.Context, pool *pgxpool.Pool, stampPort int) error {
	to, err := net.Dial("udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(stampPort)))
	if err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{})
	river.AddWorker(workers, &stampedWorker{to: to})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maxWorkers}},
		Workers: workers,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	return client.Stop(ctx)
}

type asker struct {
	client *river.Client[pgx.Tx]
	stamps net.PacketConn
}

func ask(ctx context.Context, pool *pgxpool.Pool, stampPort int) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	stamps, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(stampPort)))
	if err != nil {
		return err
	}
	one, answers := &asker{client, stamps}, json.NewEncoder(os.Stdout)
	if err := answers.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var told command
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			return err
		}
		var answer any
		switch told.Do {
		case "ask":
			answer, err = one.timed(ctx, told.Count, told.Payload)
		case "latency":
			answer, err = one.underLoad(ctx, told.Samples, told.Rate)
		default:
			err = fmt.Errorf("expected ask or latency, got %s", told.Do)
		}
		if err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (a *asker) timed(ctx context.Context, count, size int) (map[string]float64, error) {
	used, began := cpu(), time.Now()
	err := a.insert(ctx, count, strings.Repeat("x", size))
	return map[string]float64{"seconds": time.Since(began).Seconds(), "cpu": cpu() - used}, err
}

func (a *asker) insert(ctx context.Context, count int, payload string) error {
	for first := 0; first < count; first += atOnce {
		jobs := make([]river.InsertManyParams, min(atOnce, count-first))
		for number := range jobs {
			jobs[number] = river.InsertManyParams{Args: noopArgs{payload}}
		}
		if _, err := a.client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func (a *asker) underLoad(ctx context.Context, samples int, rate float64) (map[string][]float64, error) {
	loading, stop := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	if rate > 0 {
		go func() { loaded <- a.load(loading, rate) }()
	} else {
		loaded <- nil
	}
	found, err := a.latency(ctx, samples)
	stop()
	return found, errors.Join(err, <-loaded)
}

func (a *asker) load(ctx context.Context, rate float64) error {
	began, asked := time.Now(), 0
	for ticks := time.NewTicker(tick); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		due := int(time.Since(began).Seconds()*rate) - asked
		if err := a.insert(ctx, due, strings.Repeat("x", 100)); err != nil && ctx.Err() == nil {
			return err
		}
		asked += due
	}
}

func (a *asker) latency(ctx context.Context, samples int) (map[string][]float64, error) {
	found := map[string][]float64{"started": {}, "seen": {}}
	datagram := make([]byte, 32)
	for number := range samples + warm {
		asked := time.Now().UnixNano()
		inserted, err := a.client.Insert(ctx, stampedArgs{}, nil)
		if err != nil {
			return nil, err
		}
		for {
			job, err := a.client.JobGet(ctx, inserted.Job.ID)
			if err != nil {
				return nil, err
			}
			if job.State == rivertype.JobStateCompleted {
				break
			}
			time.Sleep(look)
		}
		done := time.Now().UnixNano()
		if err := a.stamps.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			return nil, err
		}
		size, _, err := a.stamps.ReadFrom(datagram)
		if err != nil {
			return nil, err
		}
		began, err := strconv.ParseInt(string(datagram[:size]), 10, 64)
		if err != nil {
			return nil, err
		}
		if number >= warm {
			found["started"] = append(found["started"], float64(began-asked)/1e6)
			found["seen"] = append(found["seen"], float64(done-asked)/1e6)
		}
	}
	return found, nil
}

func cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
