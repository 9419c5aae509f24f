// Requests jobs of a Warrener from Node: npm install && node request.mjs
import { randomBytes, randomUUID } from "node:crypto";
import amqp from "amqplib";

const url = process.env.WARRENER_BROKER_URL ?? "amqp://guest:guest@127.0.0.1:5672/%2F";
const source = "node-shop";
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();

// Replies come to a queue of this program. Its address begins with the user of the broker, so that a
// permission can name it.
const user = decodeURIComponent(new URL(url).username || "guest").slice(0, 47);
const address = `${user.replace(/[^A-Za-z0-9_-]/g, "-")}-${randomBytes(16).toString("hex")}`;
const queue = `warrener.reply.${address}`;
await channel.assertQueue(queue, { exclusive: true, durable: true });
await channel.bindQueue(queue, "warrener.events", `reply.${address}`);

const waiting = new Map(); // by the id of a request or command
await channel.consume(queue, (message) => {
  const body = JSON.parse(message.content);
  for (const event of Array.isArray(body) ? body : [body]) {
    const id = event.data.request_id ?? event.data.command_id;
    waiting.get(id)?.(event); // a repeat of a reply changes nothing
    waiting.delete(id);
  }
}, { noAck: true });

const reply = (id) => new Promise((resolve) => waiting.set(id, resolve));
const event = (type, data, id) => ({
  specversion: "1.0", type, source, id, time: new Date().toISOString(), data: { ...data, reply_to: address },
});

// One event, or several of one routing key as a batch. Returns when the broker has stored the message.
function publish(exchange, key, events) {
  const kind = events.length > 1 ? "application/cloudevents-batch+json" : "application/cloudevents+json";
  const body = Buffer.from(JSON.stringify(events.length > 1 ? events : events[0]));
  return new Promise((resolve, reject) => channel.publish(exchange, key, body,
    { contentType: kind, persistent: true, mandatory: true }, (error) => (error ? reject(error) : resolve())));
}

async function request(jobType, argumentsOfEach, ids = argumentsOfEach.map(() => randomUUID()), more = {}) {
  const replies = ids.map(reply);
  const events = argumentsOfEach.map((each, place) =>
    event("job.requested.v1", { job_type: jobType, arguments: each, ...more }, ids[place]));
  await publish("warrener.requests", jobType, events);
  return replies; // job.finished or job.rejected of each
}

async function command(name, data) {
  const id = randomUUID(), handled = reply(id);
  await publish("warrener.commands", name, [event(`${name}.v1`, data, id)]);
  return (await handled).data;
}

const answer = async (replies) => (await Promise.all(replies)).map((one) => one.data.result).join(" ");

const id = randomUUID(), ada = [{ name: "Ada" }];
console.log("answer:", await answer(await request("hello.greet", ada, [id])));
console.log("rejection:", (await (await request("hello.greet", [{}]))[0]).data.reason);
console.log("repeat:", (await (await request("hello.greet", ada, [id]))[0]).data.job_id === id ? "same job" : "?");
console.log("batch:", await answer(await request("hello.greet", [{ name: "Bob" }, { name: "Eve" }])));

const late = randomUUID(), [end] = await request("hello.greet", ada, [late], { delay: "PT10M" });
console.log("cancel:", (await command("job.cancel_requested", { job_id: late })).accepted, (await end).data.state);

const rule = { kind: "cron", expression: "@daily" };
const schedule = { name: "node.hello", rule, job_type: "hello.greet", arguments: ada[0] };
console.log("schedule:", (await command("schedule.put", schedule)).accepted);

const meeting = randomUUID(), [met] = await request("hello.meet", ada, [meeting]);
await command("job.signal_requested", { job_id: meeting, name: "door", data: "Bob" });
console.log("signal:", await answer([met]));
await connection.close();
