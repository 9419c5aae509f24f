// Requests jobs of a Warrener from Java: mvn dependency:copy-dependencies -DoutputDirectory=lib && java -cp 'lib/*' Request.java
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;

class Request {
  static final ObjectMapper JSON = new ObjectMapper();
  static final Map<String, CompletableFuture<JsonNode>> WAITING = new ConcurrentHashMap<>(); // by request or command
  static Channel channel;
  static String address;

  /** Sends an event for each id, in one batch; returns when the broker has stored the message. */
  static void publish(String exchange, String key, String type, List<String> ids, List<Map<String, Object>> data)
      throws Exception {
    var events = new ArrayList<Map<String, Object>>();
    for (int i = 0; i < ids.size(); i++) {
      var all = new HashMap<>(data.get(i));
      all.put("reply_to", address);
      events.add(Map.of("specversion", "1.0", "type", type, "source", "java-shop", "id", ids.get(i),
          "time", Instant.now().toString(), "data", all));
      WAITING.put(ids.get(i), new CompletableFuture<>());
    }
    var properties = new AMQP.BasicProperties.Builder()
        .contentType("application/cloudevents-batch+json").deliveryMode(2).build();
    channel.basicPublish(exchange, key, true, properties, JSON.writeValueAsBytes(events));
    channel.waitForConfirmsOrDie(30_000);
  }

  static void request(String jobType, String id, Map<String, Object> arguments) throws Exception {
    publish("warrener.requests", jobType, "job.requested.v1", List.of(id),
        List.of(Map.of("job_type", jobType, "arguments", arguments)));
  }

  static JsonNode command(String name, Map<String, Object> data) throws Exception {
    var id = UUID.randomUUID().toString();
    publish("warrener.commands", name, name + ".v1", List.of(id), List.of(data));
    return reply(id);
  }

  /** The data of job.finished, job.rejected or command.handled. */
  static JsonNode reply(String id) throws Exception {
    return WAITING.get(id).get(60, TimeUnit.SECONDS);
  }

  static void receive(byte[] body) throws java.io.IOException {
    var found = JSON.readTree(body);
    for (var event : found.isArray() ? found : List.of(found)) {
      var data = event.get("data");
      var waiting = WAITING.get(data.path(data.has("request_id") ? "request_id" : "command_id").asText());
      if (waiting != null) waiting.complete(data); // a repeat of a reply changes nothing
    }
  }

  public static void main(String[] none) throws Exception {
    var factory = new ConnectionFactory();
    factory.setUri(System.getenv("WARRENER_BROKER_URL"));
    try (var connection = factory.newConnection("java-shop")) {
      channel = connection.createChannel();
      channel.confirmSelect();
      // Replies come to a queue of this program. Its address begins with the user of the broker, so that a
      // permission can name it.
      var user = factory.getUsername().replaceAll("[^A-Za-z0-9_-]", "-");
      address = user.substring(0, Math.min(47, user.length())) + "-" + UUID.randomUUID().toString().replace("-", "");
      var queue = channel.queueDeclare("warrener.reply." + address, true, true, false, null).getQueue();
      channel.queueBind(queue, "warrener.events", "reply." + address);
      channel.basicConsume(queue, true, (tag, message) -> receive(message.getBody()), tag -> {});

      String id = "day-1", bad = "day-2", bob = "day-3", eve = "day-4", meeting = UUID.randomUUID().toString();
      Map<String, Object> ada = Map.of("name", "Ada");
      request("hello.greet", id, ada);
      var first = reply(id);
      System.out.println("answer: " + first.get("result").asText());
      request("hello.greet", bad, Map.of());
      System.out.println("rejection: " + reply(bad).get("reason").asText());
      request("hello.greet", id, ada);
      System.out.println("repeat: " + (reply(id).get("job_id").equals(first.get("job_id")) ? "same job" : "another"));
      publish("warrener.requests", "hello.greet", "job.requested.v1", List.of(bob, eve), List.of(
          Map.of("job_type", "hello.greet", "arguments", Map.of("name", "Bob")),
          Map.of("job_type", "hello.greet", "arguments", Map.of("name", "Eve"))));
      System.out.println("batch: " + reply(bob).get("result").asText() + " " + reply(eve).get("result").asText());
      var late = UUID.randomUUID().toString();
      publish("warrener.requests", "hello.greet", "job.requested.v1", List.of(late),
          List.of(Map.of("job_type", "hello.greet", "arguments", ada, "delay", "PT10M")));
      var cancelled = command("job.cancel_requested", Map.of("job_id", late)).get("accepted");
      System.out.println("cancel: " + cancelled + " " + reply(late).get("state").asText());
      var rule = Map.of("kind", "cron", "expression", "@daily");
      System.out.println("schedule: " + command("schedule.put", Map.of("name", "java.hello", "rule", rule,
          "job_type", "hello.greet", "arguments", ada)).get("accepted"));
      request("hello.meet", meeting, ada);
      command("job.signal_requested", Map.of("job_id", meeting, "name", "door", "data", "Bob"));
      System.out.println("signal: " + reply(meeting).get("result").asText());
    }
  }
}
