// Requests jobs of a Warrener from Go: go run .
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"os"
	"regexp"
	"strings"
)

type object = map[string]any

var channel *amqp.Channel
var address string
var deliveries <-chan amqp.Delivery
var arrived = map[string]object{} // the data of replies, by the id of a request or command

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// publish sends an event for each data, in one batch, and returns their ids when the broker has stored them.
func publish(exchange, key, kind, id string, data ...object) (ids []string) {
	events := []object{}
	for _, each := range data {
		each["reply_to"], ids = address, append(ids, id)
		events = append(events, object{"specversion": "1.0", "type": kind, "source": "go-shop", "id": id, "data": each})
		id = uuid.NewString()
	}
	message := amqp.Publishing{ContentType: "application/cloudevents-batch+json", DeliveryMode: amqp.Persistent,
		Body: must(json.Marshal(events))}
	if !must(channel.PublishWithDeferredConfirm(exchange, key, true, false, message)).Wait() {
		panic("the broker refused the message")
	}
	return ids
}

// reply waits for job.finished, job.rejected or command.handled and returns its data.
func reply(id string) object {
	for arrived[id] == nil {
		body := string((<-deliveries).Body)
		body = "[" + strings.TrimSuffix(strings.TrimPrefix(body, "["), "]") + "]" // one event, or a batch
		var events []struct{ Data object }
		must(0, json.Unmarshal([]byte(body), &events))
		for _, event := range events {
			arrived[fmt.Sprint(cmp.Or(event.Data["request_id"], event.Data["command_id"]))] = event.Data
		}
	}
	defer delete(arrived, id)
	return arrived[id]
}

func request(id, jobType string, data ...object) []string {
	return publish("warrener.requests", jobType, "job.requested.v1", id, data...)
}

func command(name string, data object) any {
	return reply(publish("warrener.commands", name, name+".v1", uuid.NewString(), data)[0])["accepted"]
}

func job(kind string, of object) object { return object{"job_type": kind, "arguments": of} }

func main() {
	url := os.Getenv("WARRENER_BROKER_URL")
	connection := must(amqp.Dial(url))
	defer connection.Close()
	channel = must(connection.Channel())
	must(0, channel.Confirm(false))
	// Replies come to a queue of this program. Its address begins with its user, so that a permission can name it.
	user := regexp.MustCompile("[^A-Za-z0-9_-]").ReplaceAllString(must(amqp.ParseURI(url)).Username, "-")
	address = user[:min(len(user), 47)] + "-" + strings.ReplaceAll(uuid.NewString(), "-", "")
	queue := must(channel.QueueDeclare("warrener.reply."+address, true, false, true, false, nil)).Name
	must(0, channel.QueueBind(queue, "reply."+address, "warrener.events", false, nil))
	deliveries = must(channel.Consume(queue, "", true, true, false, false, nil))
	id, late, meeting, ada := uuid.NewString(), uuid.NewString(), uuid.NewString(), object{"name": "Ada"}
	request(id, "hello.greet", job("hello.greet", ada))
	fmt.Println("answer:", reply(id)["result"])
	bad := request(uuid.NewString(), "hello.greet", job("hello.greet", object{}))[0]
	fmt.Println("rejection:", reply(bad)["reason"])
	request(id, "hello.greet", job("hello.greet", ada))
	fmt.Println("repeat:", map[bool]string{true: "same job"}[reply(id)["job_id"] == id])
	two := request(uuid.NewString(), "hello.greet", job("hello.greet", object{"name": "Bob"}), job("hello.greet", object{"name": "Eve"}))
	fmt.Println("batch:", reply(two[0])["result"], reply(two[1])["result"])
	request(late, "hello.greet", object{"job_type": "hello.greet", "arguments": ada, "delay": "PT10M"})
	accepted := command("job.cancel_requested", object{"job_id": late})
	fmt.Println("cancel:", accepted, reply(late)["state"])
	fmt.Println("schedule:", command("schedule.put", object{"name": "go.hello", "job_type": "hello.greet",
		"rule": object{"kind": "cron", "expression": "@daily"}, "arguments": ada}))
	request(meeting, "hello.meet", job("hello.meet", ada))
	command("job.signal_requested", object{"job_id": meeting, "name": "door", "data": "Bob"})
	fmt.Println("signal:", reply(meeting)["result"])
}
